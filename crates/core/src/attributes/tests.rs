//! Tests of attributes: their validation and their canonical text.

use super::*;
use proptest::prelude::*;

fn text(value: &str) -> AttributeValue {
    AttributeValue::Text(value.to_owned())
}

fn number(value: &str) -> AttributeValue {
    AttributeValue::Number(value.to_owned())
}

/// Returns an object with `count` attributes.
fn many(count: usize) -> String {
    let members: Vec<String> = (0..count).map(|n| format!(r#""a{n:02}":1"#)).collect();
    format!("{{{}}}", members.join(","))
}

#[test]
fn canonical_text_is_sorted_and_minimal() {
    let time = r#"{"dataschema":"urn:s","source":"/s","subject":"1","time":"2026-11-05T17:31:00Z"}"#;
    let (longest_name, longest_text) = ("n".repeat(64), "ü".repeat(1_024));
    let longest = format!(r#"{{"{longest_name}":"{longest_text}"}}"#);
    let rows: &[(&str, &str)] = &[
        ("{}", "{}"),
        (" { } ", "{}"),
        (r#"{"b":1,"a":"x","c":true,"10":false}"#, r#"{"10":false,"a":"x","b":1,"c":true}"#),
        (r#"{"a":1.0,"b":-0,"c":1E2,"d":0.10,"e":1e21}"#, r#"{"a":1,"b":0,"c":100,"d":0.1,"e":1e+21}"#),
        (r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#),
        (r#"{"a":-1e-400}"#, r#"{"a":0}"#),
        (r#"{"a":"\u00e9\/\n\u001f\"\\\ud83d\ude00"}"#, r#"{"a":"é/\n\u001f\"\\😀"}"#),
        (r#"{"\u0061":"b"}"#, r#"{"a":"b"}"#),
        (time, time),
        (&longest, &longest),
        (&many(20), &many(20)),
    ];
    for (sent, expected) in rows {
        let attributes = Attributes::parse(sent).expect(sent);
        assert_eq!(attributes.canonical(), *expected, "{sent}");
        assert_eq!(Attributes::from_store(expected), Ok(attributes), "{sent}");
        let value: Value = serde_json::from_str(sent).expect(sent);
        assert_eq!(canonical(&value).expect(sent), *expected, "{sent}");
    }
}

#[test]
fn flaws_are_named() {
    use AttributeError::*;
    let name = |name: &str| name.to_owned();
    let long_name = "n".repeat(65);
    let long_text = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_025));
    let rows = [
        ("[]", NotAnObject),
        ("null", NotAnObject),
        ("\"a\"", NotAnObject),
        (&many(21), TooMany(21)),
        (r#"{"":1}"#, Name(String::new())),
        (r#"{"A":1}"#, Name(name("A"))),
        (r#"{"a_b":1}"#, Name(name("a_b"))),
        (r#"{"ä":1}"#, Name(name("ä"))),
        (&format!(r#"{{"{long_name}":1}}"#), Name(shortened(&long_name))),
        (r#"{"id":"1"}"#, Reserved(name("id"))),
        (r#"{"type":"1"}"#, Reserved(name("type"))),
        (r#"{"specversion":"1.0"}"#, Reserved(name("specversion"))),
        (r#"{"data":1}"#, Reserved(name("data"))),
        (r#"{"datacontenttype":"a/b"}"#, Reserved(name("datacontenttype"))),
        (r#"{"a":1,"b":2,"a":1}"#, Duplicate(name("a"))),
        (r#"{"a":1,"\u0061":1}"#, Duplicate(name("a"))),
        (r#"{"a":null}"#, Type(name("a"))),
        (r#"{"a":[1]}"#, Type(name("a"))),
        (r#"{"a":{"b":1}}"#, Type(name("a"))),
        (r#"{"source":1}"#, NotText(name("source"))),
        (r#"{"subject":true}"#, NotText(name("subject"))),
        (r#"{"dataschema":1}"#, NotText(name("dataschema"))),
        (r#"{"time":1762363860}"#, NotText(name("time"))),
        (r#"{"time":"yesterday"}"#, Time(name("yesterday"))),
        (r#"{"a":""}"#, TextLength { name: name("a"), chars: 0 }),
        (&long_text, TextLength { name: name("a"), chars: 1_025 }),
        (r#"{"a":"b\u0000"}"#, Nul(name("a"))),
        (r#"{"a":1e400}"#, Number { name: name("a"), number: name("1e400") }),
        (r#"{"a":-1e999}"#, Number { name: name("a"), number: name("-1e999") }),
    ];
    for (sent, expected) in rows {
        assert_eq!(Attributes::parse(sent), Err(expected), "{sent}");
    }
    for bad in ["", "{", "{}1", "{a:1}", r#"{"a":01}"#, r#"{"a":"\ud800"}"#, r#"{"\ud800":1}"#] {
        let refused = Attributes::parse(bad);
        assert!(matches!(refused, Err(Json(_))), "{bad}: {refused:?}");
    }
    let deep = format!(r#"{{"a":{}}}"#, "[".repeat(100_000) + &"]".repeat(100_000));
    assert_eq!(Attributes::parse(&deep), Err(Type(name("a"))));
}

#[test]
fn insert_checks_the_same_rules() {
    let mut attributes = Attributes::default();
    assert!(attributes.is_empty());
    for (name, value, expected) in [
        ("a", text("x"), Ok(())),
        ("b", number("1e2"), Ok(())),
        ("c", AttributeValue::Boolean(true), Ok(())),
        ("a", text("y"), Err(AttributeError::Duplicate("a".to_owned()))),
        ("A", text("x"), Err(AttributeError::Name("A".to_owned()))),
        ("id", text("x"), Err(AttributeError::Reserved("id".to_owned()))),
        ("d", text(""), Err(AttributeError::TextLength { name: "d".to_owned(), chars: 0 })),
        ("time", text("x"), Err(AttributeError::Time("x".to_owned()))),
        ("source", number("1"), Err(AttributeError::NotText("source".to_owned()))),
        ("n", number("x"), Err(AttributeError::Number { name: "n".to_owned(), number: "x".to_owned() })),
        ("n", number("NaN"), Err(AttributeError::Number { name: "n".to_owned(), number: "NaN".to_owned() })),
    ] {
        assert_eq!(attributes.insert(name, value.clone()), expected, "{name} {value:?}");
    }
    assert_eq!(attributes.canonical(), r#"{"a":"x","b":100,"c":true}"#);
    let found: Vec<_> = attributes.iter().map(|(name, value)| (name, value.as_text().into_owned())).collect();
    assert_eq!(found, [("a", "x".to_owned()), ("b", "100".to_owned()), ("c", "true".to_owned())]);
    assert_eq!(attributes.get("b"), Some(&number("100")));
    assert_eq!((attributes.get("z"), attributes.len()), (None, 3));
    let mut full = Attributes::parse(&many(20)).expect("attributes");
    assert_eq!(full.insert("b", text("x")), Err(AttributeError::TooMany(21)));
}

#[test]
fn stored_text_is_read_without_limits() {
    for stored in [r#"{"A_b":"","id":1}"#, &many(30)] {
        assert_eq!(Attributes::from_store(stored).map(|all| all.canonical()).as_deref(), Ok(stored));
    }
    for bad in ["", "[]", r#"{"a":null}"#, r#"{"a":{}}"#] {
        assert!(Attributes::from_store(bad).is_err(), "{bad}");
    }
}

fn any_value() -> impl Strategy<Value = AttributeValue> {
    let double = proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO;
    prop_oneof![
        "[^\0]{1,20}".prop_map(AttributeValue::Text),
        double.prop_map(|double| AttributeValue::Number(format!("{double:e}"))),
        any::<i64>().prop_map(|integer| AttributeValue::Number(integer.to_string())),
        any::<bool>().prop_map(AttributeValue::Boolean),
    ]
}

proptest! {
    #[test]
    fn canonical_text_round_trips(values in proptest::collection::btree_map("x[a-z0-9]{0,3}", any_value(), 0..20)) {
        let mut attributes = Attributes::default();
        for (name, value) in values {
            attributes.insert(name, value).expect("an attribute");
        }
        let stored = attributes.canonical();
        prop_assert_eq!(Attributes::parse(&stored), Ok(attributes.clone()));
        prop_assert_eq!(Attributes::from_store(&stored), Ok(attributes));
        let value: Value = serde_json::from_str(&stored).expect("JSON");
        prop_assert_eq!(canonical(&value).expect("canonical JSON"), stored);
    }

    #[test]
    fn no_text_panics(text in any::<String>(), near in r#"[{}\[\]":,a-c\\u0-9.e\-]{0,40}"#) {
        for text in [text, near] {
            if let Ok(attributes) = Attributes::parse(&text) {
                prop_assert_eq!(Attributes::parse(&attributes.canonical()), Ok(attributes));
            }
        }
    }
}
