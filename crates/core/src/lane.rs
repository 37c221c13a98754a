//! The lane to the broker, which limits the orders sent by all processes together. Its state is one row, which
//! the outbox worker's store reads and updates in the transactions that claim and settle orders.
//!
//! The lane limits sending in three cases:
//!
//! - Refused credentials. Every order would become dead. After [`UNAUTHORIZED_MAX`] consecutive refusals the
//!   lane pauses, and a probe every [`PROBE_WAIT`] checks whether the credentials are accepted again.
//! - An outage. Every order would use up its retries. After [`FAULTS_MAX`] consecutive faults, one order at a
//!   time is sent, with increasing delays, until the broker responds.
//! - Rate limiting, which also uses up retries. A 429 response halves the rate and each success increases it
//!   slightly, so that the rate stays close to the broker's limit.

use std::time::Duration;

use crate::broker::BrokerOutcome;
use crate::retry::{CLOCK_STEP_MIN, doubled};
use crate::time::Timestamp;

/// The number of consecutive 401 or 403 responses after which the lane pauses.
pub const UNAUTHORIZED_MAX: u32 = 5;

/// The number of consecutive faults after which one order at a time is sent.
pub const FAULTS_MAX: u32 = 5;

/// The maximum rate, in orders per second. A lane starts at this rate, at which it is not throttled and a claim
/// does not update its row.
pub const RATE_MAX: f64 = 1000.0;

/// The minimum rate, in orders per second.
pub const RATE_MIN: f64 = 0.1;

/// The increase of the rate during one second of successes, in orders per second.
pub const RATE_STEP: f64 = 1.0;

/// The delay between probes of a paused lane.
pub const PROBE_WAIT: Duration = Duration::from_secs(30);

/// The base of the delay between orders during an outage, which doubles with each fault. The delay is half the
/// nominal backoff of an order with the same number of retries, so that the lane never delays a single order
/// longer than its own backoff.
const FAULT_WAIT_BASE: Duration = Duration::from_secs(1);
/// The maximum delay between orders during an outage, which limits how late a recovery is detected.
const FAULT_WAIT_MAX: Duration = Duration::from_secs(60);

/// The maximum time for which a throttled lane accumulates unused capacity.
const BURST: Duration = Duration::from_secs(1);

/// The maximum plausible delay until the next order may be sent: the interval at [`RATE_MIN`].
const SEND_WAIT_MAX: Duration = Duration::from_secs(10);

/// The maximum plausible delay until the next probe: the maximum request timeout in the settings plus a margin.
/// A later time was stored before the clock was set back.
const PROBE_UNTIL_MAX: Duration = Duration::from_secs(3_600 + 60);

/// The time within which several 429 responses halve the rate only once.
const SLOWDOWN_PAUSE: Duration = Duration::from_secs(1);

/// The stored state of the lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    pub paused_at: Option<Timestamp>,
    /// The reason for the pause, for the operator.
    pub reason: Option<String>,
    /// The rate in orders per second. At [`RATE_MAX`] the lane is not throttled.
    pub rate: f64,
    pub unauthorized_in_row: u32,
    pub faults_in_row: u32,
    /// The time before which no probe is sent, because a probe is in flight or the delay after the last probe
    /// has not passed.
    pub probe_until: Option<Timestamp>,
    /// The time at which a throttled lane may send the next order. A time in the past means that unused
    /// capacity has accumulated.
    pub next_send_at: Option<Timestamp>,
    /// The time at which the rate was last halved.
    pub slowed_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

/// The orders that a worker may claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// Up to this number of orders.
    Normal(u32),
    /// One order, as a probe.
    Probe,
    Nothing,
}

/// The mode of the lane. If several apply, the mode is the most severe one: a paused lane may also be
/// throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneMode {
    Open,
    /// The rate is below its maximum.
    Throttled,
    /// The broker does not respond, so one order at a time is sent.
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

    /// Returns whether only probes may be sent in this mode.
    pub const fn is_holding(self) -> bool {
        match self {
            Self::Open | Self::Throttled => false,
            Self::OneAtATime | Self::Paused => true,
        }
    }
}

impl Lane {
    /// Creates a lane in its initial state.
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

    /// Returns the mode that follows from the stored state.
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

    /// Returns whether only probes may be sent, because the lane is paused or the broker does not respond.
    pub fn is_holding(&self) -> bool {
        self.mode().is_holding()
    }

    /// Returns whether the rate is below [`RATE_MAX`], regardless of the mode.
    pub fn is_throttled(&self) -> bool {
        self.rate_in_force() < RATE_MAX
    }

    /// Returns the earliest time at which more orders may be claimed, or `None` if they may be claimed now or
    /// the time is not known.
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

    /// Returns the orders that may be claimed, up to `wanted`. `in_flight` is the number of orders being sent
    /// across all processes.
    pub fn may_claim(&self, in_flight: u32, wanted: u32, now: Timestamp) -> ClaimMode {
        if wanted == 0 {
            return ClaimMode::Nothing;
        }
        if self.is_holding() {
            return match self.probes_from(now) {
                Some(until) if until > now => ClaimMode::Nothing,
                // The delay has passed. The deadline of an order that is still in flight has also passed; its
                // sender may have died.
                Some(_) => ClaimMode::Probe,
                // No delay was set, so the orders in flight may still show whether the broker works.
                None if in_flight > 0 => ClaimMode::Nothing,
                None => ClaimMode::Probe,
            };
        }
        match self.sends_free(now) {
            0 => ClaimMode::Nothing,
            free => ClaimMode::Normal(free.min(wanted)),
        }
    }

    /// Returns the lane after a claim of `sends` orders, to be stored in the same transaction. A lane that is
    /// not throttled is unchanged.
    #[must_use]
    pub fn claimed(self, sends: u32, now: Timestamp) -> Self {
        let rate = self.rate_in_force();
        if sends == 0 || rate >= RATE_MAX {
            return self;
        }
        // At most 2^32 orders at 0.1 per second: about 43 billion seconds, which fits in a `Duration`.
        let taken = Duration::from_secs_f64(f64::from(sends) / rate);
        let next_send_at = Some(self.sends_from(now).after(taken));
        Self { next_send_at, updated_at: now, ..self }
    }

    /// Returns the lane after a claim of `sends` orders, to be stored in the same transaction. If the claim is
    /// a probe, `probe_until` is its deadline. An empty claim leaves the lane unchanged.
    #[must_use]
    pub fn after_claim(self, sends: u32, probe_until: Option<Timestamp>, now: Timestamp) -> Self {
        let claimed = self.claimed(sends, now);
        match probe_until {
            Some(until) if sends > 0 => claimed.probing(until, now),
            Some(_) | None => claimed,
        }
    }

    /// Returns the lane after a claim of a probe with the deadline `until`.
    #[must_use]
    pub fn probing(self, until: Timestamp, now: Timestamp) -> Self {
        Self { probe_until: Some(until), updated_at: now, ..self }
    }

    /// Returns the lane after an attempt to send an order. A success ends a pause only if the order was a
    /// probe: an order that was sent before the pause does not show that the credentials are accepted now. An
    /// unchanged lane keeps its `updated_at`.
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

    /// Returns the lane after an operator has resumed it. The rate is unchanged, because it reflects the
    /// broker's limit.
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

    /// Returns the lane after a response that shows that the broker is reachable. A paused lane stays paused
    /// and schedules another probe, because a broker that refuses the probe might refuse every order.
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

    /// Returns the lane with a higher rate after a success. At a rate of r orders per second, each success adds
    /// 1/r of [`RATE_STEP`]. Below one order per second, each success adds the whole step.
    fn faster(self) -> Self {
        let rate = self.rate_in_force();
        Self { rate: (rate + RATE_STEP / rate.max(1.0)).min(RATE_MAX), ..self }
    }

    /// Returns the rate in orders per second, clamped to the valid range because the row may contain any
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

    /// Returns the time from which orders are counted against the rate. A `next_send_at` more than
    /// [`SEND_WAIT_MAX`] in the future was stored before the clock was set back and is ignored.
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
        // At most one second at less than 1,000 orders per second, so the conversion only drops the fraction.
        let saved = now.since(from).as_secs_f64() * rate;
        saved as u32 + 1
    }
}

#[cfg(test)]
mod tests;
