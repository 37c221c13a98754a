//! Receives the notifications of other processes (sent by [`PostgresAnnouncer`](crate::postgres::PostgresAnnouncer))
//! on a separate connection.
//!
//! A task connects, listens and collects notifications; the caller waits for the collected ones. So a cancelled wait
//! interrupts nothing, not even connecting, and the server does not have to buffer notifications for a busy listener.

use crate::postgres::conn::error::{classify, connecting};
use crate::postgres::conn::pool::{connector, parse_url};
use crate::remote::{Fault, Phase};
use posthaste_core::ports::{Announcement, ListenStore, StoreResult};
use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Config, Connection};

const PROGRAM: &str = "posthaste listener";
const DOING: &str = "listening for announcements";
/// The channel of `sql/announce/announce.sql`.
const LISTEN: &str = "LISTEN posthaste";
/// Timeout for connecting and for LISTEN, each.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Receives the notifications of all processes on this database, including its own. The URL must be a direct one (no
/// pooler); any login will do, since LISTEN needs no privilege.
pub struct PostgresListener {
    config: Config,
    task: Option<ListenTask>,
}

/// Omits the URL, since it may contain a password.
impl std::fmt::Debug for PostgresListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresListener").field("task", &self.task).finish_non_exhaustive()
    }
}

impl PostgresListener {
    /// Parses the URL; the first wait connects.
    pub fn new(url: &str) -> StoreResult<Self> {
        Ok(Self { config: parse_url(url, PROGRAM, ANSWER_TIMEOUT)?, task: None })
    }
}

impl ListenStore for PostgresListener {
    async fn next_announcements(&mut self) -> StoreResult<Announcement> {
        let received = self.task.get_or_insert_with(|| ListenTask::open(self.config.clone())).receive().await;
        received.map_err(|fault| {
            // The next wait starts a new task.
            self.task = None;
            fault.into_error(DOING, true)
        })
    }
}

/// A task with a connection, and the notifications it has received.
#[derive(Debug)]
struct ListenTask {
    mailbox: Arc<Mailbox>,
    task: JoinHandle<()>,
}

impl ListenTask {
    fn open(config: Config) -> Self {
        let mailbox = Arc::new(Mailbox::default());
        let shared = Arc::clone(&mailbox);
        let task = tokio::spawn(async move {
            let fault = listen(&config, &shared).await;
            shared.write(|received| received.fault = Some(fault));
        });
        Self { mailbox, task }
    }

    /// Waits for notifications and removes them from the mailbox. Cancellation-safe: what was removed is returned
    /// without waiting again.
    async fn receive(&self) -> Result<Announcement, Fault> {
        loop {
            let Received { announcement, fault } = self.mailbox.take();
            match fault {
                // Notifications from before the failure are covered by the first result after it, which wakes every
                // stage.
                Some(fault) => return Err(fault),
                None if !announcement.is_empty() => return Ok(announcement),
                None => self.mailbox.written.notified().await,
            }
        }
    }
}

impl Drop for ListenTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Shared by the task, which writes, and the waiting caller. It contains each stage once, however often it was
/// notified.
#[derive(Debug, Default)]
struct Mailbox {
    received: Mutex<Received>,
    /// Stores one wake-up for a reader that arrives later.
    written: Notify,
}

#[derive(Debug, Default)]
struct Received {
    announcement: Announcement,
    /// Why the task ended.
    fault: Option<Fault>,
}

impl Mailbox {
    fn write(&self, note: impl FnOnce(&mut Received)) {
        note(&mut self.received.lock().unwrap_or_else(PoisonError::into_inner));
        self.written.notify_one();
    }

    fn take(&self) -> Received {
        std::mem::take(&mut *self.received.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Connects and collects notifications until the connection breaks; returns the reason.
async fn listen(config: &Config, mailbox: &Mailbox) -> Fault {
    match timeout(ANSWER_TIMEOUT, config.connect(connector())).await {
        Err(_) => timed_out(),
        Ok(Err(error)) => connecting(error),
        Ok(Ok((client, connection))) => tokio::select! {
            fault = begin(&client, mailbox) => fault,
            fault = collect(connection, mailbox) => fault,
        },
    }
}

/// Executes LISTEN. From then on no notification is missed; all stages are woken once for those sent before. Keeps
/// the client alive, without which the connection would end.
async fn begin(client: &Client, mailbox: &Mailbox) -> Fault {
    match timeout(ANSWER_TIMEOUT, client.batch_execute(LISTEN)).await {
        Err(_) => timed_out(),
        Ok(Err(error)) => classify(error, Phase::BeforeCommit),
        Ok(Ok(())) => {
            mailbox.write(|received| received.announcement.merge(Announcement::all()));
            pending().await
        }
    }
}

fn timed_out() -> Fault {
    Fault::TimedOut("the server did not respond in time".into())
}

async fn collect<S, T>(mut connection: Connection<S, T>, mailbox: &Mailbox) -> Fault
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(word))) => {
                mailbox.write(|received| received.announcement.add_message(word.payload()));
            }
            // Other messages, such as notices, are ignored.
            Some(Ok(_)) => {}
            Some(Err(error)) => return Fault::Away(error.into()),
            None => return Fault::Away("the connection was closed".into()),
        }
    }
}
