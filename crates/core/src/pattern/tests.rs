//! Tests of patterns: their syntax, and that matching agrees with the index lookups of the router.

use super::*;
use proptest::prelude::*;

fn kind(text: &str) -> EventType {
    EventType::from_store(text.to_owned())
}

fn pattern(text: &str) -> EventTypePattern {
    EventTypePattern::parse(text).expect("a pattern")
}

/// Returns a text of `count` segments.
fn segments(count: usize) -> String {
    vec!["s"; count].join(".")
}

#[test]
fn patterns_are_accepted() {
    let below_15 = segments(15) + ".*";
    let exact_100 = segments(100);
    let longest = "t".repeat(198) + ".*";
    for text in
        ["*", "invoice.paid", "invoice.*", "a.b.c.*", "A1_b-c.d:e/f", "0", &below_15, &exact_100, &longest]
    {
        assert_eq!(pattern(text).to_string(), text);
    }
}

#[test]
fn flaws_are_named() {
    use PatternError::*;
    let of = |make: fn(String) -> PatternError, text: &str| (text.to_owned(), make(text.to_owned()));
    let rows = [
        (String::new(), Empty),
        ("t".repeat(201), TooLong { chars: 201 }),
        ("ü".repeat(150), TooLong { chars: 150 }),
        of(DoubleStar, "**"),
        of(DoubleStar, "a.**"),
        of(DoubleStar, "**.a"),
        of(StarInTheMiddle, "*.a"),
        of(StarInTheMiddle, "a.*.b"),
        of(StarInTheMiddle, "a.*.*"),
        of(StarInTheMiddle, "*.*"),
        of(PartialStar, "a*"),
        of(PartialStar, "*a"),
        of(PartialStar, "a.b*"),
        of(PartialStar, "a*.*"),
        of(EmptySegment, "."),
        of(EmptySegment, ".a"),
        of(EmptySegment, "a."),
        of(EmptySegment, "a..b"),
        of(EmptySegment, "a..*"),
        of(EmptySegment, ".*"),
        of(Characters, "a b"),
        of(Characters, "-a"),
        of(Characters, "ä.*"),
        of(PartialStar, "a.*\n"),
        of(Characters, "a\0"),
        (segments(16) + ".*", TooManySegments { segments: 16 }),
    ];
    for (text, expected) in rows {
        assert_eq!(EventTypePattern::parse(text.clone()), Err(expected), "{text:?}");
    }
    let long = format!("a.*.{}", "b".repeat(100));
    let message = EventTypePattern::parse(long).expect_err("too many").to_string();
    assert!(message.ends_with("…") && message.chars().count() < 120, "{message}");
}

#[test]
fn types_are_matched() {
    let (deep, deepest) = (segments(40), segments(15) + ".*");
    let rows: &[(&str, &str, bool)] = &[
        ("invoice.paid", "invoice.paid", true),
        ("invoice.paid", "invoice.paid.late", false),
        ("invoice.paid", "Invoice.paid", false),
        ("invoice.*", "invoice.paid", true),
        ("invoice.*", "invoice.paid.late", true),
        ("invoice.*", "invoice", false),
        ("invoice.*", "invoices.paid", false),
        ("invoice.*", "invoice/paid", false),
        ("*", "invoice", true),
        ("*", "posthaste", true),
        ("*", "posthaste.endpoint.disabled", false),
        ("posthaste.*", "posthaste.endpoint.disabled", true),
        ("posthaste.endpoint.*", "posthaste.endpoint.disabled", true),
        ("posthaste.endpoint.disabled", "posthaste.endpoint.disabled", true),
        (&deepest, &deep, true),
        (&deep, &deep, true),
        ("s.*", &deep, true),
        ("*", &deep, true),
        // Types stored earlier may have empty segments.
        ("a.*", "a.", true),
        ("a.*", "a..b", true),
        ("*", "a..b", true),
        ("b.*", "a..b", false),
    ];
    for (text, event_type, expected) in rows {
        let found = pattern(text).matches(&kind(event_type));
        assert_eq!(found, *expected, "{text} and {event_type}");
        let probed = probes(&kind(event_type)).iter().any(|probe| probe == text);
        assert_eq!(probed, *expected, "{text} in the probes of {event_type}");
    }
}

#[test]
fn probes_are_listed() {
    assert_eq!(probes(&kind("a.b.c")), ["a.b.c", "a.*", "a.b.*", "*"]);
    assert_eq!(probes(&kind("a")), ["a", "*"]);
    assert_eq!(probes(&kind("posthaste.a")), ["posthaste.a", "posthaste.*"]);
    assert_eq!(probes(&kind("a..b")), ["a..b", "a.*", "a..*", "*"]);
    assert_eq!(probes(&kind(&segments(40))).len(), 17);
}

#[test]
fn operational_patterns_are_recognised() {
    for (text, expected) in [
        ("posthaste.*", true),
        ("posthaste.a", true),
        ("posthaste.a.*", true),
        ("posthaste", false),
        ("posthastes.*", false),
        ("*", false),
        ("a.posthaste.*", false),
    ] {
        assert_eq!(pattern(text).is_operational(), expected, "{text}");
        let patterns = EventTypePatterns::from_store(vec!["other".to_owned(), text.to_owned()]);
        assert_eq!(patterns.are_operational(), expected, "{text}");
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn lists_are_validated() {
    let many = |count: usize| (0..count).map(|n| format!("t{n}")).collect::<Vec<_>>();
    let rows = [
        (texts(&["b", "a.*", "*"]), None),
        (many(100), None),
        (Vec::new(), Some(PatternsError::Count(0))),
        (many(101), Some(PatternsError::Count(101))),
        (texts(&["a", "b.*", "a"]), Some(PatternsError::Duplicate { index: 2, pattern: "a".to_owned() })),
        (
            texts(&["a", "**"]),
            Some(PatternsError::Entry { index: 1, error: PatternError::DoubleStar("**".to_owned()) }),
        ),
    ];
    for (texts, expected) in rows {
        let parsed = EventTypePatterns::parse(texts.clone());
        assert_eq!(parsed.as_ref().err(), expected.as_ref(), "{texts:?}");
        if let Ok(patterns) = parsed {
            let kept: Vec<&str> = patterns.as_slice().iter().map(EventTypePattern::as_str).collect();
            assert_eq!(kept, texts);
        }
    }
}

#[test]
fn single_entry_is_returned() {
    assert_eq!(EventTypePatterns::of(kind("a.b")).single(), Some("a.b"));
    assert_eq!(EventTypePatterns::from(pattern("a.*")).single(), Some("a.*"));
    assert_eq!(EventTypePatterns::from_store(texts(&["a", "b"])).single(), None);
}

#[test]
fn most_specific_pattern_is_found() {
    let patterns = EventTypePatterns::from_store(texts(&["*", "a.*", "a.b.*", "a.b.c", "posthaste.*"]));
    for (event_type, expected) in [
        ("a.b.c", Some("a.b.c")),
        ("a.b.d", Some("a.b.*")),
        ("a.c", Some("a.*")),
        ("a", Some("*")),
        ("posthaste.a", Some("posthaste.*")),
    ] {
        let found = patterns.find(&kind(event_type)).map(EventTypePattern::as_str);
        assert_eq!(found, expected, "{event_type}");
        assert!(patterns.matches(&kind(event_type)), "{event_type}");
    }
    let one = EventTypePatterns::of(kind("a"));
    assert_eq!(one.find(&kind("b")), None);
    assert!(!one.matches(&kind("b")));
}

/// Generates texts of few different segments, so that types and patterns often match.
fn text(stars: &'static str) -> impl Strategy<Value = String> {
    let segment = prop_oneof![Just("a"), Just("b"), Just("posthaste"), Just(""), Just(stars)];
    proptest::collection::vec(segment, 0..20).prop_map(|segments| segments.join("."))
}

proptest! {
    #[test]
    fn matching_agrees_with_the_probes(
        event_type in text("c"),
        other in text("*"),
        dots in 0_usize..20,
    ) {
        let event_type = kind(&event_type);
        let ancestor: Vec<&str> = event_type.as_str().split('.').take(dots).collect();
        let related = [ancestor.join(".") + ".*", event_type.as_str().to_owned(), ANY.to_owned(), other];
        for text in related {
            let pattern = EventTypePattern::from_store(text);
            let probed = probes(&event_type).contains(&pattern.0);
            prop_assert_eq!(pattern.matches(&event_type), probed, "{} and {}", &pattern, &event_type);
        }
    }

    #[test]
    fn matching_agrees_with_the_probes_for_any_text(event_type in "[a.*]{0,8}", other in "[a.*]{0,8}") {
        let (event_type, pattern) = (kind(&event_type), EventTypePattern::from_store(other));
        prop_assert_eq!(pattern.matches(&event_type), probes(&event_type).contains(&pattern.0));
    }

    #[test]
    fn parsed_types_and_patterns_match_by_their_segments(
        event_type in "[ab](\\.[ab]){0,18}",
        stem in "[ab](\\.[ab]){0,18}",
    ) {
        let event_type = EventType::parse(event_type).expect("a type");
        let (all, some): (Vec<&str>, Vec<&str>) =
            (event_type.as_str().split('.').collect(), stem.split('.').collect());
        let expected = all.len() > some.len() && all.starts_with(&some);
        if let Ok(pattern) = EventTypePattern::parse(format!("{stem}.*")) {
            prop_assert_eq!(pattern.matches(&event_type), expected);
        } else {
            prop_assert!(some.len() > PREFIX_SEGMENTS_MAX);
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        if let Ok(pattern) = EventTypePattern::parse(text.clone()) {
            prop_assert_eq!(pattern.as_str(), text);
        }
    }
}
