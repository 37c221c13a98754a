//! Kinds that are secret, or hold a secret: database URLs and keys.

use super::Kind;
use crate::database::{DatabaseUrl, ServerUrl};
use crate::settings::secret::Secret;
use posthaste_services::seal::SealingKey;

/// Which database: either engine.
#[derive(Debug)]
pub(in crate::settings) struct DatabaseAt;

impl Kind for DatabaseAt {
    type Value = DatabaseUrl;
    const METAVAR: &'static str = "URL";

    fn read(&self, text: &str) -> Result<DatabaseUrl, String> {
        text.parse().map_err(|_| "sqlite://<file> or postgres://<user>@<host>/<database>".to_owned())
    }
}

/// Another login to the same PostgreSQL server.
#[derive(Debug)]
pub(in crate::settings) struct ServerAt;

impl Kind for ServerAt {
    type Value = ServerUrl;
    const METAVAR: &'static str = "URL";

    fn read(&self, text: &str) -> Result<ServerUrl, String> {
        text.parse().map_err(|_| "postgres://<user>@<host>/<database>".to_owned())
    }
}

/// The key for the first start. It travels as a bearer token, so it must fit into a header; and it may do
/// everything, so it must not be guessed.
#[derive(Debug)]
pub(in crate::settings) struct RootKey;

const ROOT_KEY_CHARS_MIN: usize = 16;
const ROOT_KEY_CHARS_MAX: usize = 256;

impl Kind for RootKey {
    type Value = Secret;
    const METAVAR: &'static str = "KEY";

    fn read(&self, text: &str) -> Result<Secret, String> {
        let fits = (ROOT_KEY_CHARS_MIN..=ROOT_KEY_CHARS_MAX).contains(&text.len());
        if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(Secret::new(text));
        }
        Err(format!(
            "{ROOT_KEY_CHARS_MIN} to {ROOT_KEY_CHARS_MAX} visible ASCII characters; make one with: openssl rand -hex 32"
        ))
    }
}

#[derive(Debug)]
pub(in crate::settings) struct SealingKeyText;

impl Kind for SealingKeyText {
    type Value = SealingKey;
    const METAVAR: &'static str = "KEY";

    fn read(&self, text: &str) -> Result<SealingKey, String> {
        SealingKey::parse(text).map_err(|_| {
            "64 hexadecimal characters or the base64 of 32 bytes; make one with: openssl rand -hex 32"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_has_logins() {
        for (text, any, server) in [
            ("postgres://u:p@h/d", true, true),
            ("postgresql://h/d", true, true),
            ("sqlite://a.db", true, false),
            ("sqlite://", false, false),
            ("", false, false),
            ("mysql://h/d", false, false),
        ] {
            assert_eq!(DatabaseAt.read(text).is_ok(), any, "{text}");
            assert_eq!(ServerAt.read(text).is_ok(), server, "{text}");
        }
    }

    #[test]
    fn keys_are_checked_and_never_repeated() {
        let hex = "5f".repeat(32);
        assert_eq!(RootKey.read(&hex).map(|key| key.expose().to_owned()), Ok(hex.clone()));
        assert!(SealingKeyText.read(&hex).is_ok());
        let long = "k".repeat(257);
        for text in ["", "hush", "hush hush hush hush", "hush\thushhushhush", "sécret-sécret-sécret", &long]
        {
            let (root, sealing) = (RootKey.read(text).err(), SealingKeyText.read(text).err());
            for told in [root, sealing] {
                assert!(
                    told.as_ref().is_some_and(|told| told.ends_with("openssl rand -hex 32")),
                    "{text}: {told:?}"
                );
                assert!(told.is_some_and(|told| !told.contains("hush")), "{text}");
            }
        }
    }
}
