//! Hears what other processes announce (through [`PostgresAnnouncer`](crate::postgres::PostgresAnnouncer)), on a
//! connection of its own.
//!
//! A task connects, listens and gathers; whoever waits takes what was gathered. So a wait that is given up
//! breaks nothing off, not even the connecting, and the server never has to keep words for a listener
//! that is busy.

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
/// The channel is that of `sql/announce/announce.sql`.
const LISTEN: &str = "LISTEN posthaste";
/// How long the server may take for each of the two things before there is something to hear.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Hears the words of every process on this database, its own too. The URL is a direct one (no pooler), of
/// any login: listening asks for no right.
pub struct PostgresListener {
    config: Config,
    task: Option<ListenTask>,
}

/// URLs carry passwords.
impl std::fmt::Debug for PostgresListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresListener").field("ear", &self.task).finish_non_exhaustive()
    }
}

impl PostgresListener {
    /// Reads the URL; the first wait connects.
    pub fn new(url: &str) -> StoreResult<Self> {
        Ok(Self { config: parse_url(url, PROGRAM, ANSWER_TIMEOUT)?, task: None })
    }
}

impl ListenStore for PostgresListener {
    async fn next_announcements(&mut self) -> StoreResult<Announcement> {
        let heard = self.task.get_or_insert_with(|| ListenTask::open(self.config.clone())).hear().await;
        heard.map_err(|fault| {
            // The next wait opens a new one.
            self.task = None;
            fault.into_error(DOING, true)
        })
    }
}

/// A task with a connection, and what it has heard.
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
            shared.write(|heard| heard.fault = Some(fault));
        });
        Self { mailbox, task }
    }

    /// Waits until there is something on the board, and takes it off. Nothing is taken by a wait that is
    /// given up, because what was taken is answered without waiting again.
    async fn hear(&self) -> Result<Announcement, Fault> {
        loop {
            let Received { announcement, fault } = self.mailbox.take();
            match fault {
                // What was heard before the break is answered by the first answer after it.
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

/// Where the task writes and the waiting one reads. It holds each stage once, however often it was called.
#[derive(Debug, Default)]
struct Mailbox {
    heard: Mutex<Received>,
    /// Keeps one wake-up for a reader that comes later.
    written: Notify,
}

#[derive(Debug, Default)]
struct Received {
    announcement: Announcement,
    /// Why nothing more will come.
    fault: Option<Fault>,
}

impl Mailbox {
    fn write(&self, note: impl FnOnce(&mut Received)) {
        note(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        self.written.notify_one();
    }

    fn take(&self) -> Received {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Connects, and writes down what it hears until the connection breaks; answers why it broke.
async fn listen(config: &Config, mailbox: &Mailbox) -> Fault {
    match timeout(ANSWER_TIMEOUT, config.connect(connector())).await {
        Err(_) => no_answer(),
        Ok(Err(error)) => connecting(error),
        Ok(Ok((client, connection))) => tokio::select! {
            fault = begin(&client, mailbox) => fault,
            fault = gather(connection, mailbox) => fault,
        },
    }
}

/// Asks for the words. From then on none is missed, and what was said before is made good by calling every
/// stage once. Holds the client, without which the connection would end.
async fn begin(client: &Client, mailbox: &Mailbox) -> Fault {
    match timeout(ANSWER_TIMEOUT, client.batch_execute(LISTEN)).await {
        Err(_) => no_answer(),
        Ok(Err(error)) => classify(error, Phase::BeforeCommit),
        Ok(Ok(())) => {
            mailbox.write(|heard| heard.announcement.merge(Announcement::all()));
            pending().await
        }
    }
}

fn no_answer() -> Fault {
    Fault::TimedOut("the server did not answer in time".into())
}

async fn gather<S, T>(mut connection: Connection<S, T>, mailbox: &Mailbox) -> Fault
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(word))) => {
                mailbox.write(|heard| heard.announcement.add_message(word.payload()));
            }
            // Notices say nothing that concerns us.
            Some(Ok(_)) => {}
            Some(Err(error)) => return Fault::Away(error.into()),
            None => return Fault::Away("the connection was closed".into()),
        }
    }
}
