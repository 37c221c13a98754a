//! Determines how the broker handles a request: correctly, or with misbehaviour drawn from a seed. The choice depends
//! only on the seed, the key and the number of earlier requests with that key, so a run can be reproduced.

use crate::random::Random;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Responds correctly and immediately.
    Well,
    /// Misbehaves in about one of five requests and delays the response in one of three.
    Rough { seed: u64 },
}

/// The way in which one request is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misbehaviour {
    Honest,
    /// Responds correctly after a delay.
    Late(Duration),
    /// Never responds. Executes the order first if `executes` is set.
    Stall {
        executes: bool,
    },
    /// Resets the connection instead of responding. Executes the order first if `executes` is set.
    Reset {
        executes: bool,
    },
    /// Responds with 5xx, which does not reveal whether the order was executed.
    Fail {
        status: u16,
        executes: bool,
    },
    /// Responds with 429 and does not execute the order.
    Limit {
        retry_after_s: Option<u32>,
    },
    /// Responds to an executed key with 409 and no details, as if the order were still in progress.
    Vague,
    /// Responds to an executed key with 409 and the marker text, but without the order id.
    Wordy,
    /// Responds to an executed key with 409 and the order id.
    Plain,
    /// Responds to an executed key with 422, as some brokers do for any repeated key. The order becomes `dead`;
    /// only `maybe_executed` shows that it may have been executed.
    Refuse,
}

impl Behaviour {
    pub fn turn(self, key: &str, number: usize) -> Misbehaviour {
        let Self::Rough { seed } = self else { return Misbehaviour::Honest };
        let seed = key.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let mut random = Random::new(seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9)));
        if number > 0 && random.below(4) == 0 {
            return Misbehaviour::Refuse;
        }
        match random.below(100) {
            0..3 => Misbehaviour::Stall { executes: true },
            3..5 => Misbehaviour::Stall { executes: false },
            5..8 => Misbehaviour::Reset { executes: false },
            8..12 => Misbehaviour::Reset { executes: true },
            12..14 => Misbehaviour::Fail { status: 500, executes: false },
            14..17 => Misbehaviour::Fail { status: 503, executes: true },
            17 => Misbehaviour::Limit { retry_after_s: (random.below(2) == 0).then_some(1) },
            // Long enough for the sender to fail before the response.
            18..50 => Misbehaviour::Late(Duration::from_millis(20 + random.below(800))),
            50..56 => Misbehaviour::Vague,
            56..66 => Misbehaviour::Wordy,
            66..85 => Misbehaviour::Plain,
            _ => Misbehaviour::Honest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_reproducible_and_covers_every_misbehaviour() {
        let play = |seed: u64| -> Vec<Misbehaviour> {
            let behaviour = Behaviour::Rough { seed };
            (0..2_000).map(|number| behaviour.turn(&format!("key-{}", number % 500), number / 500)).collect()
        };
        let turns = play(7);
        assert_eq!(turns, play(7));
        assert_ne!(turns, play(8));
        let has = |is: fn(&Misbehaviour) -> bool| turns.iter().any(is);
        assert!(has(|turn| matches!(turn, Misbehaviour::Stall { executes: true })));
        assert!(has(|turn| matches!(turn, Misbehaviour::Stall { executes: false })));
        assert!(has(|turn| matches!(turn, Misbehaviour::Reset { executes: true })));
        assert!(has(|turn| matches!(turn, Misbehaviour::Reset { executes: false })));
        assert!(has(|turn| matches!(turn, Misbehaviour::Fail { executes: true, .. })));
        assert!(has(|turn| matches!(turn, Misbehaviour::Fail { executes: false, .. })));
        assert!(has(|turn| matches!(turn, Misbehaviour::Limit { retry_after_s: Some(_) })));
        assert!(has(|turn| matches!(turn, Misbehaviour::Limit { retry_after_s: None })));
        for turn in [
            Misbehaviour::Vague,
            Misbehaviour::Wordy,
            Misbehaviour::Plain,
            Misbehaviour::Refuse,
            Misbehaviour::Honest,
        ] {
            assert!(turns.contains(&turn), "{turn:?}");
        }
        assert!((0..100).all(|number| Behaviour::Well.turn("k", number) == Misbehaviour::Honest));
    }
}
