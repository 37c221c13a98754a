//! `posthaste order …`: sends, lists and shows orders.

use super::call::Page;
use super::table::{self, Column, Record};
use super::{Call, Failure, Reach, input, json_text};
use crate::random;
use clap::{Args, Subcommand};
use posthaste_core::json::JsonText;
use posthaste_core::order::IdempotencyKey;
use serde_json::Value;
use std::path::PathBuf;
use url::form_urlencoded::byte_serialize;

#[derive(Debug, Subcommand)]
pub(crate) enum OrderCommand {
    /// Send an order, from flags, a file or stdin; repeating it with the same key is a no-op
    #[command(
        after_help = "Example:\n  posthaste order send --symbol USDJPY --intent BUY --qty 10000 --idempotency-key k7"
    )]
    Send {
        #[command(flatten)]
        order: Given,
        #[command(flatten)]
        reach: Reach,
    },
    /// List orders, newest first
    #[command(after_help = "Example:\n  posthaste order list --status dead")]
    List {
        /// Only orders in this state: queued, sending, sent, failed or dead
        #[arg(short, long, value_name = "STATUS")]
        status: Option<String>,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show an order, with the broker's response once it is sent
    #[command(after_help = "Example:\n  posthaste order show desk-7")]
    Show {
        /// Idempotency key of the order
        #[arg(value_name = "IDEMPOTENCY_KEY", value_parser = key)]
        key: IdempotencyKey,
        #[command(flatten)]
        reach: Reach,
    },
    /// List the state transitions of an order, oldest first
    #[command(after_help = "Example:\n  posthaste order audit desk-7")]
    Audit {
        /// Idempotency key of the order
        #[arg(value_name = "IDEMPOTENCY_KEY", value_parser = key)]
        key: IdempotencyKey,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
}

/// The flags that describe an order. Without `--symbol`, the order is read as JSON from `--file` or stdin.
#[derive(Debug, Args)]
pub(crate) struct Given {
    /// Symbol to trade, such as USDJPY [default: read the order from --file or stdin]
    #[arg(long, requires_all = ["intent", "qty"], conflicts_with = "file")]
    symbol: Option<String>,
    /// Intent, such as BUY
    #[arg(long, requires = "symbol")]
    intent: Option<String>,
    /// Quantity
    #[arg(long, value_name = "NUMBER", requires = "symbol", value_parser = number)]
    qty: Option<String>,
    /// Limit price
    #[arg(long, value_name = "NUMBER", requires = "symbol", value_parser = number)]
    limit_price: Option<String>,
    /// Trace id, passed to the broker and recorded in the audit
    #[arg(long, value_name = "ID", requires = "symbol")]
    trace_id: Option<String>,
    /// Object with additional fields
    #[arg(long, value_name = "JSON", requires = "symbol", value_parser = object)]
    meta: Option<String>,
    /// File with the whole order as JSON
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Idempotency key [default: the key in the order, or a random key]
    #[arg(long, value_name = "KEY", value_parser = key)]
    idempotency_key: Option<IdempotencyKey>,
}

fn key(text: &str) -> Result<IdempotencyKey, String> {
    IdempotencyKey::parse(text).map_err(|error| error.to_string())
}

/// Parses a JSON number and returns it in its original notation. The server checks whether it can be represented
/// exactly.
fn number(text: &str) -> Result<String, String> {
    let is_number = serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_number());
    is_number.then(|| text.trim().to_owned()).ok_or_else(|| "expected a number such as 12.5".to_owned())
}

fn object(text: &str) -> Result<String, String> {
    let is_object = serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object());
    is_object.then(|| text.to_owned()).ok_or_else(|| r#"expected an object such as {"desk":"fx"}"#.to_owned())
}

const ORDER: Record = Record {
    fields: &[
        ("order", "idempotency_key"),
        ("status", "status"),
        ("retries", "retry_count"),
        ("next attempt", "next_attempt_at"),
        ("error", "last_error"),
        ("broker order", "broker_order_id"),
        ("digest", "request_digest"),
        ("result digest", "result_digest"),
        ("maybe executed", "maybe_executed"),
        ("created", "created_at"),
        ("updated", "updated_at"),
        ("result", "result"),
        ("advice", "advice"),
    ],
    listed: &[
        "idempotency_key",
        "status",
        "retry_count",
        "last_error",
        "broker_order_id",
        "maybe_executed",
        "updated_at",
    ],
    key: "KEY",
};

const TRANSITIONS: [Column; 8] = [
    ("CREATED", "created_at"),
    ("FROM", "status_from"),
    ("TO", "status_to"),
    ("RETRIES", "retry_count"),
    ("ERROR", "last_error"),
    ("BROKER ORDER", "broker_order_id"),
    ("WORKER", "worker_id"),
    ("NOTE", "note"),
];

impl OrderCommand {
    pub(super) fn call(&self) -> Result<(Call, &Reach), Failure> {
        Ok(match self {
            Self::Send { order, reach } => {
                let text = order.text()?;
                let (key, body) = match keyed(text, order.idempotency_key.as_ref())? {
                    Keyed::Whole(key, body) => (key, body),
                    Keyed::Without(body) => {
                        let key = order.idempotency_key.clone().map_or_else(|| new_key(reach.json), Ok)?;
                        let body = with_key(&body, &key);
                        (key, body)
                    }
                };
                let call = Call::post("/v1/orders").body(body).show(|answer| ORDER.show(answer));
                let key = Some(key.as_str().to_owned());
                (Call { idempotency_key: key, ..call.succeeded(|answer| answer["status"] != "dead") }, reach)
            }
            Self::List { status, page, reach } => {
                let call = Call::get("/v1/orders").query(&[("status", status.clone())]).page(page);
                (call.list(|answer| ORDER.list("no orders", answer)), reach)
            }
            Self::Show { key, reach } => (Call::get(path(key)).show(|answer| ORDER.show(answer)), reach),
            Self::Audit { key, page, reach } => {
                let call = Call::get(format!("{}/audit", path(key))).page(page);
                (call.list(|answer| table::list(&TRANSITIONS, "no transitions", answer)), reach)
            }
        })
    }
}

impl Given {
    /// Returns the order as JSON.
    fn text(&self) -> Result<Vec<u8>, Failure> {
        let (Some(symbol), Some(intent), Some(qty)) = (&self.symbol, &self.intent, &self.qty) else {
            return match &self.file {
                Some(path) => input::from_file(path),
                None => input::from_stdin("the order"),
            };
        };
        let (symbol, intent) = (Value::from(symbol.as_str()), Value::from(intent.as_str()));
        let mut text = format!(r#"{{"symbol":{symbol},"intent":{intent},"qty":{qty}"#);
        let trace_id = self.trace_id.as_deref().map(|id| Value::from(id).to_string());
        for (name, value) in
            [("limit_price", &self.limit_price), ("trace_id", &trace_id), ("meta", &self.meta)]
        {
            if let Some(value) = value {
                text.push_str(&format!(r#","{name}":{value}"#));
            }
        }
        text.push('}');
        Ok(text.into_bytes())
    }
}

/// The JSON text of an order, with or without an idempotency key.
#[derive(Debug, PartialEq, Eq)]
enum Keyed {
    /// The idempotency key that the order contains, and the order.
    Whole(IdempotencyKey, String),
    Without(String),
}

/// Extracts the idempotency key from an order. The server checks the other fields.
fn keyed(text: Vec<u8>, given: Option<&IdempotencyKey>) -> Result<Keyed, Failure> {
    let invalid = |why: String| Failure::Usage(format!("the order: {why}"));
    let text = JsonText::parse(text, input::BYTES_MAX).map_err(|error| invalid(error.to_string()))?;
    let text = text.into_string();
    let order = json_text::parse(&text).map_err(invalid)?;
    let Value::Object(fields) = order else { return Err(invalid("it must be an object".to_owned())) };
    let Some(named) = fields.get("idempotency_key") else { return Ok(Keyed::Without(text)) };
    let named = IdempotencyKey::parse(named.as_str().unwrap_or_default());
    let named = named.map_err(|error| invalid(format!("its idempotency_key: {error}")))?;
    match given {
        Some(given) if *given != named => {
            Err(invalid(format!("it has the idempotency_key {named}, but --idempotency-key is another one")))
        }
        Some(_) | None => Ok(Keyed::Whole(named, text)),
    }
}

/// Inserts the key as the first field, so that the rest of the text stays unchanged.
fn with_key(text: &str, key: &IdempotencyKey) -> String {
    let rest = text.trim_start().trim_start_matches('{');
    let comma = if rest.trim() == "}" { "" } else { "," };
    format!(r#"{{"idempotency_key":"{key}"{comma}{rest}"#)
}

/// Creates a random key and prints it before the order is sent, so that the order can be sent again with the same key
/// if there is no response.
fn new_key(json: bool) -> Result<IdempotencyKey, Failure> {
    let mut bits = [0; 16];
    random::fill(&mut bits);
    let key = IdempotencyKey::parse(format!("{:032x}", u128::from_be_bytes(bits)));
    let key = key.map_err(|error| Failure::Local(error.to_string()))?;
    match json {
        true => eprintln!("{}", serde_json::json!({"idempotency_key": key.as_str()})),
        false => {
            eprintln!(
                "posthaste: the idempotency key is {key}; repeat the order with --idempotency-key {key}"
            );
        }
    }
    Ok(key)
}

fn path(key: &IdempotencyKey) -> String {
    format!("/v1/orders/{}", byte_serialize(key.as_str().as_bytes()).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> IdempotencyKey {
        IdempotencyKey::parse(text).expect("a key")
    }

    #[test]
    fn key_is_inserted_without_other_changes() {
        for (text, expected) in [
            ("{}", r#"{"idempotency_key":"k"}"#),
            (" { } ", r#"{"idempotency_key":"k" } "#),
            (r#" {"qty": 1.00}"#, r#"{"idempotency_key":"k","qty": 1.00}"#),
        ] {
            let Ok(Keyed::Without(text)) = keyed(text.into(), None) else { panic!("{text} has a key") };
            assert_eq!(with_key(&text, &parsed("k")), expected);
        }
        let whole = r#"{"idempotency_key":"a","qty":1e2}"#;
        let found = Ok(Keyed::Whole(parsed("a"), whole.to_owned()));
        assert_eq!(keyed(whole.into(), None), found);
        assert_eq!(keyed(whole.into(), Some(&parsed("a"))), found);
    }

    #[test]
    fn invalid_orders_are_refused() {
        let rows = ["", "[]", "1", "{", r#"{"idempotency_key":7}"#, r#"{"idempotency_key":"a b"}"#];
        for text in rows.into_iter().chain([r#"{"idempotency_key":"another"}"#]) {
            let answer = keyed(text.into(), Some(&parsed("k")));
            assert!(matches!(answer, Err(Failure::Usage(_))), "{text}: {answer:?}");
        }
    }

    #[test]
    fn flags_become_an_order() {
        let given = Given {
            symbol: Some("A\"B".to_owned()),
            intent: Some("BUY".to_owned()),
            qty: Some("1.00".to_owned()),
            limit_price: None,
            trace_id: Some("t".to_owned()),
            meta: Some(r#"{"a":1}"#.to_owned()),
            file: None,
            idempotency_key: None,
        };
        let expected = r#"{"symbol":"A\"B","intent":"BUY","qty":1.00,"trace_id":"t","meta":{"a":1}}"#;
        assert_eq!(given.text().map(String::from_utf8), Ok(Ok(expected.to_owned())));
        for bad in ["", "x", "NaN", "1,5", "\"1\""] {
            assert!(number(bad).is_err(), "{bad}");
        }
        assert!(object("[]").is_err() && object("{}").is_ok());
    }

    #[test]
    fn keys_are_encoded_in_paths() {
        assert_eq!(path(&parsed("a/b?c%d+e")), "/v1/orders/a%2Fb%3Fc%25d%2Be");
    }
}
