//! The receivers in the sample data, with their subscriptions and behavior.

use Behavior::{DownSince, FailsSince, Healthy, Slow};
use posthaste_core::outcome::Failure;
use posthaste_core::subscription::{NewSubscription, SealedSecret};
use posthaste_testkit::fixtures::{callback, subscription};

/// A signing secret of the standard form, with which a request can be shown.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";

/// A receiver in the sample data and its subscription.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) event_type: &'static str,
    /// The average number of events of this type per hour, or 0 if another receiver of the same type specifies it.
    pub(crate) per_hour: u64,
    url: &'static str,
    description: &'static str,
    attempts_max: Option<u32>,
    pub(crate) behavior: Behavior,
}

/// The behavior of a receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Behavior {
    /// Succeeds after about this number of milliseconds, except for a few transient errors.
    Healthy(u64),
    /// Takes several seconds and sometimes times out.
    Slow,
    /// Is healthy at first, and responds with 503 from this minute on.
    FailsSince(u64),
    /// Is healthy at first, and refuses connections from this minute on.
    DownSince(u64),
}

const fn receiver(
    (event_type, per_hour): (&'static str, u64),
    url: &'static str,
    description: &'static str,
    behavior: Behavior,
) -> Receiver {
    Receiver { event_type, per_hour, url, description, attempts_max: None, behavior }
}

pub(crate) const RECEIVERS: [Receiver; 11] = [
    receiver(("order.created", 120), "https://erp.acme.example/webhooks/orders", "ERP import", Healthy(45)),
    receiver(("order.paid", 110), "https://billing.acme.example/hooks/paid", "Invoicing", Healthy(80)),
    receiver(("order.paid", 0), "https://wms.brightparcel.example/events", "Warehouse", Healthy(140)),
    receiver(("order.shipped", 90), "https://notify.acme.example/shipping", "E-mail to buyers", Healthy(25)),
    receiver(("order.cancelled", 14), "https://erp.acme.example/webhooks/orders", "ERP import", Healthy(60)),
    receiver(("invoice.issued", 100), "https://ledger.tallybooks.example/inbox", "Accounting", Healthy(210)),
    receiver(("payment.failed", 9), "https://alerts.acme.example/payments", "On-call alerts", Healthy(30)),
    Receiver {
        attempts_max: Some(3),
        ..receiver(
            ("customer.created", 48),
            "https://api.leadpilot.example/hooks",
            "CRM sync",
            FailsSince(38),
        )
    },
    receiver(("customer.updated", 60), "https://search.acme.example/customers", "Search index", Healthy(35)),
    receiver(("shipment.delivered", 85), "https://track.globalpost.example/in", "Carrier tracking", Slow),
    receiver(("stock.low", 30), "https://purchasing.acme.example/stock", "Reordering", DownSince(37)),
];
/// The index in [`RECEIVERS`] of the receiver that responds with 503.
pub(crate) const FAILING: usize = 7;
/// The index in [`RECEIVERS`] of the receiver that is down and whose subscription is paused.
pub(crate) const PAUSED: usize = 10;
/// A receiver whose subscription is deleted.
pub(crate) const TRIAL: Receiver =
    receiver(("order.created", 0), "https://trial.acme.example/hooks", "Trial", Healthy(50));
/// A receiver whose subscription is not verified.
pub(crate) const REFUNDS: Receiver =
    receiver(("refund.created", 0), "https://ledger.tallybooks.example/refunds", "Accounting", Healthy(50));

impl Receiver {
    pub(crate) fn subscription(&self) -> NewSubscription {
        NewSubscription {
            callback_url: callback(self.url),
            description: Some(self.description.to_owned()),
            max_retry_limit: self.attempts_max,
            secret: SealedSecret::new(SECRET),
            ..subscription(self.event_type)
        }
    }
}

/// The status code of a successful response, or the failure with the status code if there was a response.
type Response = Result<u16, (Failure, Option<u16>)>;

impl Behavior {
    /// Returns the response to an attempt in the given minute, and its duration in milliseconds. `percentile` is a
    /// random number below 100.
    pub(crate) fn respond(self, percentile: u64, minute: u64, attempt: u32) -> (Response, u64) {
        match self {
            Healthy(ms) => healthy(ms, percentile, attempt),
            Slow if percentile < 7 => (Err((Failure::Timeout, None)), 15_000),
            Slow => (Ok(202), 2_400 + percentile * 55),
            FailsSince(since) if minute >= since => (Err((Failure::Http(503), Some(503))), 60 + percentile),
            DownSince(since) if minute >= since => (Err((Failure::ConnectFailed, None)), 3 + percentile / 9),
            FailsSince(_) | DownSince(_) => healthy(90, percentile, attempt),
        }
    }
}

fn healthy(ms: u64, percentile: u64, attempt: u32) -> (Response, u64) {
    let response = match percentile {
        0 => Err((Failure::Http(502), Some(502))),
        1 if attempt == 1 => Err((Failure::ConnectFailed, None)),
        _ => Ok(200),
    };
    let tail_ms = if percentile > 96 { 9 * ms } else { 0 };
    (response, ms * (60 + percentile) / 100 + tail_ms)
}
