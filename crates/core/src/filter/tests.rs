//! Tests of filters: their syntax, their evaluation and the clause that decides.

use super::*;
use crate::attributes::AttributeValue;
use proptest::prelude::*;

fn kind(text: &str) -> EventType {
    EventType::from_store(text.to_owned())
}

/// Nests `count` clauses `not` around a leaf.
fn nested(count: usize) -> String {
    r#"{"not":"#.repeat(count) + r#"{"exact":{"a":"1"}}"# + &"}".repeat(count)
}

/// Nests `count` clauses `all` around a leaf.
fn nested_all(count: usize) -> String {
    r#"{"all":["#.repeat(count) + r#"{"exact":{"a":"1"}}"# + &"]}".repeat(count)
}

/// Returns a clause with `count` leaves.
fn leaves(count: usize) -> String {
    let members: Vec<String> = (0..count).map(|n| format!(r#""a{n}":"x""#)).collect();
    format!(r#"{{"exact":{{{}}}}}"#, members.join(","))
}

/// Returns a clause of `bytes` bytes.
fn sized(bytes: usize) -> String {
    let (before, after) = (r#"{"exact":{"a":""#, r#""}}"#);
    format!("{before}{}{after}", "x".repeat(bytes - before.len() - after.len()))
}

#[test]
fn text_is_kept_without_white_space() {
    let two_lists = format!("[{},{}]", leaves(50), leaves(50));
    let in_list = format!("[{}]", nested_all(6));
    let rows: &[(&str, Option<&str>)] = &[
        (r#"{"exact":{"region":"eu"}}"#, None),
        (" { \"exact\" : { \"b\" : \"1\" ,\n\"a\" : \"2\" } } ", Some(r#"{"exact":{"b":"1","a":"2"}}"#)),
        (r#"{"prefix":{"type":"\u0061\/\n"}}"#, Some(r#"{"prefix":{"type":"a/\n"}}"#)),
        (r#"[{"suffix":{"a":"é"}},{"not":{"any":[{"exact":{"a":"1"}}]}}]"#, None),
        (&nested(7), None),
        (&nested_all(7), None),
        (&in_list, None),
        (&leaves(100), None),
        (&two_lists, None),
        (&sized(4_096), None),
    ];
    for (sent, expected) in rows {
        let filter = Filter::parse(sent).expect(sent);
        assert_eq!(filter.as_text(), expected.unwrap_or(sent));
        assert_eq!(Filter::from_store(filter.as_text()), Ok(filter), "{sent}");
    }
}

#[test]
fn flaws_are_named() {
    use FilterError::*;
    let owned = |text: &str| text.to_owned();
    let at = |text: &str| text.to_owned();
    let in_list = format!("[{}]", nested_all(7));
    let rows = [
        (sized(4_097), TooLong(4_097)),
        (nested(8), TooDeep),
        (nested_all(8), TooDeep),
        (in_list, TooDeep),
        ("[".repeat(4_096), TooDeep),
        (leaves(101), TooManyLeaves),
        (format!("[{},{}]", leaves(50), leaves(51)), TooManyLeaves),
        (owned("null"), NotAClause { at: at("#") }),
        (owned("\"a\""), NotAClause { at: at("#") }),
        (owned(r#"[[{"exact":{"a":"1"}}]]"#), NotAClause { at: at("#/0") }),
        (owned(r#"{"not":[{"exact":{"a":"1"}}]}"#), NotAClause { at: at("#/not") }),
        (owned(r#"{"all":[{"exact":{"a":"1"}},7]}"#), NotAClause { at: at("#/all/1") }),
        (owned("{}"), DialectCount { at: at("#"), count: 0 }),
        (owned(r#"{"any":[{}]}"#), DialectCount { at: at("#/any/0"), count: 0 }),
        (owned(r#"{"exact":{"a":"1"},"prefix":{"a":"1"}}"#), DialectCount { at: at("#"), count: 2 }),
        (owned(r#"{"sql":"a = 1"}"#), UnknownDialect { at: at("#"), name: owned("sql") }),
        (owned(r#"{"not":{"Exact":{"a":"1"}}}"#), UnknownDialect { at: at("#/not"), name: owned("Exact") }),
        (owned(r#"{"exact":{"a":"1"},"exact":{"b":"1"}}"#), Duplicate { at: at("#"), name: owned("exact") }),
        (owned(r#"{"exact":{"a":"1","b":"1","a":"2"}}"#), Duplicate { at: at("#/exact"), name: owned("a") }),
        (owned(r#"{"all":{"exact":{"a":"1"}}}"#), NotAList { at: at("#/all") }),
        (owned("[]"), EmptyList { at: at("#") }),
        (owned(r#"{"all":[]}"#), EmptyList { at: at("#/all") }),
        (owned(r#"[{"any":[]}]"#), EmptyList { at: at("#/0/any") }),
        (owned(r#"{"exact":"a"}"#), NotComparisons { at: at("#/exact") }),
        (owned(r#"{"prefix":["a"]}"#), NotComparisons { at: at("#/prefix") }),
        (owned(r#"{"suffix":{}}"#), NoComparison { at: at("#/suffix") }),
        (owned(r#"{"exact":{"":"1"}}"#), AttributeName { at: at("#/exact"), name: owned("") }),
        (owned(r#"{"exact":{"a.b":"1"}}"#), AttributeName { at: at("#/exact"), name: owned("a.b") }),
        (owned(r#"{"exact":{"Type":"1"}}"#), AttributeName { at: at("#/exact"), name: owned("Type") }),
        (owned(r#"{"exact":{"a":""}}"#), EmptyValue { at: at("#/exact/a") }),
        (owned(r#"{"exact":{"a":1}}"#), NotText { at: at("#/exact/a"), value: owned("1") }),
        (owned(r#"{"exact":{"a":true}}"#), NotText { at: at("#/exact/a"), value: owned("true") }),
        (owned(r#"{"exact":{"a":null}}"#), NotText { at: at("#/exact/a"), value: owned("null") }),
        (owned(r#"{"exact":{"a":["1"]}}"#), NotText { at: at("#/exact/a"), value: owned("[\"1\"]") }),
    ];
    for (sent, expected) in rows {
        assert_eq!(Filter::parse(&sent), Err(expected), "{sent}");
    }
    for bad in
        ["", " ", "{", "{}{}", "{'exact':1}", r#"{"exact":{"a":"\ud800"}}"#, r#"{"\ud800":1}"#, "exact"]
    {
        let refused = Filter::parse(bad);
        assert!(matches!(refused, Err(Json { .. })), "{bad}: {refused:?}");
    }
    let long = Filter::parse(&format!(r#"{{"exact":{{"{}":"1"}}}}"#, "N".repeat(4_000))).expect_err("a name");
    assert!(long.to_string().len() < 200, "{long}");
    assert_eq!(
        Filter::parse(r#"{"exact":{"a":1}}"#).expect_err("a number").to_string(),
        "filter at #/exact/a must be text (write numbers and booleans in quotation marks), got 1"
    );
}

/// Columns: filter, expected result, expected clause. The event has the type `invoice.paid`.
#[test]
fn events_are_decided() {
    let attributes = r#"{"region":"eu-west","amount":10.50,"urgent":true,"zero":-0}"#;
    let attributes = Attributes::parse(attributes).expect("attributes");
    let (yes, no) = (r#"{"exact":{"urgent":"true"}}"#, r#"{"exact":{"urgent":"false"}}"#);
    let all = |clauses: &[&str]| format!(r#"{{"all":[{}]}}"#, clauses.join(","));
    let any = |clauses: &[&str]| format!(r#"{{"any":[{}]}}"#, clauses.join(","));
    let not = |clause: &str| format!(r#"{{"not":{clause}}}"#);
    let root = |matched, filter: &str| (filter.to_owned(), matched, format!("# {filter}"));
    let rows = [
        root(true, r#"{"exact":{"region":"eu-west"}}"#),
        root(false, r#"{"exact":{"region":"eu"}}"#),
        root(false, r#"{"exact":{"region":"EU-WEST"}}"#),
        root(true, r#"{"prefix":{"region":"eu"}}"#),
        root(false, r#"{"prefix":{"region":"west"}}"#),
        root(true, r#"{"suffix":{"region":"west"}}"#),
        root(false, r#"{"suffix":{"region":"eu-west-"}}"#),
        root(true, r#"{"exact":{"type":"invoice.paid"}}"#),
        root(true, r#"{"prefix":{"type":"invoice."}}"#),
        root(false, r#"{"exact":{"type":"invoice"}}"#),
        root(true, r#"{"exact":{"amount":"10.5"}}"#),
        root(false, r#"{"exact":{"amount":"10.50"}}"#),
        root(true, r#"{"exact":{"zero":"0"}}"#),
        root(true, r#"{"prefix":{"urgent":"t"}}"#),
        root(true, r#"{"exact":{"urgent":"true","zero":"0"}}"#),
        root(false, r#"{"exact":{"urgent":"true","zero":"1"}}"#),
        root(false, r#"{"exact":{"missing":"x"}}"#),
        root(false, r#"{"exact":{"id":"x"}}"#),
        root(true, &not(r#"{"exact":{"missing":"x"}}"#)),
        root(true, &not(no)),
        root(false, &not(yes)),
        root(true, &not(&not(yes))),
        root(true, &all(&[yes, yes])),
        (all(&[yes, no, no]), false, format!("#/all/1 {no}")),
        root(false, &any(&[no, no])),
        (any(&[no, yes, yes]), true, format!("#/any/1 {yes}")),
        root(true, &format!("[{yes},{yes}]")),
        (format!("[{yes},{no}]"), false, format!("#/1 {no}")),
        (all(&[yes, &any(&[no, no])]), false, format!("#/all/1 {}", any(&[no, no]))),
        (any(&[no, &all(&[yes, yes])]), true, format!("#/any/1 {}", all(&[yes, yes]))),
        (all(&[yes, &all(&[yes, no])]), false, format!("#/all/1/all/1 {no}")),
        (format!("[{}]", all(&[yes, &not(yes)])), false, format!("#/0/all/1 {}", not(yes))),
    ];
    for (text, matched, clause) in rows {
        let filter = Filter::parse(&text).expect("a filter");
        let event_type = kind("invoice.paid");
        assert_eq!(filter.decide(&event_type, &attributes), FilterDecision { matched, clause }, "{text}");
        assert_eq!(filter.matches(&event_type, &attributes), matched, "{text}");
    }
}

#[test]
fn filter_in_place_of_an_unreadable_one_accepts_no_event() {
    let decision = Filter::accepting_none().decide(&kind("a"), &Attributes::default());
    assert_eq!(decision, FilterDecision { matched: false, clause: r##"# {"any":[]}"##.to_owned() });
}

fn any_clause() -> impl Strategy<Value = Clause> {
    let pair = ("[abt]|type", "[xy\"\\\\\u{1}é]{1,2}|true|1");
    let comparison = prop_oneof![Just(Comparison::Exact), Just(Comparison::Prefix), Just(Comparison::Suffix)];
    let leaf = (comparison, proptest::collection::btree_map(pair.0, pair.1, 1..3))
        .prop_map(|(comparison, pairs)| Clause::Compare(comparison, pairs.into_iter().collect()));
    leaf.prop_recursive(5, 20, 3, |inner| {
        let list = || proptest::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            list().prop_map(Clause::All),
            list().prop_map(Clause::Any),
            inner.clone().prop_map(|clause| Clause::Not(Box::new(clause))),
        ]
    })
}

fn any_attributes() -> impl Strategy<Value = Attributes> {
    let value = prop_oneof![
        "[xy\"\\\\\u{1}é]{1,3}".prop_map(AttributeValue::Text),
        (0..3_u8).prop_map(|number| AttributeValue::Number(number.to_string())),
        any::<bool>().prop_map(AttributeValue::Boolean),
    ];
    proptest::collection::btree_map("[abt]", value, 0..4).prop_map(|values| {
        let mut attributes = Attributes::default();
        values.into_iter().for_each(|(name, value)| attributes.insert(name, value).expect("an attribute"));
        attributes
    })
}

proptest! {
    #[test]
    fn text_round_trips_and_the_deciding_clause_has_the_same_result(
        clause in any_clause(),
        attributes in any_attributes(),
        event_type in "[xy]{1,2}",
    ) {
        let text = clause.to_string();
        let filter = Filter::parse(&text).expect("a filter");
        prop_assert_eq!(&filter.root, &clause);
        prop_assert_eq!(filter.as_text(), &text);
        let event_type = kind(&event_type);
        let decision = filter.decide(&event_type, &attributes);
        prop_assert_eq!(decision.matched, filter.matches(&event_type, &attributes));
        let (pointer, decisive) = decision.clause.split_once(' ').expect("a pointer and a clause");
        let alone = Filter::parse(decisive).expect("a clause");
        prop_assert_eq!(alone.matches(&event_type, &attributes), decision.matched);
        let whole: Value = serde_json::from_str(&text).expect("JSON");
        let pointed = whole.pointer(pointer.trim_start_matches('#')).expect("a part of the filter");
        prop_assert_eq!(pointed, &serde_json::from_str::<Value>(decisive).expect("JSON"));
        let negated = Filter::parse(&format!(r#"{{"not":{text}}}"#)).expect("a filter");
        prop_assert_ne!(negated.matches(&event_type, &attributes), decision.matched);
    }

    #[test]
    fn no_text_panics(
        text in any::<String>(),
        near in r#"([\[\]{}":,a1 ]|"exact":|"all":\[|"not":\{|\\u00){0,40}"#,
        event_type in any::<String>(),
        attributes in any_attributes(),
    ) {
        for text in [text, near] {
            if let Ok(filter) = Filter::parse(&text) {
                let decision = filter.decide(&kind(&event_type), &attributes);
                prop_assert_eq!(filter.matches(&kind(&event_type), &attributes), decision.matched);
                prop_assert_eq!(Filter::parse(filter.as_text()), Ok(filter));
            }
        }
    }
}
