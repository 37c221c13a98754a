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
pub enum Turn {
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
    pub fn turn(self, key: &str, number: usize) -> Turn {
        let Self::Rough { seed } = self else { return Turn::Honest };
        let seed = key.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let mut random = Random::new(seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9)));
        if number > 0 && random.below(4) == 0 {
            return Turn::Refuse;
        }
        match random.below(100) {
            0..3 => Turn::Stall { executes: true },
            3..5 => Turn::Stall { executes: false },
            5..8 => Turn::Reset { executes: false },
            8..12 => Turn::Reset { executes: true },
            12..14 => Turn::Fail { status: 500, executes: false },
            14..17 => Turn::Fail { status: 503, executes: true },
            17 => Turn::Limit { retry_after_s: (random.below(2) == 0).then_some(1) },
            // Under way for long enough to be caught by what befalls its sender.
            18..50 => Turn::Late(Duration::from_millis(20 + random.below(800))),
            50..56 => Turn::Vague,
            56..66 => Turn::Wordy,
            66..85 => Turn::Plain,
            _ => Turn::Honest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_plays_again_and_has_every_turn() {
        let play = |seed: u64| -> Vec<Turn> {
            let behaviour = Behaviour::Rough { seed };
            (0..2_000).map(|number| behaviour.turn(&format!("key-{}", number % 500), number / 500)).collect()
        };
        let turns = play(7);
        assert_eq!(turns, play(7));
        assert_ne!(turns, play(8));
        let has = |is: fn(&Turn) -> bool| turns.iter().any(is);
        assert!(has(|turn| matches!(turn, Turn::Stall { executes: true })));
        assert!(has(|turn| matches!(turn, Turn::Stall { executes: false })));
        assert!(has(|turn| matches!(turn, Turn::Reset { executes: true })));
        assert!(has(|turn| matches!(turn, Turn::Reset { executes: false })));
        assert!(has(|turn| matches!(turn, Turn::Fail { executes: true, .. })));
        assert!(has(|turn| matches!(turn, Turn::Fail { executes: false, .. })));
        assert!(has(|turn| matches!(turn, Turn::Limit { retry_after_s: Some(_) })));
        assert!(has(|turn| matches!(turn, Turn::Limit { retry_after_s: None })));
        for turn in [Turn::Vague, Turn::Wordy, Turn::Plain, Turn::Refuse, Turn::Honest] {
            assert!(turns.contains(&turn), "{turn:?}");
        }
        assert!((0..100).all(|number| Behaviour::Well.turn("k", number) == Turn::Honest));
    }
}
