//! The one subscription of `posthaste dev`: made once over the API, as anybody would, and led to the
//! receiver's port of today at every start.

use super::keep;
use crate::client::{ApiClient, Call, Failure};
use crate::listen::Receiver;
use anyhow::Context as _;
use posthaste_core::signature::SigningSecret;
use serde_json::{Value, json};
use std::path::Path;

pub(super) const EVENT_TYPE: &str = "demo.hello";
const DESCRIPTION: &str = "The receiver of posthaste dev";
/// Which subscription it is, and its secret: the API shows that once, and the receiver needs it always.
const FILE: &str = "demo-subscription";

pub(super) async fn subscribe(
    server: &ApiClient,
    receiver: &Receiver,
    receiver_url: &str,
    folder: &Path,
) -> anyhow::Result<()> {
    let subscription = match known(folder)? {
        Some(known) if lead(server, known.id, receiver_url).await? => known,
        Some(_) | None => make(server, receiver_url, folder).await?,
    };
    receiver.trust(vec![subscription.secret]);
    let verified = ask(server, &Call::post(format!("/v1/subscriptions/{}/verify", subscription.id))).await?;
    let why = verified["reason"].as_str().unwrap_or("no reason was given");
    anyhow::ensure!(verified["verified"] == true, "the demo receiver was not verified: {why}");
    Ok(())
}

struct Subscription {
    id: i64,
    secret: SigningSecret,
}

impl Subscription {
    fn of(answer: &Value) -> Option<Self> {
        let secret = SigningSecret::parse(answer["secret"].as_str()?).ok()?;
        Some(Self { id: answer["id"].as_i64()?, secret })
    }
}

/// A file that cannot be read is as good as none: a new subscription costs nothing.
fn known(folder: &Path) -> anyhow::Result<Option<Subscription>> {
    let text = keep::read(&folder.join(FILE))?.unwrap_or_default();
    Ok(serde_json::from_str(&text).ok().as_ref().and_then(Subscription::of))
}

/// Whether the subscription is still there. Then it leads to this URL.
async fn lead(server: &ApiClient, id: i64, url: &str) -> anyhow::Result<bool> {
    let change = json!({ "callback_url": url }).to_string();
    match server.ask(&Call::patch(format!("/v1/subscriptions/{id}")).body(change)).await {
        Ok(_) => Ok(true),
        Err(Failure::NotFound(_)) => Ok(false),
        Err(failure) => Err(failure).context("changing the demo subscription"),
    }
}

async fn make(server: &ApiClient, url: &str, folder: &Path) -> anyhow::Result<Subscription> {
    let call = Call::post("/v1/subscriptions").fields([
        ("event_type", EVENT_TYPE.into()),
        ("callback_url", url.into()),
        ("description", DESCRIPTION.into()),
    ]);
    let answer = ask(server, &call).await?;
    keep::write(&folder.join(FILE), &json!({ "id": answer["id"], "secret": answer["secret"] }).to_string())?;
    Subscription::of(&answer).context("the API made a subscription without a secret")
}

async fn ask(server: &ApiClient, call: &Call) -> anyhow::Result<Value> {
    let text = server.ask(call).await.context("preparing the demo subscription")?;
    serde_json::from_str(&text).context("reading an answer of the API")
}
