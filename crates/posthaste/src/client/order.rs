//! `posthaste order …`

use super::call::Page;
use super::table::{self, Column, Record};
use super::{Call, Failure, Reach, answer, input};
use crate::random;
use clap::{Args, Subcommand};
use posthaste_core::json::JsonText;
use posthaste_core::order::IdempotencyKey;
use serde_json::Value;
use std::path::PathBuf;
use url::form_urlencoded::byte_serialize;

#[derive(Debug, Subcommand)]
pub(crate) enum OrderCommand {
    /// Send an order to the broker, from flags, a file or stdin; the same key again is the same order
    Send {
        #[command(flatten)]
        order: Given,
        #[command(flatten)]
        reach: Reach,
    },
    /// List orders, newest first
    List {
        /// Only those in this state: queued, sending, sent, failed or dead
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show an order, with the broker's answer once it is sent
    Show {
        /// The key under which it was sent
        #[arg(value_name = "IDEMPOTENCY_KEY", value_parser = key)]
        key: IdempotencyKey,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show everything that happened to an order, oldest first
    Audit {
        /// The key under which it was sent
        #[arg(value_name = "IDEMPOTENCY_KEY", value_parser = key)]
        key: IdempotencyKey,
        #[command(flatten)]
        page: Page,
        #[command(flatten)]
        reach: Reach,
    },
}

/// An order; without --symbol it is read as JSON from --file or stdin.
#[derive(Debug, Args)]
pub(crate) struct Given {
    /// What is traded, such as USDJPY
    #[arg(long, requires_all = ["intent", "qty"], conflicts_with = "file")]
    symbol: Option<String>,
    /// What is to be done with it, such as BUY
    #[arg(long, requires = "symbol")]
    intent: Option<String>,
    /// How much of it
    #[arg(long, value_name = "NUMBER", requires = "symbol", value_parser = number)]
    qty: Option<String>,
    /// The worst price that is acceptable
    #[arg(long, value_name = "NUMBER", requires = "symbol", value_parser = number)]
    limit_price: Option<String>,
    /// Goes with the order to the broker and into its audit
    #[arg(long, value_name = "ID", requires = "symbol")]
    trace_id: Option<String>,
    /// An object with anything else that belongs to it
    #[arg(long, value_name = "JSON", requires = "symbol", value_parser = object)]
    meta: Option<String>,
    /// A file that holds the whole order
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Under which it is executed once; without it, and none in the file, one is made
    #[arg(long, value_name = "KEY", value_parser = key)]
    idempotency_key: Option<IdempotencyKey>,
}

fn key(text: &str) -> Result<IdempotencyKey, String> {
    IdempotencyKey::parse(text).map_err(|error| error.to_string())
}

/// Kept as it was typed: the server judges whether it is exact.
fn number(text: &str) -> Result<String, String> {
    let is_number = serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_number());
    is_number.then(|| text.trim().to_owned()).ok_or_else(|| "not a number such as 12.5".to_owned())
}

fn object(text: &str) -> Result<String, String> {
    let is_object = serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object());
    is_object.then(|| text.to_owned()).ok_or_else(|| r#"not an object such as {"desk":"fx"}"#.to_owned())
}

const ORDER: Record = Record {
    fields: &[
        ("order", "idempotency_key"),
        ("status", "status"),
        ("failed sends", "retry_count"),
        ("next attempt", "next_attempt_at"),
        ("error", "last_error"),
        ("broker's id", "broker_order_id"),
        ("digest", "request_digest"),
        ("digest of the result", "result_digest"),
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
    ("AT", "created_at"),
    ("FROM", "status_from"),
    ("TO", "status_to"),
    ("FAILED SENDS", "retry_count"),
    ("ERROR", "last_error"),
    ("BROKER'S ID", "broker_order_id"),
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
                        let key = order.idempotency_key.clone().map_or_else(new_key, Ok)?;
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
                (call.list(|answer| table::list(&TRANSITIONS, "nothing happened", answer)), reach)
            }
        })
    }
}

impl Given {
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

#[derive(Debug, PartialEq, Eq)]
enum Keyed {
    /// With the key that it names.
    Whole(IdempotencyKey, String),
    Without(String),
}

/// Whether the order names its key. All else about it is the server's to judge.
fn keyed(text: Vec<u8>, said: Option<&IdempotencyKey>) -> Result<Keyed, Failure> {
    let unfit = |why: String| Failure::Usage(format!("the order: {why}"));
    let text = JsonText::parse(text, input::BYTES_MAX).map_err(|error| unfit(error.to_string()))?;
    let text = text.into_string();
    let order = answer::parse(&text).map_err(unfit)?;
    let Value::Object(fields) = order else { return Err(unfit("it must be an object".to_owned())) };
    let Some(named) = fields.get("idempotency_key") else { return Ok(Keyed::Without(text)) };
    let named = IdempotencyKey::parse(named.as_str().unwrap_or_default());
    let named = named.map_err(|error| unfit(format!("its idempotency_key: {error}")))?;
    match said {
        Some(said) if *said != named => {
            Err(unfit(format!("it names the idempotency_key {named}, and --idempotency-key another")))
        }
        Some(_) | None => Ok(Keyed::Whole(named, text)),
    }
}

/// Put in front, so that the rest stays as it was written.
fn with_key(text: &str, key: &IdempotencyKey) -> String {
    let rest = text.trim_start().trim_start_matches('{');
    let comma = if rest.trim() == "}" { "" } else { "," };
    format!(r#"{{"idempotency_key":"{key}"{comma}{rest}"#)
}

/// Told before the order is sent: whoever gets no answer can send it again under the same key.
fn new_key() -> Result<IdempotencyKey, Failure> {
    let mut bits = [0; 16];
    random::fill(&mut bits);
    let key = IdempotencyKey::parse(format!("{:032x}", u128::from_be_bytes(bits)));
    let key = key.map_err(|error| Failure::Local(error.to_string()))?;
    eprintln!("posthaste: the key of this order is {key}; --idempotency-key {key} sends it again");
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
    fn an_order_without_a_key_gets_one_and_is_else_left_as_it_is() {
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
    fn what_is_no_order_is_not_sent() {
        let rows = ["", "[]", "1", "{", r#"{"idempotency_key":7}"#, r#"{"idempotency_key":"a b"}"#];
        for text in rows.into_iter().chain([r#"{"idempotency_key":"another"}"#]) {
            let answer = keyed(text.into(), Some(&parsed("k")));
            assert!(matches!(answer, Err(Failure::Usage(_))), "{text}: {answer:?}");
        }
    }

    #[test]
    fn flags_make_the_order() {
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
    fn keys_stand_in_paths_as_they_may() {
        assert_eq!(path(&parsed("a/b?c%d+e")), "/v1/orders/a%2Fb%3Fc%25d%2Be");
    }
}
