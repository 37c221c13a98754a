//! What a broker does with a request: well, or badly by a seed. It depends only on the seed, the key and
//! how often the key came, so a run can be made again.

use crate::random::Random;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Answers everything at once and in truth.
    Well,
    /// Misbehaves about one time in five, and takes its time one time in three.
    Rough { seed: u64 },
}

/// How one request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misbehaviour {
    Honest,
    /// In truth, but after a while.
    Late(Duration),
    /// Never answers; `executes` first, or not.
    Stall {
        executes: bool,
    },
    /// Breaks the connection off instead of an answer.
    Reset {
        executes: bool,
    },
    /// 5xx; what it did is not to be seen from it.
    Fail {
        status: u16,
        executes: bool,
    },
    /// 429, and nothing done.
    Limit {
        retry_after_s: Option<u32>,
    },
    /// Of a key that it has executed: says 409 and no more, as while an order is still under way.
    Vague,
    /// Of a key that it has executed: says 409 in words, without the order's id.
    Wordy,
    /// Of a key that it has executed: says 409 with the order's id.
    Plain,
    /// Of a key that it has executed: says 422, as some do to whatever comes twice. The order dies of it, and
    /// nothing but our own doubts tells that it was executed.
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
            // Under way for long enough to be caught by what befalls its sender.
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
    fn a_seed_plays_again_and_has_every_turn() {
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
