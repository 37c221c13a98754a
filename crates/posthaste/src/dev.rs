//! `posthaste dev`: from nothing to the first delivered event. Everything that [`serve`] runs, a store and
//! a key in `./posthaste-data`, and a receiver that is subscribed to one type of event.

mod demo;
mod keep;

use crate::client::ApiClient;
use crate::database::DatabaseUrl;
use crate::listen::{self, Behaviour, Receiver};
use crate::settings::{self, DatabaseSettings, ProcessRole, Secret, Settings};
use crate::{logs, serve, stdout};
use anyhow::Context as _;
use posthaste_store::sqlite;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use tokio::sync::oneshot;

const FOLDER: &str = "posthaste-data";
/// A start that takes no longer needs no words.
const TELL_AFTER: Duration = Duration::from_secs(1);
const DATABASE: &str = "posthaste-data/posthaste.db";

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let settings = settings::load_for_dev(std::env::vars_os())?;
    logs::start(&settings.log)?;
    let (settings, key) = for_one_machine(settings)?;
    migrate()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(all(&settings, &key))
}

/// Waits for a process that is about to end, and says so: silence looks like a hang.
fn migrate() -> anyhow::Result<()> {
    let (done, waits) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if waits.recv_timeout(TELL_AFTER) == Err(RecvTimeoutError::Timeout) {
                eprintln!("posthaste: waiting for {DATABASE}: it seems that another process uses it");
            }
        });
        let migrated = sqlite::migrate(Path::new(DATABASE));
        drop(done);
        migrated
    })?;
    Ok(())
}

/// What makes a demonstration work, whatever else is set. The store is never another one: a demo
/// subscription has no business in a real database.
fn for_one_machine(mut settings: Settings) -> anyhow::Result<(Settings, Secret)> {
    let url = DatabaseUrl::Sqlite(DATABASE.into());
    settings.database = DatabaseSettings { url, direct: None, logins: Vec::new() };
    settings.roles = ProcessRole::ALL.into_iter().collect();
    keep::create_folder(Path::new(FOLDER))?;
    let key = settings.root_key.take().map_or_else(|| keep::root_key(Path::new(FOLDER)), Ok)?;
    settings.root_key = Some(key.clone());
    Ok((settings, key))
}

async fn all(settings: &Settings, key: &Secret) -> anyhow::Result<ExitCode> {
    let listener = listen::bind(0).await?;
    let receiver_url = format!("http://{}/", listener.local_addr().context("asking for the address")?);
    let receiver = Receiver::new(Behaviour::default());
    let (tell, told) = oneshot::channel();
    let introduce = async {
        // Nobody tells when the process ends before the API listens; then there is nothing to say.
        let Ok(address) = told.await else { return Ok(()) };
        let url = format!("http://{}", reachable(address));
        let server = ApiClient::new(&url, Some(key.expose()))?;
        demo::subscribe(&server, &receiver, &receiver_url, Path::new(FOLDER)).await?;
        guide(&url, key, &receiver_url)
    };
    tokio::select! {
        ended = async { tokio::try_join!(serve::serve(settings, tell), introduce) } => Ok(ended?.0),
        () = receiver.run(listener) => anyhow::bail!("the demo receiver ended"),
    }
}

/// Where a client on this machine finds a server that listens there.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

fn guide(url: &str, key: &Secret, receiver_url: &str) -> anyhow::Result<()> {
    let binary = std::env::current_exe().context("asking for the path of this program")?;
    let posthaste = quoted(&binary.to_string_lossy());
    let folder = std::env::current_dir().unwrap_or_default().join(FOLDER);
    let (folder, key, kind) = (folder.display(), quoted(key.expose()), demo::EVENT_TYPE);
    let text = format!(
        "
Posthaste runs at {url} and keeps everything in {folder}. Ctrl-C ends it.
The dashboard is at {url}/ in a browser: sign in with the key below.
A receiver at {receiver_url} is subscribed to {kind}; what reaches it is told below.

Try this in another terminal:

  export POSTHASTE_URL={url}
  export POSTHASTE_KEY={key}
  {posthaste} event send {kind} --payload '{{\"hello\":\"world\"}}'
  {posthaste} delivery list
  {posthaste} subscription list
  {posthaste} --help

"
    );
    // A terminal that went away is no reason to stop.
    let _ = stdout::print(&text);
    Ok(())
}

/// As a shell reads it as one word.
fn quoted(text: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "/._-+=:,@".contains(char);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        for (text, word) in [
            ("/usr/bin/posthaste", "/usr/bin/posthaste"),
            ("/a b/c", "'/a b/c'"),
            ("it's", r"'it'\''s'"),
            ("$x", "'$x'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), word);
        }
    }

    #[test]
    fn a_server_on_every_address_is_found_on_this_machine() {
        for (listens, found) in
            [("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "127.0.0.1:80"), ("10.0.0.1:80", "10.0.0.1:80")]
        {
            assert_eq!(reachable(listens.parse().unwrap()).to_string(), found);
        }
    }
}
