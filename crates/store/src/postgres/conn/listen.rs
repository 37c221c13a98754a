//! Receives notifications from other processes (sent by [`PostgresAnnouncer`](crate::postgres::PostgresAnnouncer)) on a
//! dedicated connection.
//!
//! A background task connects, listens and collects notifications; the caller waits for collected notifications.
//! Cancelling the wait therefore does not interrupt the connection or its setup, and the server does not have to buffer
//! notifications for a busy process.

use crate::postgres::conn::connect::{Connector, Transport};
use crate::postgres::conn::error::{classify, connecting};
use crate::postgres::conn::monitor::ConnectionMonitor;
use crate::postgres::conn::password::PasswordSource;
use crate::remote::{Fault, Phase};
use posthaste_core::ports::{Announcement, ListenStore, StoreResult};
use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client};

const PROGRAM: &str = "posthaste listener";
const DOING: &str = "listening for announcements";
/// The statement that subscribes to the channel used by `sql/announce/announce.sql`.
const LISTEN: &str = "LISTEN posthaste";
/// Timeout for LISTEN.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A listener for the notifications of all processes that use the database, including this one. The URL must connect to
/// the server directly, without a connection pooler. Any login will do, since LISTEN needs no privilege.
pub struct PostgresListener {
    connector: Arc<Connector>,
    monitor: ConnectionMonitor,
    task: Option<ListenTask>,
}

/// Omits the URL, since it may contain a password.
impl std::fmt::Debug for PostgresListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresListener").field("task", &self.task).finish_non_exhaustive()
    }
}

impl PostgresListener {
    /// Parses the URL. The first call to [`ListenStore::next_announcements`] connects.
    pub fn new(url: &str, monitor: &ConnectionMonitor) -> StoreResult<Self> {
        Self::with_password(url, &PasswordSource::Url, monitor)
    }

    /// Parses the URL of a login whose password comes from `password`. See [`Self::new`].
    pub fn with_password(
        url: &str,
        password: &PasswordSource,
        monitor: &ConnectionMonitor,
    ) -> StoreResult<Self> {
        let connector = Connector::new(url, PROGRAM, monitor)?.with_password(password)?;
        Ok(Self { connector: Arc::new(connector), monitor: monitor.clone(), task: None })
    }
}

impl ListenStore for PostgresListener {
    async fn next_announcements(&mut self) -> StoreResult<Announcement> {
        let received = self
            .task
            .get_or_insert_with(|| ListenTask::open(Arc::clone(&self.connector), &self.monitor))
            .receive()
            .await;
        received.map_err(|fault| {
            // The next wait starts a new task.
            self.task = None;
            fault.into_error(DOING, true)
        })
    }
}

/// A background task with a connection, and the notifications that it has received.
#[derive(Debug)]
struct ListenTask {
    mailbox: Arc<Mailbox>,
    task: JoinHandle<()>,
}

impl ListenTask {
    fn open(connector: Arc<Connector>, monitor: &ConnectionMonitor) -> Self {
        let generation = monitor.generation();
        let mailbox = Arc::new(Mailbox::default());
        let shared = Arc::clone(&mailbox);
        let task = tokio::spawn(async move {
            let fault = listen(&connector, generation, &shared).await;
            shared.write(|received| received.fault = Some(fault));
        });
        Self { mailbox, task }
    }

    /// Waits for notifications and removes them from the mailbox. Cancel safe: nothing is awaited after the removal.
    async fn receive(&self) -> Result<Announcement, Fault> {
        loop {
            let Received { announcement, fault } = self.mailbox.take();
            match fault {
                // Earlier notifications may be dropped, because the first result after reconnecting wakes every stage.
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

/// The received notifications, written by the background task and read by the caller. A stage is stored once, no matter
/// how many notifications arrive for it.
#[derive(Debug, Default)]
struct Mailbox {
    received: Mutex<Received>,
    /// Notified after each write. Stores one wake-up for a reader that starts to wait later.
    written: Notify,
}

#[derive(Debug, Default)]
struct Received {
    announcement: Announcement,
    /// The reason why the task ended.
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

/// Connects and collects notifications until an error occurs. Returns the error.
async fn listen(connector: &Connector, mut generation: watch::Receiver<u64>, mailbox: &Mailbox) -> Fault {
    match connector.connect(None).await {
        Err(error) => connecting(error),
        Ok((client, transport)) => tokio::select! {
            Ok(_) = generation.changed() => Fault::Away("the server is no longer the primary".into()),
            fault = begin(&client, mailbox) => fault,
            fault = collect(transport, mailbox) => fault,
        },
    }
}

/// Executes LISTEN, then wakes all stages once, because notifications may have been sent before. Returns only on an
/// error: the connection must stay open, and dropping the client would close it.
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

async fn collect(mut transport: Transport, mailbox: &Mailbox) -> Fault {
    loop {
        match poll_fn(|context| transport.poll_message(context)).await {
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
