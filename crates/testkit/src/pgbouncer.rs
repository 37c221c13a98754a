//! PgBouncer in front of a [`PrivateServer`]. `scripts/with-tools` provides the program.

use crate::fleet::free_address;
use crate::private_server::{PrivateServer, as_server_user, new_folder, variable};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long a client keeps its connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    Session,
    Transaction,
}

/// A running PgBouncer, which is killed on drop.
#[derive(Debug)]
pub struct PgBouncer {
    child: Child,
    folder: PathBuf,
    pub address: SocketAddr,
}

impl PgBouncer {
    /// Starts PgBouncer and waits until it accepts connections of `users`, who need no password.
    pub fn start(server: &PrivateServer, mode: PoolMode, users: &[&str]) -> Self {
        let (folder, address) = (new_folder("pgbouncer"), free_address());
        let made = as_server_user(Path::new("mkdir")).arg(&folder).status().expect("mkdir");
        assert!(made.success(), "{} cannot be created", folder.display());
        let list: String = users.iter().map(|user| format!("\"{user}\" \"\"\n")).collect();
        std::fs::write(folder.join("users.txt"), list).expect("to write the list of users");
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
        };
        let socket = server.socket();
        let (place, port) = (folder.display(), address.port());
        let settings = format!(
            "[databases]\n* = host={}\n[pgbouncer]\npool_mode = {mode}\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir = {place}\nauth_type = trust\nauth_file = {place}/users.txt\nlogfile = {place}/log\n\
             default_pool_size = 50\n",
            socket.parent().expect("a folder").display()
        );
        std::fs::write(folder.join("pgbouncer.ini"), settings).expect("to write the settings");
        let mut command = as_server_user(Path::new(&variable("POSTHASTE_TEST_PGBOUNCER")));
        command.arg("--quiet").arg(folder.join("pgbouncer.ini")).stdin(Stdio::null());
        let child = command.spawn().expect("to start pgbouncer");
        let bouncer = Self { child, folder, address };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            let log = || std::fs::read_to_string(bouncer.folder.join("log")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "pgbouncer does not listen: {}", log());
            std::thread::sleep(POLL_INTERVAL);
        }
        bouncer
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
