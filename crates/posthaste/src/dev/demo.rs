//! The demo subscription of `posthaste dev`: created once through the API, and updated at every start with the URL of
//! the demo receiver, whose port changes.

use crate::client::{ApiClient, Call};
use crate::listen::Receiver;
use crate::private_file;
use anyhow::Context as _;
use posthaste_core::signature::SigningSecret;
use serde_json::{Value, json};
use std::path::Path;

pub(super) const EVENT_TYPE: &str = "demo.hello";
const DESCRIPTION: &str = "The receiver of posthaste dev";
/// The file that stores the id and the secret of the subscription, because the API returns the secret only once.
const FILE: &str = "demo-subscription";

/// Ensures that there is a verified subscription for the demo receiver, and passes the signing secret to the receiver.
pub(super) async fn subscribe(
    server: &ApiClient,
    receiver: &Receiver,
    receiver_url: &str,
    folder: &Path,
) -> anyhow::Result<()> {
    let subscription = match known(folder)? {
        Some(known) if redirect(server, known.id, receiver_url).await? => known,
        Some(_) | None => create(server, receiver_url, folder).await?,
    };
    receiver.trust(vec![subscription.secret]);
    let verified =
        request(server, &Call::post(format!("/v1/subscriptions/{}/verify", subscription.id))).await?;
    let why = verified["reason"].as_str().unwrap_or("no reason given");
    anyhow::ensure!(verified["verified"] == true, "the demo receiver was not verified: {why}");
    Ok(())
}

struct Subscription {
    id: i64,
    secret: SigningSecret,
}

impl Subscription {
    /// Parses a subscription. Returns `None` if the id or a valid secret is missing.
    fn from_json(answer: &Value) -> Option<Self> {
        let secret = SigningSecret::parse(answer["secret"].as_str()?).ok()?;
        Some(Self { id: answer["id"].as_i64()?, secret })
    }
}

/// Returns the subscription that an earlier run stored, or `None` if there is none or the file is invalid.
fn known(folder: &Path) -> anyhow::Result<Option<Subscription>> {
    let text = private_file::read(&folder.join(FILE))?.unwrap_or_default();
    Ok(serde_json::from_str(&text).ok().as_ref().and_then(Subscription::from_json))
}

/// Sets the callback URL of a subscription. Returns `false` if the subscription no longer exists.
async fn redirect(server: &ApiClient, id: i64, url: &str) -> anyhow::Result<bool> {
    let change = json!({ "callback_url": url }).to_string();
    match server.call(&Call::patch(format!("/v1/subscriptions/{id}")).body(change)).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.is_not_found() => Ok(false),
        Err(failure) => Err(failure).context("updating the demo subscription"),
    }
}

/// Creates the demo subscription and stores its id and secret.
async fn create(server: &ApiClient, url: &str, folder: &Path) -> anyhow::Result<Subscription> {
    let call = Call::post("/v1/subscriptions").fields([
        ("event_type", EVENT_TYPE.into()),
        ("callback_url", url.into()),
        ("description", DESCRIPTION.into()),
    ]);
    let answer = request(server, &call).await?;
    private_file::write(
        &folder.join(FILE),
        &json!({ "id": answer["id"], "secret": answer["secret"] }).to_string(),
    )?;
    Subscription::from_json(&answer).context("the API created a subscription without a secret")
}

/// Sends a call and parses the response.
async fn request(server: &ApiClient, call: &Call) -> anyhow::Result<Value> {
    let text = server.call(call).await.context("preparing the demo subscription")?;
    serde_json::from_str(&text).context("reading a response of the API")
}
