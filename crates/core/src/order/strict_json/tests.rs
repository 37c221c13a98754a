//! Tests that accepted content is parsed as by `serde_json`, and that other content is refused.

use proptest::prelude::*;

use super::*;
use crate::json::NESTING_MAX;

fn read_text(text: &str) -> Result<Value, Flaw> {
    read(&JsonText::parse(text, 1_000_000).unwrap())
}

fn inexact(number: &str) -> Result<Value, Flaw> {
    Err(Flaw::InexactNumber(number.to_owned()))
}

#[test]
fn numbers_that_are_exact_as_a_double_are_accepted() {
    let rows = [
        ("0", 0.0),
        ("-0", 0.0),
        ("0e999999999999999999999", 0.0),
        ("1", 1.0),
        ("1.0", 1.0),
        ("1.00", 1.0),
        ("1e0", 1.0),
        ("0.1e1", 1.0),
        ("10E-1", 1.0),
        ("100000000000000000000000e-23", 1.0),
        ("145.001", 145.001),
        ("0.1", 0.1),
        ("0.30000000000000004", 0.300_000_000_000_000_04),
        ("-12345.678e+2", -1_234_567.8),
        ("9007199254740992", 9_007_199_254_740_992.0),
        ("9007199254740994", 9_007_199_254_740_994.0),
        ("1424953923781206.2", f64::from_bits(0x4314_3ff3_c1cb_0959)),
        ("1e23", 1e23),
        ("5e-324", 5e-324),
        ("1.7976931348623157e308", f64::MAX),
        ("18446744073709552000", 18_446_744_073_709_552_000.0),
    ];
    for (text, expected) in rows {
        let number = read_text(text).map(|value| value.as_f64());
        assert_eq!(number, Ok(Some(expected)), "{text}");
    }
    let long = format!("0.{}1e5001", "0".repeat(5000));
    assert_eq!(read_text(&long).map(|value| value.as_f64()), Ok(Some(1.0)));
}

#[test]
fn numbers_that_a_double_would_change_are_refused() {
    let rows = [
        "9007199254740993",
        "-9007199254740993",
        "1e400",
        "-1e400",
        "1e-400",
        "0.1000000000000000055",
        "0.1000000000000000000000001",
        "1424953923781206.25",
        "1424953923781206.3",
        "18446744073709551615",
        "18446744073709551616",
        "4.9e-324",
        "1.7976931348623158e308",
        "1e99999999999999999999999999",
        "1e-99999999999999999999999999",
        "100000000000000000000001",
    ];
    for text in rows {
        assert_eq!(read_text(text), inexact(text));
        assert_eq!(read_text(&format!("{{\"a\":[1,{text}]}}")), inexact(text), "{text}, inside");
    }
    let long = "1".repeat(300);
    assert_eq!(read_text(&long), inexact(&format!("{}…", "1".repeat(40))));
}

#[test]
fn strings_and_keys_that_the_store_would_change_are_refused() {
    let rows = [
        (r#""\u0000""#, Flaw::Nul),
        (r#"["a\u0000b"]"#, Flaw::Nul),
        (r#"{"\u0000":1}"#, Flaw::Nul),
        (r#""\ud800""#, Flaw::LoneSurrogate),
        (r#""\udc00""#, Flaw::LoneSurrogate),
        (r#""\uDBFFx""#, Flaw::LoneSurrogate),
        (r#""\ud800\n""#, Flaw::LoneSurrogate),
        (r#""\ud800\ud800""#, Flaw::LoneSurrogate),
        (r#""\ud800\u0041""#, Flaw::LoneSurrogate),
        (r#""\ud83d\ude00\ude00""#, Flaw::LoneSurrogate),
        (r#"{"a":1,"a":1}"#, Flaw::DuplicateKey("a".into())),
        (r#"{"a":1,"\u0061":1}"#, Flaw::DuplicateKey("a".into())),
        (r#"{"":1,"":1}"#, Flaw::DuplicateKey(String::new())),
        (r#"[{"x":{"b":1,"c":2,"b":3}}]"#, Flaw::DuplicateKey("b".into())),
    ];
    for (text, flaw) in rows {
        assert_eq!(read_text(text), Err(flaw), "{text}");
    }
}

#[test]
fn similar_but_valid_strings_are_accepted() {
    let rows = [
        (r#""\\u0000""#, "\\u0000"),
        (r#""\\\u0041""#, "\\A"),
        (r#""\ud83d\ude00""#, "😀"),
        (r#""\uD83D\uDE00""#, "😀"),
        (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
        (r#""\ufffe\uffff\ue000""#, "\u{fffe}\u{ffff}\u{e000}"),
        ("\"ä€😀\u{7f}\"", "ä€😀\u{7f}"),
    ];
    for (text, expected) in rows {
        assert_eq!(read_text(text), Ok(Value::String(expected.into())), "{text}");
    }
    assert!(read_text(r#"{"a":{"a":1},"A":{"a":1}}"#).is_ok());
}

#[test]
fn deepest_accepted_text_is_parsed() {
    let text = "[".repeat(NESTING_MAX) + &"]".repeat(NESTING_MAX);
    let mut levels = 0;
    let mut value = read_text(&text).unwrap();
    while let Value::Array(mut items) = value {
        levels += 1;
        value = items.pop().unwrap_or(Value::Null);
    }
    assert_eq!(levels, NESTING_MAX);
}

/// Returns a strategy for values whose numbers are exact, for which both parsers must agree.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n))),
        prop::num::f64::NORMAL.prop_map(Value::from),
        "[^\u{0}]{0,10}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[^\u{0}]{0,6}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn printed_value_round_trips(value in value()) {
        prop_assert_eq!(read_text(&value.to_string()), Ok(value.clone()));
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(read_text(&pretty), Ok(value));
    }

    #[test]
    fn every_double_is_exact_in_its_canonical_form(bits in any::<u64>()) {
        let double = f64::from_bits(bits);
        prop_assume!(double.is_finite());
        let text = canonical(&Value::from(double)).unwrap();
        let negative_zero = double == 0.0;
        prop_assert!(negative_zero || read_text(&text) == Ok(Value::from(double)), "{}", text);
    }

    #[test]
    fn no_json_panics(text in r#"[\[\]{}",:\\ud8c0-9.eE+\- ]{0,40}"#) {
        if let Ok(json) = JsonText::parse(text, 1000) {
            prop_assert_ne!(read(&json), Err(Flaw::Malformed));
        }
    }

    #[test]
    fn text_that_was_not_validated_does_not_panic(text in ".{0,60}") {
        let _ = read(&JsonText::from_store(text));
    }
}
