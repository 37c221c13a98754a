//! The broker's records: every received request and every executed order. This module does no I/O, so the broker's
//! behaviour can be tested without a socket.

use super::behaviour::Misbehaviour;
use posthaste_core::digest::digest_of;
use serde_json::Value;
use std::collections::HashMap;

/// A request to the broker.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The value of the `Idempotency-Key` header, which identifies the order.
    pub key: Option<String>,
    pub body: &'a [u8],
    pub at_us: i64,
}

/// The record of a received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub key: Option<String>,
    /// The idempotency key in the body.
    pub body_key: Option<String>,
    pub body_digest: String,
    pub at_us: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    pub key: String,
    /// The value of `meta.order`, which identifies the order under any key.
    pub order: Option<u64>,
}

/// The records of all requests and executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Books {
    pub sent: Vec<Sent>,
    pub executed: Vec<Executed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Answer { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    Silence,
}

#[derive(Debug)]
pub struct Accounts {
    books: Books,
    sends: HashMap<String, usize>,
    /// The broker's order id for each executed key.
    ids: HashMap<String, String>,
    trusting: bool,
    /// The number of executions after which the credentials are refused, or `None` for no limit.
    revoked_after: Option<usize>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            books: Books::default(),
            sends: HashMap::new(),
            ids: HashMap::new(),
            trusting: true,
            revoked_after: None,
        }
    }
}

impl Accounts {
    pub fn books(&self) -> Books {
        self.books.clone()
    }

    pub fn executions(&self) -> usize {
        self.books.executed.len()
    }

    pub fn set_trusting(&mut self, trusting: bool) {
        self.trusting = trusting;
    }

    /// Makes the broker refuse the credentials after `executions` executed orders.
    pub fn revoke_after(&mut self, executions: usize) {
        self.revoked_after = Some(executions);
    }

    /// Returns the number of requests received so far with `key`.
    pub fn sends_of(&self, key: Option<&str>) -> usize {
        key.and_then(|key| self.sends.get(key)).copied().unwrap_or_default()
    }

    /// Records a request, executes its order if `turn` requires that, and returns the response.
    pub fn attend(&mut self, request: Request<'_>, turn: Misbehaviour) -> Reply {
        let order: Value = serde_json::from_slice(request.body).unwrap_or(Value::Null);
        self.books.sent.push(Sent {
            key: request.key.clone(),
            body_key: order["idempotency_key"].as_str().map(str::to_owned),
            body_digest: digest_of(request.body).as_str().to_owned(),
            at_us: request.at_us,
        });
        let Some(key) = request.key else { return answer(400, "no idempotency key") };
        *self.sends.entry(key.clone()).or_default() += 1;
        if self.revoked_after.is_some_and(|executions| self.executions() >= executions) {
            (self.trusting, self.revoked_after) = (false, None);
        }
        if !self.trusting {
            return answer(401, "who are you?");
        }
        match turn {
            Misbehaviour::Stall { executes } | Misbehaviour::Reset { executes } => {
                self.execute_if(executes, &key, &order);
                Reply::Silence
            }
            Misbehaviour::Fail { status, executes } => {
                self.execute_if(executes, &key, &order);
                answer(status, "out of order")
            }
            Misbehaviour::Limit { retry_after_s } => limited(retry_after_s),
            Misbehaviour::Honest
            | Misbehaviour::Late(_)
            | Misbehaviour::Vague
            | Misbehaviour::Wordy
            | Misbehaviour::Plain
            | Misbehaviour::Refuse => self.answer_in_truth(&key, &order, turn),
        }
    }

    fn answer_in_truth(&mut self, key: &str, order: &Value, turn: Misbehaviour) -> Reply {
        if let Some(id) = self.ids.get(key) {
            match turn {
                Misbehaviour::Vague => return answer(409, "an order of this key is under way"),
                Misbehaviour::Wordy => return conflict(key, None),
                Misbehaviour::Plain => return conflict(key, Some(id)),
                Misbehaviour::Refuse => return answer(422, "a duplicate"),
                Misbehaviour::Honest
                | Misbehaviour::Late(_)
                | Misbehaviour::Stall { .. }
                | Misbehaviour::Reset { .. }
                | Misbehaviour::Fail { .. }
                | Misbehaviour::Limit { .. } => {}
            }
        }
        if is_unfit(order) {
            return answer(422, "this order cannot be executed");
        }
        self.execute_if(true, key, order);
        self.receipt(key)
    }

    /// Executes the order if `executes` is set, unless its key was already executed or the order is marked unfit.
    fn execute_if(&mut self, executes: bool, key: &str, order: &Value) {
        if !executes || is_unfit(order) || self.ids.contains_key(key) {
            return;
        }
        self.ids.insert(key.to_owned(), format!("brk-{}", self.books.executed.len() + 1));
        self.books.executed.push(Executed { key: key.to_owned(), order: order["meta"]["order"].as_u64() });
    }

    fn receipt(&self, key: &str) -> Reply {
        let id = self.ids.get(key);
        let body = serde_json::json!({
            "broker_order_id": id, "status": "accepted", "fills": [], "idempotency_key": key
        });
        Reply::Answer { status: 200, headers: Vec::new(), body: body.to_string().into_bytes() }
    }
}

/// Returns whether the order is marked as unfit, which means that the broker must refuse it.
fn is_unfit(order: &Value) -> bool {
    order["meta"]["unfit"] == true
}

fn answer(status: u16, error: &str) -> Reply {
    let body = serde_json::json!({ "error": error }).to_string().into_bytes();
    Reply::Answer { status, headers: Vec::new(), body }
}

fn conflict(key: &str, id: Option<&String>) -> Reply {
    let mut body = serde_json::json!({ "error": "Already Processed", "idempotency_key": key });
    if let Some(id) = id {
        body = serde_json::json!({ "error": "seen before", "idempotency_key": key, "broker_order_id": id });
    }
    Reply::Answer { status: 409, headers: Vec::new(), body: body.to_string().into_bytes() }
}

fn limited(retry_after_s: Option<u32>) -> Reply {
    let headers = retry_after_s.map(|seconds| ("retry-after".to_owned(), seconds.to_string()));
    Reply::Answer { status: 429, headers: headers.into_iter().collect(), body: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str = r#"{"idempotency_key":"k","meta":{"order":7}}"#;

    fn attend(accounts: &mut Accounts, body: &str, turn: Misbehaviour) -> (Option<u16>, usize) {
        let request = Request { key: Some("k".to_owned()), body: body.as_bytes(), at_us: 1 };
        let status = match accounts.attend(request, turn) {
            Reply::Answer { status, .. } => Some(status),
            Reply::Silence => None,
        };
        (status, accounts.executions())
    }

    #[test]
    fn a_key_is_executed_once_whatever_the_response() {
        let rows = [
            (Misbehaviour::Stall { executes: false }, None, 0),
            (Misbehaviour::Reset { executes: false }, None, 0),
            (Misbehaviour::Fail { status: 500, executes: false }, Some(500), 0),
            (Misbehaviour::Limit { retry_after_s: None }, Some(429), 0),
            (Misbehaviour::Fail { status: 503, executes: true }, Some(503), 1),
            (Misbehaviour::Reset { executes: true }, None, 1),
            (Misbehaviour::Stall { executes: true }, None, 1),
            (Misbehaviour::Vague, Some(409), 1),
            (Misbehaviour::Wordy, Some(409), 1),
            (Misbehaviour::Plain, Some(409), 1),
            (Misbehaviour::Refuse, Some(422), 1),
            (Misbehaviour::Honest, Some(200), 1),
            (Misbehaviour::Late(std::time::Duration::ZERO), Some(200), 1),
        ];
        let mut accounts = Accounts::default();
        for (turn, status, executions) in rows {
            assert_eq!(attend(&mut accounts, ORDER, turn), (status, executions), "{turn:?}");
        }
        assert_eq!(accounts.books().executed, [Executed { key: "k".to_owned(), order: Some(7) }]);
        assert_eq!(accounts.books().sent.len(), rows.len());
        assert_eq!(accounts.sends_of(Some("k")), rows.len());
    }

    #[test]
    fn refused_orders_are_never_executed() {
        let mut accounts = Accounts::default();
        let unfit = r#"{"meta":{"unfit":true}}"#;
        for turn in
            [Misbehaviour::Honest, Misbehaviour::Plain, Misbehaviour::Fail { status: 500, executes: true }]
        {
            assert_eq!(attend(&mut accounts, unfit, turn).1, 0, "{turn:?}");
        }
        accounts.set_trusting(false);
        assert_eq!(attend(&mut accounts, ORDER, Misbehaviour::Honest), (Some(401), 0));
        accounts.set_trusting(true);
        assert_eq!(attend(&mut accounts, ORDER, Misbehaviour::Honest), (Some(200), 1));
        let without = Request { key: None, body: ORDER.as_bytes(), at_us: 1 };
        assert!(matches!(accounts.attend(without, Misbehaviour::Honest), Reply::Answer { status: 400, .. }));
    }
}
