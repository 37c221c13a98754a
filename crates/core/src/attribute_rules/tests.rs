//! Tests of rules for attributes: their syntax, the values that they find, and the limits of attributes.

use super::*;
use crate::attributes::AttributeValue;

fn filled(rules: &str, payload: &str, given: &str) -> String {
    let rules = AttributeRules::parse(rules).expect("rules");
    let mut attributes = Attributes::parse(given).expect("attributes");
    rules.fill(&JsonText::from_store(payload.to_owned()), &mut attributes);
    attributes.canonical()
}

#[test]
fn rules_are_validated() {
    let name = |name: &str| AttributeRuleError::Name(AttributeError::Name(name.to_owned()));
    let many = (0..21).map(|n| format!("a{n}=/a")).collect::<Vec<_>>().join(",");
    let deep = format!("a={}", "/a".repeat(129));
    for (text, expected) in [
        ("", AttributeRuleError::Form(String::new())),
        ("region", AttributeRuleError::Form("region".to_owned())),
        ("a=/a,", AttributeRuleError::Form(String::new())),
        ("Region=/a", name("Region")),
        ("=/a", name("")),
        ("id=/a", AttributeRuleError::Name(AttributeError::Reserved("id".to_owned()))),
        ("a=", AttributeRuleError::Pointer(String::new())),
        ("a=b", AttributeRuleError::Pointer("b".to_owned())),
        ("a=/b~2", AttributeRuleError::Pointer("/b~2".to_owned())),
        ("a=/b~", AttributeRuleError::Pointer("/b~".to_owned())),
        ("a=/a, a=/b", AttributeRuleError::Duplicate("a".to_owned())),
        (many.as_str(), AttributeRuleError::TooMany(21)),
        (deep.as_str(), AttributeRuleError::TooDeep(129)),
    ] {
        assert_eq!(AttributeRules::parse(text), Err(expected), "{text}");
    }
    assert!(!AttributeRules::parse("region=/customer/region, n=/0").expect("rules").is_empty());
    assert!(AttributeRules::default().is_empty());
}

/// Contains the examples of RFC 6901, section 5.
#[test]
fn values_are_found_by_pointer() {
    let payload = r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,
        "t":true,"f":false,"null":null,"o":{"x":1},"twice":1,"twice":2,"10":{"0":"ten"}}"#;
    for (pointer, expected) in [
        ("/foo/0", r#""bar""#),
        ("/foo/1", r#""baz""#),
        ("/", "0"),
        ("/a~1b", "1"),
        ("/c%d", "2"),
        ("/e^f", "3"),
        ("/g|h", "4"),
        ("/i\\j", "5"),
        ("/k\"l", "6"),
        ("/m~0n", "8"),
        ("/t", "true"),
        ("/f", "false"),
        ("/o/x", "1"),
        ("/twice", "2"),
        ("/10/0", r#""ten""#),
    ] {
        assert_eq!(
            filled(&format!("a={pointer}"), payload, "{}"),
            format!(r#"{{"a":{expected}}}"#),
            "{pointer}"
        );
    }
    // Missing values, and values that are not text, a number or a boolean.
    for pointer in ["/foo", "/null", "/o", "/gone", "/foo/2", "/foo/-", "/foo/00", "/foo/+1", "/t/x", "/m~1n"]
    {
        assert_eq!(filled(&format!("a={pointer}"), payload, "{}"), "{}", "{pointer}");
    }
    for payload in ["1", "null", "\"text\"", "[]", "{}"] {
        assert_eq!(filled("a=/a", payload, "{}"), "{}", "{payload}");
    }
}

#[test]
fn given_attributes_and_limits_are_kept() {
    let payload =
        r#"{"region":"eu","n":1.50,"long":"LONG","empty":"","nul":"a\u0000b","time":"soon","huge":1e999}"#
            .replace("LONG", &"x".repeat(1_025));
    assert_eq!(filled("region=/region,n=/n", &payload, r#"{"region":"us"}"#), r#"{"n":1.5,"region":"us"}"#);
    let skipped = "long=/long,empty=/empty,nul=/nul,time=/time,huge=/huge,subject=/n,region=/region";
    assert_eq!(filled(skipped, &payload, "{}"), r#"{"region":"eu"}"#);
    let mut attributes = Attributes::default();
    for n in 0..19 {
        attributes.insert(format!("a{n}"), AttributeValue::Boolean(true)).expect("an attribute");
    }
    let rules = AttributeRules::parse("n=/n,region=/region").expect("rules");
    rules.fill(&JsonText::from_store(payload), &mut attributes);
    assert_eq!(attributes.len(), ATTRIBUTES_MAX);
    assert!(attributes.get("n").is_some() && attributes.get("region").is_none());
}
