//! `posthaste dev`: runs everything that [`serve`] runs, with a store and a root key in `./posthaste-data`, and a demo
//! receiver with one subscription. Prints commands for sending the first event.

mod demo;
mod root_key;

use crate::client::ApiClient;
use crate::database::DatabaseUrl;
use crate::listen::{self, Behaviour, Receiver};
use crate::settings::{self, DatabaseSettings, ProcessRole, Secret, Settings};
use crate::{logs, private_file, serve, stdout};
use anyhow::Context as _;
use posthaste_store::postgres::PasswordSource;
use posthaste_store::{RolePrefix, sqlite};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use tokio::sync::oneshot;

const FOLDER: &str = "posthaste-data";
/// The duration of the migration after which a message explains the delay.
const EXPLAIN_AFTER: Duration = Duration::from_secs(1);
const DATABASE: &str = "posthaste-data/posthaste.db";

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let settings = settings::load_for_dev(std::env::vars_os())?;
    logs::start(&settings.log)?;
    let (settings, key) = local_settings(settings)?;
    migrate()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(run_all(&settings, &key))
}

/// Migrates the database. If this takes longer than [`EXPLAIN_AFTER`], prints that another process seems to be using
/// the database.
fn migrate() -> anyhow::Result<()> {
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(EXPLAIN_AFTER) == Err(RecvTimeoutError::Timeout) {
                eprintln!("posthaste: waiting for {DATABASE}: another process seems to be using it");
            }
        });
        let migrated = sqlite::migrate(Path::new(DATABASE));
        drop(done);
        migrated
    })?;
    Ok(())
}

/// Overrides the settings that would prevent the demo from working, and returns them with the root key. The embedded
/// store is always used, so that the demo subscription is never created in a production database.
fn local_settings(mut settings: Settings) -> anyhow::Result<(Settings, Secret)> {
    let url = DatabaseUrl::Sqlite(DATABASE.into());
    settings.database = DatabaseSettings {
        url,
        direct: None,
        role_prefix: RolePrefix::default(),
        logins: Vec::new(),
        password: PasswordSource::Url,
    };
    settings.roles = ProcessRole::ALL.into_iter().collect();
    private_file::create_dir(Path::new(FOLDER))?;
    let key = settings.root_key.take().map_or_else(|| root_key::load_or_create(Path::new(FOLDER)), Ok)?;
    settings.root_key = Some(key.clone());
    Ok((settings, key))
}

/// Runs the services and the demo receiver. Sets up the demo subscription once the API is listening.
async fn run_all(settings: &Settings, key: &Secret) -> anyhow::Result<ExitCode> {
    let listener = listen::bind(0).await?;
    let receiver_url =
        format!("http://{}/", listener.local_addr().context("reading the address of the demo receiver")?);
    let receiver = Receiver::new(Behaviour::default(), false);
    let (send_address, address) = oneshot::channel();
    let introduce = async {
        // The sender is dropped if the process ends before the API is listening.
        let Ok(address) = address.await else { return Ok(()) };
        let url = format!("http://{}", reachable(address));
        let server = ApiClient::new(&url, Some(key.expose()))?;
        demo::subscribe(&server, &receiver, &receiver_url, Path::new(FOLDER)).await?;
        guide(&url, key, &receiver_url)
    };
    tokio::select! {
        ended = async { tokio::try_join!(serve::serve(settings, send_address), introduce) } => Ok(ended?.0),
        () = receiver.run(listener) => anyhow::bail!("the demo receiver stopped"),
    }
}

/// Returns the address at which a client on this machine can reach a server bound to `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

/// Prints the URL of the server, the root key and commands to try.
fn guide(url: &str, key: &Secret, receiver_url: &str) -> anyhow::Result<()> {
    let binary = std::env::current_exe().context("reading the path of this program")?;
    let posthaste = quoted(&binary.to_string_lossy());
    let folder = std::env::current_dir().unwrap_or_default().join(FOLDER);
    let (folder, key, kind) = (folder.display(), quoted(key.expose()), demo::EVENT_TYPE);
    let text = format!(
        "
Posthaste is running at {url} with its data in {folder}. Press Ctrl-C to stop it.
Dashboard: {url}/ (sign in with the key below)
Demo receiver: {receiver_url}, subscribed to {kind}; each request it receives is printed below.

Try this in another terminal:

  export POSTHASTE_URL={url}
  export POSTHASTE_KEY={key}
  {posthaste} event send {kind} --payload '{{\"hello\":\"world\"}}'
  {posthaste} delivery list
  {posthaste} subscription list
  {posthaste} --help

"
    );
    // Errors are ignored, so that the server keeps running after its terminal is closed.
    let _ = stdout::print(&text);
    Ok(())
}

/// Quotes text as a single word for a POSIX shell.
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
    fn text_is_quoted_for_a_shell() {
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
    fn unspecified_address_is_reached_on_loopback() {
        for (listens, found) in
            [("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "127.0.0.1:80"), ("10.0.0.1:80", "10.0.0.1:80")]
        {
            assert_eq!(reachable(listens.parse().unwrap()).to_string(), found);
        }
    }
}
