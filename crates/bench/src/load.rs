//! The load generator of a benchmark. Posts numbered messages over a few persistent connections, on a separate
//! thread.

use crate::tally::Tally;
use crate::wire::Messages;
use anyhow::Context as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// The delay before a message is posted again after a response with status 429 or 503.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// The messages to post and their destination.
#[derive(Debug)]
pub struct Load {
    pub address: SocketAddr,
    pub path: &'static str,
    pub key: &'static str,
    pub connections: u32,
    pub numbers: std::ops::Range<u32>,
    /// The maximum total rate of all connections, in messages per second. `None` means no limit.
    pub per_second: Option<u32>,
    pub body: fn(u32, u32) -> String,
    /// The function that returns additional header lines for a message number.
    pub head: fn(u32) -> String,
    /// The second argument passed to `body`.
    pub spread: u32,
}

/// The result of running a [`Load`].
#[derive(Debug, Clone, Copy)]
pub struct Posted {
    pub took: Duration,
    /// The number of responses with status 429 or 503. After each, the message was posted again.
    pub refused: u64,
}

struct Shared {
    load: Load,
    tally: Arc<Tally>,
    next: AtomicU32,
    refused: AtomicU64,
}

impl Load {
    /// Posts all messages and returns once the last one has been accepted.
    pub async fn run(self, tally: &Arc<Tally>) -> anyhow::Result<Posted> {
        let next = AtomicU32::new(self.numbers.start);
        let shared =
            Arc::new(Shared { load: self, tally: Arc::clone(tally), next, refused: AtomicU64::new(0) });
        let running = tokio::task::spawn_blocking(move || shared.run());
        running.await.context("the load panicked")?
    }

    fn request(&self, number: u32) -> Vec<u8> {
        let body = (self.body)(number, self.spread);
        format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            self.key,
            (self.head)(number),
            body.len()
        )
        .into_bytes()
    }
}

impl Shared {
    fn run(self: Arc<Self>) -> anyhow::Result<Posted> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("starting the load")?;
        let began = Instant::now();
        runtime.block_on(async {
            let connections: Vec<_> =
                (0..self.load.connections).map(|at| tokio::spawn(Arc::clone(&self).post(at))).collect();
            for connection in connections {
                connection.await.context("a connection of the load panicked")??;
            }
            anyhow::Ok(())
        })?;
        Ok(Posted { took: began.elapsed(), refused: self.refused.load(Ordering::Relaxed) })
    }

    /// Posts messages on the connection with index `at`. If the rate is limited, the connections take turns.
    async fn post(self: Arc<Self>, at: u32) -> anyhow::Result<()> {
        let address = self.load.address;
        let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true).context("setting up a connection")?;
        let mut messages = Messages::new(stream);
        let mut pace = self.load.per_second.map(|per_second| {
            let turn = Duration::from_secs(1) / per_second.max(1);
            let mut pace = interval_at(Instant::now() + turn * at, turn * self.load.connections);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            pace
        });
        loop {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.load.numbers.end {
                return Ok(());
            }
            let request = self.load.request(number);
            self.tally.sent(number);
            loop {
                messages.stream().write_all(&request).await.context("posting")?;
                let answer = messages.next().await?.context("the server closed the connection")?;
                match answer.first_line.split(' ').nth(1) {
                    Some("200" | "202") => break,
                    Some("429" | "503") => {}
                    Some(_) | None => {
                        let said = String::from_utf8_lossy(answer.body).into_owned();
                        anyhow::bail!("{}: {said}", answer.first_line);
                    }
                }
                self.refused.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
        }
    }
}
