//! Tests of the envelopes: the rendered text is compared as a whole, and parsed again.

use proptest::prelude::*;
use serde_json::json;
use serde_json::value::RawValue;

use super::*;

const CREATED_AT: Timestamp = Timestamp::from_micros(1_700_000_000_123_456);
const PAYLOAD: &str = " {\"b\": 1.0e2,\t\"a\":\"\\ud800\", \"a\":2}\n";

const ATTRIBUTES: [(&str, ContextValue<'static>); 8] = [
    ("dataschema", ContextValue::Text("https://example.com/s#1")),
    ("live", ContextValue::Boolean(true)),
    ("partition", ContextValue::Number("-7")),
    ("price", ContextValue::Number("1.5")),
    ("region", ContextValue::Text("Euro € \"😀\" 100%\r\n")),
    ("source", ContextValue::Text("/shop")),
    ("subject", ContextValue::Text("order/7")),
    ("time", ContextValue::Text("2026-01-02T03:04:05+01:00")),
];

fn rendered(
    envelope: Envelope,
    attributes: &[(&str, ContextValue<'_>)],
    external: Option<&str>,
) -> (String, Rendered) {
    let event_type = EventType::parse("order.paid").unwrap();
    let external = external.map(|text| ExternalEventId::parse(text).unwrap());
    let content = EventContent {
        event_type: &event_type,
        payload: PAYLOAD,
        attributes,
        external_event_id: external.as_ref(),
        created_at: CREATED_AT,
    };
    let rendered = render(envelope, &content, "msg_1", "urn:posthaste");
    (rendered.body.clone().unwrap_or_default(), rendered)
}

fn headers(rendered: &Rendered) -> Vec<(&str, &str)> {
    rendered.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn names_are_parsed() {
    for envelope in Envelope::ALL {
        assert_eq!(Envelope::parse(envelope.as_str()), Ok(envelope));
    }
    for bad in ["", "Raw", "cloudevents", "cloudevents_binary", "raw "] {
        assert_eq!(Envelope::parse(bad), Err(EnvelopeError), "{bad:?}");
    }
    assert_eq!(Envelope::default(), Envelope::Raw);
}

#[test]
fn raw_sends_the_payload_only() {
    let (_, rendered) = rendered(Envelope::Raw, &ATTRIBUTES, Some("/s\u{1f}7"));
    let expected = Rendered { body: None, content_type: "application/json", headers: Vec::new() };
    assert_eq!(rendered, expected);
}

#[test]
fn standard_has_type_timestamp_and_data() {
    let (body, rendered) = rendered(Envelope::Standard, &[], None);
    let head = r#"{"type":"order.paid","timestamp":"2023-11-14T22:13:20.123456Z","data":"#;
    assert_eq!(body, format!("{head}{PAYLOAD}}}"));
    assert_eq!((rendered.content_type, headers(&rendered)), ("application/json", Vec::new()));
    let (body, _) = self::rendered(Envelope::Standard, &ATTRIBUTES, None);
    let head = r#"{"type":"order.paid","timestamp":"2026-01-02T03:04:05+01:00","data":"#;
    assert_eq!(body, format!("{head}{PAYLOAD}}}"));
}

#[test]
fn binary_sends_attributes_as_percent_encoded_headers() {
    let (_, all) = rendered(Envelope::CloudeventsBinary, &ATTRIBUTES, None);
    assert_eq!((all.body.as_deref(), all.content_type), (None, "application/json"));
    let expected = [
        ("ce-specversion", "1.0"),
        ("ce-id", "msg_1"),
        ("ce-source", "/shop"),
        ("ce-type", "order.paid"),
        ("ce-time", "2026-01-02T03:04:05+01:00"),
        ("ce-dataschema", "https://example.com/s#1"),
        ("ce-live", "true"),
        ("ce-partition", "-7"),
        ("ce-price", "1.5"),
        ("ce-region", "Euro%20%E2%82%AC%20%22%F0%9F%98%80%22%20100%25%0D%0A"),
        ("ce-subject", "order/7"),
    ];
    assert_eq!(headers(&all), expected);
}

#[test]
fn structured_has_all_attributes_in_a_fixed_order() {
    let (body, rendered) = rendered(Envelope::CloudeventsStructured, &ATTRIBUTES, None);
    let head = concat!(
        r#"{"specversion":"1.0","id":"msg_1","source":"/shop","type":"order.paid","#,
        r#""time":"2026-01-02T03:04:05+01:00","dataschema":"https://example.com/s#1","live":true,"partition":-7,"#,
        r#""price":"1.5","region":"Euro € \"😀\" 100%\r\n","subject":"order/7","#,
        r#""datacontenttype":"application/json","data":"#,
    );
    assert_eq!(body, format!("{head}{PAYLOAD}}}"));
    assert_eq!((rendered.content_type, headers(&rendered)), ("application/cloudevents+json", Vec::new()));
}

#[test]
fn id_and_source_are_as_received() {
    let shop = [("source", ContextValue::Text("/shop"))];
    let rows = [
        (None, &[][..], "msg_1", "urn:posthaste"),
        (None, &shop, "msg_1", "/shop"),
        (Some("order-7"), &[], "msg_1", "urn:posthaste"),
        (Some("order-7"), &shop, "msg_1", "/shop"),
        (Some("/cart\u{1f}7"), &[], "7", "/cart"),
        (Some("/cart\u{1f}7"), &shop, "7", "/cart"),
        (Some("\u{1f}7"), &[], "msg_1", "urn:posthaste"),
        (Some("/cart\u{1f}"), &[], "msg_1", "urn:posthaste"),
        (Some("a\u{1f}b\u{1f}c"), &[], "msg_1", "urn:posthaste"),
    ];
    for (external, attributes, id, source) in rows {
        let (body, _) = rendered(Envelope::CloudeventsStructured, attributes, external);
        let parsed: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(&body).unwrap();
        let text = |name: &str| serde_json::from_str::<String>(parsed[name].get()).unwrap();
        assert_eq!((text("id"), text("source")), (id.to_owned(), source.to_owned()), "{external:?}");
        assert_eq!(text("time"), "2023-11-14T22:13:20.123456Z");
        let (_, binary) = rendered(Envelope::CloudeventsBinary, attributes, external);
        assert_eq!(headers(&binary)[1..3], [("ce-id", id), ("ce-source", source)], "{external:?}");
    }
}

#[test]
fn attributes_cannot_replace_required_members() {
    let text = ContextValue::Text("x");
    let names = ["specversion", "id", "type", "data", "datacontenttype", "other"];
    let attributes: Vec<_> = names.into_iter().map(|name| (name, text)).collect();
    let (body, _) = rendered(Envelope::CloudeventsStructured, &attributes, None);
    for name in names {
        assert_eq!(body.matches(&format!("\"{name}\":")).count(), 1, "{name}: {body}");
    }
    assert!(body.contains(r#""other":"x""#));
}

#[test]
fn numbers_outside_32_bits_are_text() {
    let rows = [
        ("0", json!(0)),
        ("2147483647", json!(2_147_483_647)),
        ("-2147483648", json!(-2_147_483_648_i64)),
        ("2147483648", json!("2147483648")),
        ("1e+21", json!("1e+21")),
        ("0.1", json!("0.1")),
    ];
    for (number, expected) in rows {
        assert_eq!(json_value(ContextValue::Number(number)), expected.to_string());
    }
}

#[test]
fn debug_output_does_not_contain_the_payload() {
    let (_, rendered) = rendered(Envelope::Standard, &ATTRIBUTES, None);
    assert_eq!(format!("{rendered:?}"), "Rendered { content_type: \"application/json\", .. }");
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut parts = text.split('%');
    bytes.extend(parts.next().unwrap().bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}

proptest! {
    #[test]
    fn any_text_is_rendered_and_parsed_back(text in any::<String>(), source in any::<String>(), key in any::<i64>()) {
        let event_type = EventType::from_store(text.clone());
        let payload = json!({ "text": text, "key": key }).to_string();
        let content = EventContent {
            event_type: &event_type,
            payload: &payload,
            attributes: &[("region", ContextValue::Text(&text))],
            external_event_id: None,
            created_at: CREATED_AT,
        };
        for envelope in [Envelope::Standard, Envelope::CloudeventsStructured] {
            let body = render(envelope, &content, "msg_1", &source).body.unwrap();
            let parsed: Value = serde_json::from_str(&body).unwrap();
            prop_assert_eq!(&parsed["type"], &json!(text));
            prop_assert_eq!(parsed["data"].to_string(), serde_json::from_str::<Value>(&payload).unwrap().to_string());
            if envelope == Envelope::CloudeventsStructured {
                prop_assert_eq!(&parsed["source"], &json!(source));
                prop_assert_eq!(&parsed["region"], &json!(text));
            }
        }
        let binary = render(Envelope::CloudeventsBinary, &content, "msg_1", &source);
        for (name, value) in &binary.headers {
            prop_assert!(value.bytes().all(|b| b.is_ascii_graphic() && b != b'"'), "{}: {}", name, value);
        }
        let value = |name: &str| binary.headers.iter().find(|(given, _)| given == name).unwrap().1.clone();
        prop_assert_eq!(percent_decoded(&value("ce-region")), text);
        prop_assert_eq!(percent_decoded(&value("ce-source")), source);
    }
}
