//! The lane to the broker: one row, shared by all processes, that decides how much may be sent. Read
//! and changed by the outbox worker's store in the transactions that claim and settle orders.
//!
//! Three things hold orders back, each to save them from a fate they did not earn:
//!
//! - Refused credentials would kill every order in turn. After a few in a row the lane pauses, and a
//!   single probe now and then finds out when it is mended.
//! - An outage would use up every order's retries. After a few faults in a row one order at a time
//!   goes out, further and further apart, until the broker answers one.
//! - A rate limit that is run into costs retries too. Each 429 halves the rate of sends, each success
//!   adds a little, so that the rate hovers around what the broker takes.

use std::time::Duration;

use crate::broker::BrokerOutcome;
use crate::retry::{CLOCK_STEP_MIN, doubled};
use crate::time::Timestamp;

/// Refusals of our credentials, one after the other, that pause the lane.
pub const UNAUTHORIZED_MAX: u32 = 5;

/// Faults, one after the other, after which one order at a time is sent.
pub const FAULTS_MAX: u32 = 5;

/// Sends per second from which on there is no throttle: the lane starts here and pays nothing for it.
pub const RATE_MAX: f64 = 1000.0;

/// Sends per second that are left however often the broker says 429.
pub const RATE_MIN: f64 = 0.1;

/// What a second of successes adds to the rate, in sends per second.
pub const RATE_STEP: f64 = 1.0;

/// How long a paused lane waits from one probe that did not get through to the next.
pub const PROBE_WAIT: Duration = Duration::from_secs(30);

/// The wait between the single sends of an outage: it doubles with each fault, always at half of the
/// nominal backoff of an order with as many retries, so that a lane with one order never waits longer
/// than that order does by itself; and a mended broker is noticed within a minute.
const FAULT_WAIT_BASE: Duration = Duration::from_secs(1);
const FAULT_WAIT_MAX: Duration = Duration::from_secs(60);

/// What a throttled lane may save up while it is idle.
const BURST: Duration = Duration::from_secs(1);

/// The longest wait for the next send: one send at [`RATE_MIN`].
const SEND_WAIT_MAX: Duration = Duration::from_secs(10);

/// The longest wait for a probe: the longest request timeout that the settings accept, and a margin. One that is further
/// ahead was stored by a clock that was set back since.
const PROBE_UNTIL_MAX: Duration = Duration::from_secs(3_600 + 60);

/// The 429s of one burst are one message: within this time they halve the rate once.
const SLOWDOWN_PAUSE: Duration = Duration::from_secs(1);

/// The state of the lane, as its row holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    pub paused_at: Option<Timestamp>,
    /// Why it is paused, for people.
    pub reason: Option<String>,
    /// Sends per second; [`RATE_MAX`] stands for no throttle.
    pub rate: f64,
    pub unauthorized_in_row: u32,
    pub faults_in_row: u32,
    /// No probe before this instant: one is out until then, or the last one's wait is not over.
    pub probe_until: Option<Timestamp>,
    /// When a throttled lane may send next; what lies back is saved up, to a bound.
    pub next_send_at: Option<Timestamp>,
    /// When the rate was last halved.
    pub slowed_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

/// What a worker may claim now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// At most so many orders.
    Normal(u32),
    /// One order, as a probe.
    Probe,
    Nothing,
}

/// The state of the lane. If several hold, the worst: a paused lane may be throttled as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneMode {
    Open,
    /// At a rate below the highest.
    Throttled,
    /// The broker is away: one order at a time goes out.
    OneAtATime,
    Paused,
}

impl LaneMode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Throttled => "throttled",
            Self::OneAtATime => "one_at_a_time",
            Self::Paused => "paused",
        }
    }

    /// Whether only probes go out.
    pub const fn is_holding(self) -> bool {
        match self {
            Self::Open | Self::Throttled => false,
            Self::OneAtATime | Self::Paused => true,
        }
    }
}

impl Lane {
    /// A lane that nothing is known about.
    pub const fn open(now: Timestamp) -> Self {
        Self {
            paused_at: None,
            reason: None,
            rate: RATE_MAX,
            unauthorized_in_row: 0,
            faults_in_row: 0,
            probe_until: None,
            next_send_at: None,
            slowed_at: None,
            updated_at: now,
        }
    }

    /// Derives the state from the row. Nothing else does.
    pub fn mode(&self) -> LaneMode {
        if self.paused_at.is_some() {
            LaneMode::Paused
        } else if self.faults_in_row >= FAULTS_MAX {
            LaneMode::OneAtATime
        } else if self.is_throttled() {
            LaneMode::Throttled
        } else {
            LaneMode::Open
        }
    }

    /// Whether only probes go out: the lane is paused, or the broker is away.
    pub fn is_holding(&self) -> bool {
        self.mode().is_holding()
    }

    /// Whether the rate is below the highest, in whatever state the lane is.
    pub fn is_throttled(&self) -> bool {
        self.rate_in_force() < RATE_MAX
    }

    /// When more may be claimed, if that is later than now and known.
    pub fn next_claim_at(&self, now: Timestamp) -> Option<Timestamp> {
        let at = if self.is_holding() {
            self.probes_from(now)
        } else if self.is_throttled() {
            Some(self.sends_from(now))
        } else {
            None
        };
        at.filter(|at| *at > now)
    }

    /// How much may be claimed, with `in_flight` orders being sent over all processes.
    pub fn may_claim(&self, in_flight: u32, wanted: u32, now: Timestamp) -> ClaimMode {
        if wanted == 0 {
            return ClaimMode::Nothing;
        }
        if self.is_holding() {
            return match self.probes_from(now) {
                Some(until) if until > now => ClaimMode::Nothing,
                // The wait is over. What is still out has had its time; it may be a dead sender's.
                Some(_) => ClaimMode::Probe,
                // Nobody set a wait: what is out may yet answer the question.
                None if in_flight > 0 => ClaimMode::Nothing,
                None => ClaimMode::Probe,
            };
        }
        match self.sends_free(now) {
            0 => ClaimMode::Nothing,
            free => ClaimMode::Normal(free.min(wanted)),
        }
    }

    /// The lane after a claim, to be written with it. Without a throttle there is nothing to write.
    #[must_use]
    pub fn claimed(self, sends: u32, now: Timestamp) -> Self {
        let rate = self.rate_in_force();
        if sends == 0 || rate >= RATE_MAX {
            return self;
        }
        // At most 2^32 sends at a tenth per second: some 43 billion seconds, within a Duration.
        let taken = Duration::from_secs_f64(f64::from(sends) / rate);
        let next_send_at = Some(self.sends_from(now).after(taken));
        Self { next_send_at, updated_at: now, ..self }
    }

    /// The lane after a claim of `sends` orders, to be written with it; `probe_until` is the end of a probe. A claim that got
    /// nothing to send changes nothing.
    #[must_use]
    pub fn after_claim(self, sends: u32, probe_until: Option<Timestamp>, now: Timestamp) -> Self {
        let claimed = self.claimed(sends, now);
        match probe_until {
            Some(until) if sends > 0 => claimed.probing(until, now),
            Some(_) | None => claimed,
        }
    }

    /// The lane after a probe was claimed that answers, or is given up, by `until`.
    #[must_use]
    pub fn probing(self, until: Timestamp, now: Timestamp) -> Self {
        Self { probe_until: Some(until), updated_at: now, ..self }
    }

    /// The lane after the outcome of a send. A success ends a pause only if it was the pause's own probe: one
    /// that was on its way before says nothing about credentials that were refused since. A lane that stays
    /// as it is keeps its `updated_at`.
    #[must_use]
    pub fn after(self, outcome: &BrokerOutcome, probe: bool, now: Timestamp) -> Self {
        let before = self.clone();
        let after = match outcome {
            BrokerOutcome::Accepted(_) | BrokerOutcome::AlreadyProcessed(_) => {
                let is_late = self.paused_at.is_some() && !probe;
                let faster = self.faster();
                if is_late { faster } else { faster.freed() }
            }
            BrokerOutcome::BadRequest { .. } | BrokerOutcome::Unclear { .. } => {
                Self { unauthorized_in_row: 0, ..self.answered(now) }
            }
            BrokerOutcome::RateLimited { .. } => self.slower(now).answered(now),
            BrokerOutcome::Unauthorized { .. } => self.answered(now).refused(now),
            BrokerOutcome::ServerError { .. }
            | BrokerOutcome::AnsweredTimeout
            | BrokerOutcome::NoAnswer(_) => self.faulted(now),
        };
        if after == before { after } else { Self { updated_at: now, ..after } }
    }

    /// An operator says that the lane may go on. The rate is the broker's business, and stays.
    #[must_use]
    pub fn resumed(self, now: Timestamp) -> Self {
        Self { updated_at: now, ..self.freed() }
    }

    fn freed(self) -> Self {
        Self {
            paused_at: None,
            reason: None,
            unauthorized_in_row: 0,
            faults_in_row: 0,
            probe_until: None,
            ..self
        }
    }

    /// The broker is there. While paused that is not enough: another probe follows, after a wait, for
    /// whatever refuses probes might refuse or kill every order it is given.
    fn answered(self, now: Timestamp) -> Self {
        let probe_until = self.paused_at.map(|_| now.after(PROBE_WAIT));
        Self { faults_in_row: 0, probe_until, ..self }
    }

    fn refused(self, now: Timestamp) -> Self {
        let unauthorized_in_row = self.unauthorized_in_row.saturating_add(1);
        if self.paused_at.is_some() || unauthorized_in_row < UNAUTHORIZED_MAX {
            return Self { unauthorized_in_row, ..self };
        }
        let reason = format!("the broker refused our credentials {unauthorized_in_row} times in a row");
        Self {
            paused_at: Some(now),
            reason: Some(reason),
            unauthorized_in_row,
            probe_until: Some(now.after(PROBE_WAIT)),
            ..self
        }
    }

    fn faulted(self, now: Timestamp) -> Self {
        let faulted = Self { faults_in_row: self.faults_in_row.saturating_add(1), ..self };
        if !faulted.is_holding() {
            return faulted;
        }
        let wait = doubled(FAULT_WAIT_BASE, faulted.faults_in_row, FAULT_WAIT_MAX);
        Self { probe_until: Some(now.after(wait)), ..faulted }
    }

    fn slower(self, now: Timestamp) -> Self {
        let is_same_burst = self.slowed_at.is_some_and(|at| at <= now && now.since(at) < SLOWDOWN_PAUSE);
        if is_same_burst {
            return self;
        }
        let rate = (self.rate_in_force() / 2.0).max(RATE_MIN);
        Self { rate, slowed_at: Some(now), ..self }
    }

    /// At a rate of r there are r successes a second, each adding an r-th of the step; below one send a
    /// second, each adds the step.
    fn faster(self) -> Self {
        let rate = self.rate_in_force();
        Self { rate: (rate + RATE_STEP / rate.max(1.0)).min(RATE_MAX), ..self }
    }

    /// Sends per second. A row might hold anything that is a double.
    pub fn rate_in_force(&self) -> f64 {
        if self.rate.is_nan() { RATE_MAX } else { self.rate.clamp(RATE_MIN, RATE_MAX) }
    }

    fn probes_from(&self, now: Timestamp) -> Option<Timestamp> {
        let was_ahead = self.updated_at > now.after(CLOCK_STEP_MIN);
        self.probe_until.map(|until| {
            let is_over = was_ahead || until.since(now) > PROBE_UNTIL_MAX;
            if is_over { now } else { until }
        })
    }

    /// From when on sends are counted against the rate. An instant further ahead than one send at the
    /// lowest rate is no plan of ours but a clock that was set back, and must not stop the lane.
    fn sends_from(&self, now: Timestamp) -> Timestamp {
        let planned = self.next_send_at.filter(|at| at.since(now) <= SEND_WAIT_MAX);
        planned.unwrap_or(now).max(now.before(BURST))
    }

    fn sends_free(&self, now: Timestamp) -> u32 {
        let rate = self.rate_in_force();
        if rate >= RATE_MAX {
            return u32::MAX;
        }
        let from = self.sends_from(now);
        if from > now {
            return 0;
        }
        // At most a second at less than a thousand: the conversion only drops the fraction.
        let saved = now.since(from).as_secs_f64() * rate;
        saved as u32 + 1
    }
}

#[cfg(test)]
mod tests;
