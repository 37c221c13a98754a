//! Tests of the stored forms of signing secrets and of their decryption.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_core::SecretRef;

const NONCE: [u8; NONCE_LEN] = [7; NONCE_LEN];
const REF: SecretRef = SecretRef::from_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
const HERE: SecretPlace = SecretPlace { secret_ref: REF, column: SecretColumn::Current };

/// A secret in the first encrypted form, under the key of 32 bytes 01. The id was computed with `sha256sum`, the
/// ciphertext with another implementation of AES-GCM.
const BARE: &str = concat!(
    "v1:72cd6e84:BwcHBwcHBwcHBwcH+puZwWzx/MdSyz1Cnocsk9bb1a4OPl8d",
    "M2t/7bxdPZ8ASI7jkqrk5VO8rW/VILAQgx772hJ9"
);

fn hex(byte: u8) -> String {
    format!("{byte:02x}").repeat(32)
}

fn keys(bytes: &[u8]) -> SealingKeys {
    SealingKeys::parse(&bytes.iter().copied().map(hex).collect::<Vec<_>>().join(",")).unwrap()
}

/// Returns a sealer with the keys of 32 times each byte.
fn sealer(bytes: &[u8]) -> SecretSealer {
    SecretSealer::new(Some(keys(bytes)), PlainSecrets::Accepted)
}

fn without_key() -> SecretSealer {
    SecretSealer::new(None, PlainSecrets::Accepted)
}

fn secret() -> SigningSecret {
    SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()
}

fn id_of(byte: u8) -> String {
    keys(&[byte]).first().id().to_owned()
}

#[test]
fn keys_are_hexadecimal_or_base64() {
    let base64 = STANDARD.encode([0xab; 32]);
    for text in [&hex(0xab), &"AB".repeat(32), &base64] {
        assert_eq!(SealingKeys::parse(text).map(|keys| keys.ids()), Ok(id_of(0xab)), "{text}");
    }
    let (short, long) = (STANDARD.encode([0xab; 31]), STANDARD.encode([0xab; 33]));
    let trailing = format!("{},", hex(1));
    let doubled = format!("{},,{}", hex(1), hex(2));
    for text in [
        "",
        ",",
        "secret",
        &"ab".repeat(31),
        &"xy".repeat(32),
        &"é".repeat(32),
        &short,
        &long,
        &trailing,
        &doubled,
    ] {
        assert_eq!(SealingKeys::parse(text).err(), Some(BadSealingKeys::NotAKey), "{text}");
    }
}

#[test]
fn keys_are_a_list_without_duplicates() {
    let listed = SealingKeys::parse(&format!("{} , {}", hex(2), hex(1))).unwrap();
    assert_eq!((listed.first().id(), listed.ids()), (&*id_of(2), format!("{}, {}", id_of(2), id_of(1))));
    let twice = format!("{},{},{}", hex(1), hex(2), STANDARD.encode([1; 32]));
    assert_eq!(SealingKeys::parse(&twice).err(), Some(BadSealingKeys::Duplicate { id: id_of(1) }));
    let many = |count: u8| (0..count).map(hex).collect::<Vec<_>>().join(",");
    assert!(SealingKeys::parse(&many(16)).is_ok());
    assert_eq!(SealingKeys::parse(&many(17)).err(), Some(BadSealingKeys::TooMany));
}

#[test]
fn sealed_secret_can_be_opened() {
    for bytes in [24, 32, 64] {
        let text = format!("whsec_{}", STANDARD.encode(vec![9_u8; bytes]));
        let secret = SigningSecret::parse(&text).unwrap();
        for sealer in [without_key(), sealer(&[1]), sealer(&[2, 1])] {
            let sealed = sealer.seal(&secret, HERE, NONCE);
            assert_eq!(sealer.open(&sealed, HERE), Ok(secret.clone()), "{bytes} bytes");
        }
    }
}

#[test]
fn stored_form_is_stable() {
    assert_eq!(without_key().seal(&secret(), HERE, NONCE).expose(), secret().reveal());
    // Both texts were computed with another implementation of AES-GCM.
    for (column, expected) in [
        (
            SecretColumn::Current,
            concat!(
                "v2:72cd6e84:BwcHBwcHBwcHBwcH+puZwWzx/MdSyz1Cnocsk9bb1a4OPl8d",
                "M2t/7bxdPZ8ASI7jkqpikvXLhf0J5BE2PhN9HaQy"
            ),
        ),
        (
            SecretColumn::Previous,
            concat!(
                "v2:72cd6e84:BwcHBwcHBwcHBwcH+puZwWzx/MdSyz1Cnocsk9bb1a4OPl8d",
                "M2t/7bxdPZ8ASI7jkqpvQOASIZ9wHY4qvhfnyLXD"
            ),
        ),
    ] {
        let place = SecretPlace { column, ..HERE };
        assert_eq!(sealer(&[1]).seal(&secret(), place, NONCE).expose(), expected);
        assert_eq!(sealer(&[2, 1]).open(&SealedSecret::new(expected), place), Ok(secret()));
    }
    // A different nonce results in a different ciphertext.
    let sealer = sealer(&[1]);
    assert_ne!(sealer.seal(&secret(), HERE, NONCE), sealer.seal(&secret(), HERE, [8; NONCE_LEN]));
}

#[test]
fn moved_secret_does_not_open() {
    let sealed = sealer(&[1]).seal(&secret(), HERE, NONCE);
    for place in [
        SecretPlace { column: SecretColumn::Previous, ..HERE },
        SecretPlace { secret_ref: SecretRef::from_bits(REF.bits() ^ 1), ..HERE },
    ] {
        assert_eq!(sealer(&[1]).open(&sealed, place), Err(UnsealError::Damaged), "{place:?}");
    }
    // The prefix of the first form does not remove the place.
    let bare = SealedSecret::new(sealed.expose().replacen("v2:", "v1:", 1));
    assert_eq!(sealer(&[1]).open(&bare, HERE), Err(UnsealError::Damaged));
}

#[test]
fn first_key_seals_and_all_keys_open() {
    let (old, new) = (sealer(&[1]), sealer(&[2, 1]));
    let by_old = old.seal(&secret(), HERE, NONCE);
    let by_new = new.seal(&secret(), HERE, NONCE);
    assert_eq!(new.open(&by_old, HERE), Ok(secret()));
    assert_eq!(sealer(&[2]).open(&by_new, HERE), Ok(secret()));
    assert!(old.open(&by_new, HERE).is_err() && sealer(&[2]).open(&by_old, HERE).is_err());
    assert_eq!((new.key_id(), without_key().key_id()), (Some(&*id_of(2)), None));
}

#[test]
fn earlier_forms_open() {
    let plain = SealedSecret::new(secret().reveal());
    let bare = SealedSecret::new(BARE);
    let elsewhere = SecretPlace { column: SecretColumn::Previous, ..HERE };
    for place in [HERE, elsewhere] {
        assert_eq!(sealer(&[1]).open(&plain, place), Ok(secret()));
        assert_eq!(sealer(&[2, 1]).open(&bare, place), Ok(secret()));
    }
}

#[test]
fn plain_secret_can_be_refused() {
    let strict = SecretSealer::new(Some(keys(&[1])), PlainSecrets::Refused);
    let plain = SealedSecret::new(secret().reveal());
    assert_eq!(strict.open(&plain, HERE), Err(UnsealError::Plain));
    assert_eq!(strict.open(&SealedSecret::new(BARE), HERE), Ok(secret()));
    assert_eq!(strict.open(&strict.seal(&secret(), HERE, NONCE), HERE), Ok(secret()));
    assert!(UnsealError::Plain.to_string().contains("posthaste reseal"));
}

#[test]
fn error_names_the_missing_key_and_those_present() {
    let sealed = sealer(&[1]).seal(&secret(), HERE, NONCE);
    let sealed_with = id_of(1);
    let missing = without_key().open(&sealed, HERE).unwrap_err();
    assert_eq!(missing, UnsealError::NoKey { sealed_with: sealed_with.clone() });
    let other = sealer(&[2, 3]).open(&sealed, HERE).unwrap_err();
    let ours = format!("{}, {}", id_of(2), id_of(3));
    assert_eq!(other, UnsealError::OtherKey { sealed_with: sealed_with.clone(), ours });
    assert_eq!(other.missing_key(), Some(&*sealed_with));
    assert_eq!(UnsealError::Damaged.missing_key(), None);
}

#[test]
fn every_changed_character_is_detected() {
    for sealed in [sealer(&[1]).seal(&secret(), HERE, NONCE), SealedSecret::new(BARE)] {
        let text = sealed.expose();
        for at in 0..text.len() {
            let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            let tampered = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert!(sealer(&[1]).open(&SealedSecret::new(&tampered), HERE).is_err(), "{tampered}");
        }
        for at in 0..text.len() {
            assert!(sealer(&[1]).open(&SealedSecret::new(&text[..at]), HERE).is_err(), "cut at {at}");
        }
    }
}

#[test]
fn malformed_secret_is_refused() {
    for form in ["v1", "v2"] {
        for rest in ["", ":", "72cd6e84:", "72cd6e84:AAAA", "whsec_AAAA:AAAA", "é:A"] {
            let text = format!("{form}:{rest}");
            let opened = sealer(&[1]).open(&SealedSecret::new(&text), HERE);
            assert_eq!(opened, Err(UnsealError::Damaged), "{text}");
        }
    }
    for text in ["", "hush", "v3:72cd6e84:AAAA"] {
        assert_eq!(sealer(&[1]).open(&SealedSecret::new(text), HERE), Err(UnsealError::Damaged), "{text}");
    }
    let short = Err(UnsealError::NotASecret(BadSecret::Length(4)));
    assert_eq!(sealer(&[1]).open(&SealedSecret::new("plain:hush"), HERE), short);
}

#[test]
fn secrets_of_every_form_are_stored_without_a_key() {
    let sealer = SecretSealer::new(None, PlainSecrets::Accepted);
    for (text, stored) in [
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("a-secret-of-github", "plain:a-secret-of-github"),
        ("plain:secret", "plain:plain:secret"),
    ] {
        let secret = SigningSecret::parse(text).expect("a secret");
        let sealed = sealer.seal(&secret, HERE, NONCE);
        assert_eq!(sealed.expose(), stored);
        assert_eq!(sealer.open(&sealed, HERE), Ok(secret));
    }
}

/// The secrets of a subscription; the previous secret expires at 10.
fn secrets(current: &str, previous: Option<&str>) -> Secrets {
    let until = Timestamp::from_micros(10);
    let previous = previous.map(|text| (SealedSecret::new(text), until));
    Secrets { secret_ref: REF, current: SealedSecret::new(current), previous, older: None, credentials: None }
}

#[test]
fn secrets_are_resealed_with_the_first_key() {
    let (old, new) = (sealer(&[1]), sealer(&[2, 1]));
    let (id, plain) = (SubscriptionId::from_store(7), secret().reveal());
    let place = |column| SecretPlace { column, ..HERE };
    let by = |sealer: &SecretSealer, column| sealer.seal(&secret(), place(column), NONCE).expose().to_owned();
    let (current, previous) = (by(&new, SecretColumn::Current), by(&new, SecretColumn::Previous));
    let now = Timestamp::from_micros(9);
    for before in [
        secrets(&plain, Some(&plain)),
        secrets(BARE, Some(BARE)),
        secrets(&by(&old, SecretColumn::Current), Some(&by(&old, SecretColumn::Previous))),
        secrets(&current, Some(BARE)),
        secrets(BARE, Some(&previous)),
        secrets(BARE, None),
    ] {
        let resealed = new.reseal(id, &before, now, || NONCE).unwrap().expect("a change");
        assert_eq!((resealed.id, &resealed.before), (id, &before));
        assert_eq!(resealed.current.expose(), current);
        let expected = before.previous.as_ref().map(|_| previous.as_str());
        assert_eq!(resealed.previous.as_ref().map(SealedSecret::expose), expected);
    }
    let newest = secrets(&current, Some(&previous));
    assert_eq!(new.reseal(id, &newest, now, || NONCE), Ok(None));
    assert_eq!(without_key().reseal(id, &secrets(&plain, None), now, || NONCE), Ok(None));
    // A text in the newest form is opened too, so that one in the wrong place is found.
    let swapped = secrets(&previous, Some(&current));
    assert_eq!(new.reseal(id, &swapped, now, || NONCE), Err(UnsealError::Damaged));
    let missing = new.reseal(id, &secrets(&by(&sealer(&[3]), SecretColumn::Current), None), now, || NONCE);
    assert_eq!(missing.unwrap_err().missing_key(), Some(&*id_of(3)));
}

#[test]
fn expired_previous_secret_is_removed_and_not_opened() {
    let new = sealer(&[2]);
    let id = SubscriptionId::from_store(7);
    let place = SecretPlace { column: SecretColumn::Previous, ..HERE };
    let current = new.seal(&secret(), HERE, NONCE);
    let now = Timestamp::from_micros(10);
    for expired in [BARE, &secret().reveal(), "v2:damaged"] {
        let before = secrets(current.expose(), Some(expired));
        let resealed = new.reseal(id, &before, now, || NONCE).unwrap().expect("a change");
        assert_eq!((&resealed.current, resealed.previous), (&current, None), "{expired}");
    }
    let newest = new.seal(&secret(), place, NONCE);
    assert_eq!(new.reseal(id, &secrets(current.expose(), Some(newest.expose())), now, || NONCE), Ok(None));
}

#[test]
fn debug_output_contains_no_key_or_secret() {
    let sealed = sealer(&[1]).seal(&secret(), HERE, NONCE);
    let opened = without_key().open(&sealed, HERE);
    let shown = format!("{:?} {sealed:?} {opened:?}", sealer(&[1, 2]));
    assert!(!shown.contains("0101"), "{shown}");
    assert!(!shown.contains("BwcH"), "{shown}");
    assert!(shown.contains("SealingKeys { first: SealingKey(…), others: [SealingKey(…)] }"), "{shown}");
}
