//! Draws the faults of a run and their times from a seed, so that a run can be reproduced.

use crate::random::Random;
use std::fmt;
use std::time::Duration;

/// A fault. Processes are identified by their index in the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Kills a process, which is restarted shortly afterwards.
    Kill(usize),
    /// Kills PostgreSQL, which is restarted shortly afterwards.
    KillServer,
    /// Stops a worker until its leases have expired, then resumes it.
    Freeze(usize),
    /// Breaks a connection of a process just after a commit was sent.
    CutCommit(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    pub at: Duration,
    pub fault: Fault,
    /// The duration of the fault, or zero if it is instantaneous.
    pub lasts: Duration,
}

/// The possible targets of faults, as indexes in the fleet.
#[derive(Debug, Clone)]
pub struct Targets {
    /// All processes.
    pub places: Vec<usize>,
    /// The processes that are workers.
    pub workers: Vec<usize>,
    /// The duration for which a worker must be stopped for its leases to expire.
    pub freeze: Duration,
}

/// The number of fault kinds: the variants of [`Fault`], plus killing a worker. A plan with at least this many
/// faults contains every kind.
const KINDS: u64 = 5;
/// The delay before the first fault, which ensures that the load is running.
const HEAD: Duration = Duration::from_secs(1);
const DOWN_MAX_MS: u64 = 1_500;

/// Draws `count` faults of all kinds, distributed over the duration of the load.
pub fn draw(seed: u64, count: u64, load: Duration, targets: &Targets) -> Vec<Planned> {
    let mut random = Random::new(seed);
    let mut kinds: Vec<u64> = (0..count).map(|number| number % KINDS).collect();
    shuffle(&mut kinds, &mut random);
    let room = load.saturating_sub(HEAD);
    let slot_us = (room.as_micros() as u64 / count.max(1)).max(1);
    let mut planned: Vec<Planned> = Vec::new();
    for (number, kind) in kinds.into_iter().enumerate() {
        let at = HEAD + Duration::from_micros(number as u64 * slot_us + random.below(slot_us));
        let down = Duration::from_millis(random.below(DOWN_MAX_MS));
        // Half of the cuts affect workers, which have the most state to lose.
        let cut = if random.below(2) == 0 { &targets.workers } else { &targets.places };
        let mut awake = |places: &[usize]| awake_place(&planned, at, places, &mut random);
        let (fault, lasts) = match kind {
            0 => (Fault::Kill(awake(&targets.places)), down),
            1 => (Fault::KillServer, down),
            2 => (Fault::Freeze(awake(&targets.workers)), targets.freeze),
            3 => (Fault::CutCommit(awake(cut)), Duration::ZERO),
            _ => (Fault::Kill(awake(&targets.workers)), down),
        };
        planned.push(Planned { at, fault, lasts });
    }
    planned
}

/// Returns one of `places` that is not frozen at that time, or any of them if all are frozen. Killing a frozen
/// process would end the freeze before its lease expires.
fn awake_place(planned: &[Planned], at: Duration, places: &[usize], random: &mut Random) -> usize {
    let stands_still = |place: usize| {
        planned.iter().any(|earlier| earlier.fault == Fault::Freeze(place) && at < earlier.at + earlier.lasts)
    };
    let awake: Vec<usize> = places.iter().copied().filter(|place| !stands_still(*place)).collect();
    let choice = if awake.is_empty() { places } else { &awake };
    choice[random.below(choice.len() as u64) as usize]
}

fn shuffle(kinds: &mut [u64], random: &mut Random) {
    for last in (1..kinds.len()).rev() {
        kinds.swap(last, random.below(last as u64 + 1) as usize);
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(_) => f.write_str("killed"),
            Self::KillServer => f.write_str("PostgreSQL killed"),
            Self::Freeze(_) => f.write_str("stopped until its leases expired"),
            Self::CutCommit(_) => f.write_str("cut off after a commit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> Targets {
        Targets { places: (0..7).collect(), workers: vec![3, 4, 5], freeze: Duration::from_secs(9) }
    }

    #[test]
    fn plans_are_reproducible_and_contain_every_kind() {
        for seed in 0..200 {
            let plan = draw(seed, 6, Duration::from_secs(20), &targets());
            assert_eq!(plan, draw(seed, 6, Duration::from_secs(20), &targets()));
            assert!(plan.is_sorted_by_key(|planned| planned.at), "{plan:?}");
            let has = |is: fn(&Fault) -> bool| plan.iter().any(|planned| is(&planned.fault));
            assert!(has(|fault| matches!(fault, Fault::Kill(3..=5))), "{plan:?}");
            assert!(has(|fault| matches!(fault, Fault::KillServer)), "{plan:?}");
            assert!(has(|fault| matches!(fault, Fault::Freeze(3..=5))), "{plan:?}");
            assert!(has(|fault| matches!(fault, Fault::CutCommit(_))), "{plan:?}");
        }
    }

    #[test]
    fn no_process_is_killed_while_frozen() {
        for seed in 0..200 {
            let plan = draw(seed, 15, Duration::from_secs(60), &targets());
            for (number, planned) in plan.iter().enumerate() {
                let Fault::Kill(place) = planned.fault else { continue };
                let frozen = |earlier: &&Planned| {
                    earlier.fault == Fault::Freeze(place) && planned.at < earlier.at + earlier.lasts
                };
                assert_eq!(plan[..number].iter().find(frozen), None);
            }
        }
    }
}
