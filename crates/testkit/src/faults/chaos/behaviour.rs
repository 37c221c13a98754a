//! Determines how the receivers in a run respond: correctly, slowly, with occasional failures, or always with an
//! error. The response to an attempt depends only on the seed, its `webhook-id` and its number.

use super::evidence::Request;
use crate::random::Random;
use crate::receiver::{Answer, Received};
use crate::subscribers::parse_webhook_id;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    Well,
    Slow,
    Flaky,
    Dead,
}

impl Behaviour {
    const ALL: [Self; 4] = [Self::Well, Self::Slow, Self::Flaky, Self::Dead];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Slow => "slow",
            Self::Flaky => "flaky",
            Self::Dead => "dead",
        }
    }

    /// Returns the behaviour named by the first segment of the path.
    fn of(path: &str) -> Self {
        let name = path.split('/').nth(1).unwrap_or_default();
        Self::ALL.into_iter().find(|one| one.name() == name).unwrap_or(Self::Well)
    }

    /// Returns the status of the response, or `None` for no response, and its delay.
    fn answer(self, random: &mut Random) -> (Option<u16>, Duration) {
        let lot = random.below(100);
        match self {
            Self::Well => (Some(200), Duration::ZERO),
            Self::Slow => (Some(200), Duration::from_millis(100 + 14 * lot)),
            Self::Dead => (Some(500), Duration::ZERO),
            Self::Flaky => match lot {
                0..2 => (None, HANGS),
                2..6 => (None, Duration::ZERO),
                6..20 => (Some(503), Duration::ZERO),
                20..40 => (Some(500), Duration::ZERO),
                _ => (Some(204), Duration::from_millis(lot)),
            },
        }
    }
}

/// A delay longer than the timeout of any attempt.
const HANGS: Duration = Duration::from_secs(3600);

/// A handler that chooses every response and records every request.
#[derive(Debug)]
pub struct Journal {
    seed: u64,
    began: Instant,
    requests: Mutex<Vec<Request>>,
}

impl Journal {
    pub fn new(seed: u64, began: Instant) -> Self {
        Self { seed, began, requests: Mutex::default() }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("the journal").clone()
    }

    pub fn attend(&self, received: &Received) -> Answer {
        let draw = [received.webhook_id(), received.header("posthaste-attempt")].join(" ");
        let seed = draw.bytes().fold(self.seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let (answer, delay) = Behaviour::of(&received.path).answer(&mut Random::new(seed));
        let pair = parse_webhook_id(received.webhook_id()).unwrap_or_default();
        let request = Request { pair, at: self.began.elapsed(), answer };
        self.requests.lock().expect("the journal").push(request);
        match (answer, delay) {
            (None, Duration::ZERO) => Answer::Reset,
            (None, _) => Answer::Hang,
            (Some(status), Duration::ZERO) => Answer::Status(status),
            (Some(status), delay) => Answer::Status(status).after(delay),
        }
    }
}
