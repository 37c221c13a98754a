//! The numbered messages of a benchmark: events with payloads of about 300 bytes, and orders. The number has a
//! fixed width, so that all payloads have the same size.

/// The start of a payload, before the number.
const HEAD: &str = r#"{"n":""#;
const DIGITS: usize = 10;
/// The end of a payload, after the number. It resembles an order from a web shop.
const REST: &str = r#"","order":{"id":"9f2c1d7e-55aa-4c1e-9a53-0f6d2b7c8e11","currency":"EUR","total":129.90,"lines":[{"sku":"A-1001","qty":2,"price":39.95},{"sku":"B-2040","qty":1,"price":50.00}],"customer":{"id":481516,"country":"NL","email":"customer@shop.example"}},"at":"2026-01-01T12:00:00.000Z"}"#;

const ORDER_HEAD: &str = r#"{"idempotency_key":"bench-"#;
const ORDER_REST: &str =
    r#"","intent":"BUY","limit_price":145.001,"meta":{"source":"bench"},"qty":100,"symbol":"USDJPY"}"#;

/// Returns the payload of the event with the given number.
pub fn payload(number: u32) -> String {
    format!("{HEAD}{number:0DIGITS$}{REST}")
}

/// Returns the request body that publishes the event with the given type and number.
pub fn event(event_type: &str, number: u32) -> String {
    format!(r#"{{"event_type":"{event_type}","payload":{}}}"#, payload(number))
}

/// Returns the order with the given number as canonical JSON.
pub fn order(number: u32) -> String {
    format!("{ORDER_HEAD}{number:0DIGITS$}{ORDER_REST}")
}

/// Returns the `idempotency-key` header line for the order with the given number.
pub fn order_head(number: u32) -> String {
    format!("idempotency-key: bench-{number:0DIGITS$}\r\n")
}

/// Returns the body of the broker's response to the order with the given number.
pub fn order_answer(number: u32) -> String {
    format!(r#"{ORDER_HEAD}{number:0DIGITS$}","broker_order_id":"b-{number}"}}"#)
}

/// Returns the number in a payload, an order or a broker response, or `None` for any other body.
pub fn number(body: &[u8]) -> Option<u32> {
    let rest = body.strip_prefix(HEAD.as_bytes()).or_else(|| body.strip_prefix(ORDER_HEAD.as_bytes()));
    let digits = rest?.get(..DIGITS)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_round_trips() {
        for sent in [0, 7, u32::MAX] {
            let body = payload(sent);
            assert_eq!(number(body.as_bytes()), Some(sent));
            assert!((280..=320).contains(&body.len()), "{}", body.len());
            serde_json::from_str::<serde_json::Value>(&event("bench.0", sent)).expect("JSON");
        }
        for sent in [0, 7, u32::MAX] {
            for body in [order(sent), order_answer(sent)] {
                assert_eq!(number(body.as_bytes()), Some(sent));
                serde_json::from_str::<serde_json::Value>(&body).expect("JSON");
            }
        }
        assert_eq!(number(br#"{"type":"posthaste.verification"}"#), None);
    }
}
