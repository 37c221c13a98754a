//! The lane to the broker: one row, shared by all processes, that limits how much is sent. The outbox
//! worker's store reads and changes it in the transactions that claim and settle orders.
//!
//! The lane holds orders back in three cases:
//!
//! - Refused credentials would end one order after the other. After several refusals in a row the lane
//!   pauses, and occasional probes find out when the credentials are accepted again.
//! - An outage would use up the retries of every order. After several faults in a row one order at a time is
//!   sent, with growing pauses, until the broker responds.
//! - Rate limits also cost retries. Each 429 halves the rate of sends and each success raises it a little, so
//!   that the rate stays close to what the broker accepts.

use std::time::Duration;

use crate::broker::BrokerOutcome;
use crate::retry::{CLOCK_STEP_MIN, doubled};
use crate::time::Timestamp;

/// The number of consecutive 401 or 403 responses that pause the lane.
pub const UNAUTHORIZED_MAX: u32 = 5;

/// The number of consecutive faults after which one order at a time is sent.
pub const FAULTS_MAX: u32 = 5;

/// The maximum rate, in sends per second. At this rate, where the lane starts, there is no throttle and no
/// write for it.
pub const RATE_MAX: f64 = 1000.0;

/// The minimum rate, in sends per second, after any number of 429s.
pub const RATE_MIN: f64 = 0.1;

/// The increase of the rate after one second of successes, in sends per second.
pub const RATE_STEP: f64 = 1.0;

/// The time between probes of a paused lane.
pub const PROBE_WAIT: Duration = Duration::from_secs(30);

/// The pause between single sends during an outage doubles with each fault. It is always half of the nominal
/// backoff of an order with as many retries, so that a lane with one order never waits longer than that
/// order's own backoff. Its maximum bounds how late a recovery is noticed.
const FAULT_WAIT_BASE: Duration = Duration::from_secs(1);
const FAULT_WAIT_MAX: Duration = Duration::from_secs(60);

/// The time for which an idle throttled lane accumulates unused sends.
const BURST: Duration = Duration::from_secs(1);

/// The longest wait for the next send: one send at [`RATE_MIN`].
const SEND_WAIT_MAX: Duration = Duration::from_secs(10);

/// The longest wait for a probe: the maximum request timeout in the settings plus a margin. A later time was
/// stored before a clock step back.
const PROBE_UNTIL_MAX: Duration = Duration::from_secs(3_600 + 60);

/// All 429s within this time count as one burst and halve the rate once.
const SLOWDOWN_PAUSE: Duration = Duration::from_secs(1);

/// The state of the lane, as stored in its row.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    pub paused_at: Option<Timestamp>,
    /// Why it is paused, as text for the operator.
    pub reason: Option<String>,
    /// Sends per second; [`RATE_MAX`] means no throttle.
    pub rate: f64,
    pub unauthorized_in_row: u32,
    pub faults_in_row: u32,
    /// No probe is sent before this time: one is in flight until then, or the pause after the last one has
    /// not passed.
    pub probe_until: Option<Timestamp>,
    /// When a throttled lane may send next. A time in the past means that sends were accumulated, up to a
    /// limit.
    pub next_send_at: Option<Timestamp>,
    /// When the rate was last halved.
    pub slowed_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

/// How much a worker may claim now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// At most this many orders.
    Normal(u32),
    /// One order, as a probe.
    Probe,
    Nothing,
}

/// The state of the lane. If several apply, the most severe: a paused lane may be throttled as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneMode {
    Open,
    /// The rate is below its maximum.
    Throttled,
    /// The broker does not respond: one order at a time is sent.
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

    /// Returns whether only probes are sent.
    pub const fn is_holding(self) -> bool {
        match self {
            Self::Open | Self::Throttled => false,
            Self::OneAtATime | Self::Paused => true,
        }
    }
}

impl Lane {
    /// Creates the initial state of a lane.
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

    /// Returns the state that follows from the row. This is the only place that derives it.
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

    /// Returns whether only probes are sent: the lane is paused, or the broker does not respond.
    pub fn is_holding(&self) -> bool {
        self.mode().is_holding()
    }

    /// Returns whether the rate is below its maximum, regardless of the mode.
    pub fn is_throttled(&self) -> bool {
        self.rate_in_force() < RATE_MAX
    }

    /// Returns when more may be claimed, or `None` if that is now or not known.
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

    /// Returns how much may be claimed while `in_flight` orders are being sent in all processes.
    pub fn may_claim(&self, in_flight: u32, wanted: u32, now: Timestamp) -> ClaimMode {
        if wanted == 0 {
            return ClaimMode::Nothing;
        }
        if self.is_holding() {
            return match self.probes_from(now) {
                Some(until) if until > now => ClaimMode::Nothing,
                // The wait is over. A send that is still in flight has used up its time; its sender may have
                // died.
                Some(_) => ClaimMode::Probe,
                // No wait was set, so the sends in flight may still show whether the broker works.
                None if in_flight > 0 => ClaimMode::Nothing,
                None => ClaimMode::Probe,
            };
        }
        match self.sends_free(now) {
            0 => ClaimMode::Nothing,
            free => ClaimMode::Normal(free.min(wanted)),
        }
    }

    /// Returns the lane after a claim, to be written in its transaction. Without a throttle it is unchanged.
    #[must_use]
    pub fn claimed(self, sends: u32, now: Timestamp) -> Self {
        let rate = self.rate_in_force();
        if sends == 0 || rate >= RATE_MAX {
            return self;
        }
        // At most 2^32 sends at 0.1 per second: about 43 billion seconds, which fits into a Duration.
        let taken = Duration::from_secs_f64(f64::from(sends) / rate);
        let next_send_at = Some(self.sends_from(now).after(taken));
        Self { next_send_at, updated_at: now, ..self }
    }

    /// Returns the lane after a claim of `sends` orders, to be written in its transaction. `probe_until` is
    /// the end of a probe. An empty claim leaves the lane unchanged.
    #[must_use]
    pub fn after_claim(self, sends: u32, probe_until: Option<Timestamp>, now: Timestamp) -> Self {
        let claimed = self.claimed(sends, now);
        match probe_until {
            Some(until) if sends > 0 => claimed.probing(until, now),
            Some(_) | None => claimed,
        }
    }

    /// Returns the lane after the claim of a probe that must be settled by `until`.
    #[must_use]
    pub fn probing(self, until: Timestamp, now: Timestamp) -> Self {
        Self { probe_until: Some(until), updated_at: now, ..self }
    }

    /// Returns the lane after the outcome of a send. A success ends a pause only if it was a probe: an order
    /// that was sent before says nothing about credentials that were refused since. An unchanged lane keeps
    /// its `updated_at`.
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

    /// Returns the lane after an operator resumed it. The rate is unchanged, because it depends on the
    /// broker.
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

    /// Records a response of the broker. While the lane is paused that is not enough, and another probe
    /// follows after a pause: a broker that refuses probes might end every order that it gets.
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

    /// Raises the rate after a success. At a rate of r there are r successes per second, and each adds 1/r of
    /// the step. Below one send per second, each adds the whole step.
    fn faster(self) -> Self {
        let rate = self.rate_in_force();
        Self { rate: (rate + RATE_STEP / rate.max(1.0)).min(RATE_MAX), ..self }
    }

    /// Returns the rate in sends per second, limited to the valid range, because the row may contain any
    /// double.
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

    /// Returns the time from which sends are counted against the rate. A time further ahead than one send at
    /// the minimum rate is the result of a clock step back and is ignored.
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
        // At most one second at less than 1,000 per second: the conversion only drops the fraction.
        let saved = now.since(from).as_secs_f64() * rate;
        saved as u32 + 1
    }
}

#[cfg(test)]
mod tests;
