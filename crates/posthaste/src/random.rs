//! Where randomness comes from: the operating system, and nowhere else.

use anyhow::Context as _;
use posthaste_core::LeaseToken;

/// Fills a buffer with bytes that nobody can guess.
pub(crate) fn fill(bytes: &mut [u8]) {
    // The system's source cannot fail once it has answered, and it answered when the process got its name.
    if getrandom::fill(bytes).is_err() {
        tracing::error!("the operating system gives no random numbers");
        std::process::abort();
    }
}

/// A fresh token for a claim.
pub(crate) fn lease_token() -> LeaseToken {
    let mut bits = [0; 16];
    fill(&mut bits);
    LeaseToken::from_random(u128::from_ne_bytes(bits))
}

/// A name that no other process has: where it runs, its number, and a little chance, because numbers
/// come again.
pub(crate) fn process_name() -> anyhow::Result<String> {
    let mut chance = [0; 4];
    getrandom::fill(&mut chance).context("asking the operating system for random numbers")?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let visible: String = host.chars().filter(char::is_ascii_graphic).take(60).collect();
    let host = if visible.is_empty() { "posthaste" } else { &visible };
    Ok(format!("{host}-{}-{:08x}", std::process::id(), u32::from_ne_bytes(chance)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::WorkerId;

    #[test]
    fn names_and_tokens_differ() {
        let names = [process_name().expect("a name"), process_name().expect("a name")];
        assert_ne!(names[0], names[1]);
        assert!(names.into_iter().all(|name| WorkerId::parse(name).is_ok()));
        assert_ne!(lease_token(), lease_token());
    }
}
