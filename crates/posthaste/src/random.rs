//! Generates random bytes, lease tokens and process names. The operating system is the only source of randomness.

use anyhow::Context as _;
use posthaste_core::LeaseToken;

/// Fills a buffer with cryptographically secure random bytes. Aborts the process if the operating system provides none.
pub(crate) fn fill(bytes: &mut [u8]) {
    // getrandom does not fail after its first success. A server calls it first in `process_name`, which reports errors.
    if getrandom::fill(bytes).is_err() {
        tracing::error!("no random bytes from the operating system, aborting");
        std::process::abort();
    }
}

/// Returns a new fencing token for a claim.
pub(crate) fn lease_token() -> LeaseToken {
    let mut bits = [0; 16];
    fill(&mut bits);
    LeaseToken::from_random(u128::from_ne_bytes(bits))
}

/// Returns a unique name for this process: host name, process id and 32 random bits, because process ids are
/// reused.
pub(crate) fn process_name() -> anyhow::Result<String> {
    let mut suffix = [0; 4];
    getrandom::fill(&mut suffix).context("reading random bytes from the operating system")?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let visible: String = host.chars().filter(char::is_ascii_graphic).take(60).collect();
    let host = if visible.is_empty() { "posthaste" } else { &visible };
    Ok(format!("{host}-{}-{:08x}", std::process::id(), u32::from_ne_bytes(suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::WorkerId;

    #[test]
    fn names_and_tokens_are_unique() {
        let names = [process_name().expect("a name"), process_name().expect("a name")];
        assert_ne!(names[0], names[1]);
        assert!(names.into_iter().all(|name| WorkerId::parse(name).is_ok()));
        assert_ne!(lease_token(), lease_token());
    }
}
