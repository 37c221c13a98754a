//! [`Kind`]s of settings that contain secrets: database URLs and keys.

use super::Kind;
use crate::database::{DatabaseUrl, ServerUrl};
use crate::settings::secret::Secret;
use posthaste_services::seal::{BadSealingKeys, PlainSecrets, SealingKeys};
use posthaste_store::postgres::check_url;
use posthaste_store::{NotAPrefix, RolePrefix};
use std::collections::HashSet;

/// A database URL for either engine.
#[derive(Debug)]
pub(in crate::settings) struct DatabaseAt;

impl Kind for DatabaseAt {
    type Value = DatabaseUrl;
    const METAVAR: &'static str = "URL";

    fn read(&self, text: &str) -> Result<DatabaseUrl, String> {
        let url = text.parse().map_err(|_| self.accepts())?;
        if let DatabaseUrl::Postgres(url) = &url {
            check(url, &self.accepts())?;
        }
        Ok(url)
    }

    fn accepts(&self) -> String {
        "sqlite://<file> or postgres://<user>@<host>/<database>".to_owned()
    }
}

/// A PostgreSQL URL with the login of one database role.
#[derive(Debug)]
pub(in crate::settings) struct ServerAt;

impl Kind for ServerAt {
    type Value = ServerUrl;
    const METAVAR: &'static str = "URL";

    fn read(&self, text: &str) -> Result<ServerUrl, String> {
        let url = text.parse().map_err(|_| self.accepts())?;
        check(&url, &self.accepts())?;
        Ok(url)
    }

    fn accepts(&self) -> String {
        "postgres://<user>@<host>/<database>".to_owned()
    }
}

/// The prefix of the names of the database roles.
#[derive(Debug)]
pub(in crate::settings) struct Prefix;

impl Kind for Prefix {
    type Value = RolePrefix;
    const METAVAR: &'static str = "PREFIX";

    fn read(&self, text: &str) -> Result<RolePrefix, String> {
        RolePrefix::parse(text).map_err(|_| self.accepts())
    }

    fn accepts(&self) -> String {
        NotAPrefix.to_string()
    }
}

/// Checks the parameters of a PostgreSQL URL.
fn check(url: &ServerUrl, accepts: &str) -> Result<(), String> {
    check_url(url.expose()).map_err(|reason| format!("{accepts}, but {reason}"))
}

/// The root key. It must fit into a header, because it is sent as a bearer token, and it must be hard to guess, because
/// it grants every role.
#[derive(Debug)]
pub(in crate::settings) struct RootKey;

/// The minimum length of the root key, in characters. 32 hexadecimal digits encode 128 bits.
const ROOT_KEY_CHARS_MIN: usize = 32;
const ROOT_KEY_CHARS_MAX: usize = 256;

/// The minimum number of distinct characters in the root key. It rejects repeated characters and repeated short words,
/// but fewer than one in 20 million random keys of 32 hexadecimal digits.
const ROOT_KEY_DISTINCT_MIN: usize = 8;

/// The example key in README.md before version 0.1, which is publicly known.
const PUBLISHED: &str = "a-long-random-text";

impl Kind for RootKey {
    type Value = Secret;
    const METAVAR: &'static str = "KEY";

    fn read(&self, text: &str) -> Result<Secret, String> {
        let fits = (ROOT_KEY_CHARS_MIN..=ROOT_KEY_CHARS_MAX).contains(&text.len());
        if !fits || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "{ROOT_KEY_CHARS_MIN} to {ROOT_KEY_CHARS_MAX} visible ASCII characters; \
                 create one with: openssl rand -hex 32"
            ));
        }
        if is_trivial(text) {
            return Err(format!(
                "a key that is hard to guess: not an example, no repetition, no sequence of letters or digits, and at \
                 least {ROOT_KEY_DISTINCT_MIN} distinct characters; create one with: openssl rand -hex 32"
            ));
        }
        Ok(Secret::new(text))
    }

    fn accepts(&self) -> String {
        format!("{ROOT_KEY_CHARS_MIN} to {ROOT_KEY_CHARS_MAX} visible ASCII characters")
    }
}

/// Returns whether a key is easy to guess: it contains the published example, has too few distinct characters, is
/// periodic, or is an ascending or descending sequence.
fn is_trivial(text: &str) -> bool {
    let bytes = text.as_bytes();
    let distinct = bytes.iter().collect::<HashSet<_>>().len();
    // A text has period n if it equals itself shifted by n.
    let repeats =
        |period: usize| bytes.iter().zip(bytes.iter().skip(period)).all(|(one, other)| one == other);
    let pairs = || bytes.iter().zip(bytes.iter().skip(1));
    let ascending = pairs().filter(|(one, other)| one.wrapping_add(1) == **other).count();
    let descending = pairs().filter(|(one, other)| one.wrapping_sub(1) == **other).count();
    distinct < ROOT_KEY_DISTINCT_MIN
        || text.contains(PUBLISHED)
        || (1..=bytes.len() / 2).any(repeats)
        || ascending.max(descending) > bytes.len() / 2
}

/// The keys that encrypt signing secrets.
#[derive(Debug)]
pub(in crate::settings) struct SealingKeyList;

impl Kind for SealingKeyList {
    type Value = SealingKeys;
    const METAVAR: &'static str = "KEYS";
    const SEPARATOR: Option<&'static str> = Some(",");

    fn read(&self, text: &str) -> Result<SealingKeys, String> {
        SealingKeys::parse(text).map_err(|error| match error {
            BadSealingKeys::NotAKey => format!("{}; create one with: openssl rand -hex 32", self.accepts()),
            BadSealingKeys::Duplicate { .. } | BadSealingKeys::TooMany => {
                format!("{}; {error}", self.accepts())
            }
        })
    }

    fn accepts(&self) -> String {
        "keys separated by commas, each 64 hexadecimal characters or the base64 of 32 bytes".to_owned()
    }
}

/// Whether signing secrets in plain text are accepted.
#[derive(Debug)]
pub(in crate::settings) struct StoredSecrets;

impl Kind for StoredSecrets {
    type Value = PlainSecrets;
    const METAVAR: &'static str = "any|sealed";

    fn read(&self, text: &str) -> Result<PlainSecrets, String> {
        match text {
            "any" => Ok(PlainSecrets::Accepted),
            "sealed" => Ok(PlainSecrets::Refused),
            _ => Err(self.accepts()),
        }
    }

    fn accepts(&self) -> String {
        "any or sealed".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_urls_of_postgres_only() {
        for (text, any, server) in [
            ("postgres://u:p@h/d", true, true),
            ("postgresql://h/d", true, true),
            ("sqlite://a.db", true, false),
            ("sqlite://", false, false),
            ("", false, false),
            ("mysql://h/d", false, false),
            ("postgres://u@h1,h2/d?sslmode=require", true, true),
            ("postgres://u:hush@h/d?sslmode=allow", false, false),
        ] {
            assert_eq!(DatabaseAt.read(text).is_ok(), any, "{text}");
            assert_eq!(ServerAt.read(text).is_ok(), server, "{text}");
        }
        let message = ServerAt.read("postgres://u:hush@h/d?sslmode=allow").unwrap_err();
        assert!(message.contains("sslmode=allow is not supported") && !message.contains("hush"), "{message}");
    }

    #[test]
    fn invalid_keys_are_refused_without_being_shown() {
        let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(RootKey.read(hex).map(|key| key.expose().to_owned()), Ok(hex.to_owned()));
        assert!(SealingKeyList.read(hex).is_ok());
        let long = "k".repeat(257);
        for text in ["", "hush", "hush hush hush hush", "hush\thushhushhush", "sécret-sécret-sécret", &long]
        {
            let (root, sealing) = (RootKey.read(text).err(), SealingKeyList.read(text).err());
            for message in [root, sealing] {
                let message = message.expect(text);
                assert!(message.ends_with("openssl rand -hex 32"), "{text}: {message}");
                assert!(!message.contains("hush"), "{text}: {message}");
            }
        }
    }

    #[test]
    fn sealing_keys_are_a_list() {
        let (one, other) = ("5f".repeat(32), "60".repeat(32));
        let read = |text: String| SealingKeyList.read(&text).map(|keys| keys.ids());
        assert_eq!(read(format!("{one}, {other}")).map(|ids| ids.len()), Ok("72cd6e84, 72cd6e84".len()));
        let message = read(format!("{one},{one}")).expect_err("the same key twice");
        assert!(message.contains("is given twice") && !message.contains("5f5f"), "{message}");
        let message = read(format!("{one},{}", "xy".repeat(32))).expect_err("no key");
        assert!(message.ends_with("openssl rand -hex 32") && !message.contains("xyxy"), "{message}");
        assert_eq!(StoredSecrets.read("sealed"), Ok(PlainSecrets::Refused));
        assert_eq!(StoredSecrets.read("Sealed"), Err("any or sealed".to_owned()));
    }

    #[test]
    fn guessable_root_keys_are_refused() {
        let short = &"9f86d081884c7d659a2feaa0c55ad015"[..31];
        let rows = [
            "a-long-random-text".to_owned(),
            "a".repeat(16),
            "a".repeat(64),
            "ab".repeat(32),
            "password".repeat(4),
            "0123456789abcdef".repeat(4),
            "correct-horse-battery-staple-1-correct-horse-battery-staple-1-".to_owned(),
            "abcdefghijklmnopqrstuvwxyz0123456789".to_owned(),
            "zyxwvutsrqponmlkjihgfedcba9876543210".to_owned(),
            "a-long-random-text-with-something-behind-it-4711".to_owned(),
            "11112222333344445555666677771111222".to_owned(),
            short.to_owned(),
        ];
        for text in rows {
            let message = RootKey.read(&text).map(|_| ()).expect_err(&text);
            assert!(
                message.ends_with("openssl rand -hex 32") && !message.contains(&text),
                "{text}: {message}"
            );
        }
        for text in [
            "9f86d081884c7d659a2feaa0c55ad015",
            "phk_9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "the-root-key-of-the-order-chaos-test",
            "Tr0ub4dor&3/is-not-the-key-that-we-use",
        ] {
            assert!(RootKey.read(text).is_ok(), "{text}");
        }
    }
}
