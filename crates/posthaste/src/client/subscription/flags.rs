//! The flags of `posthaste subscription create` and `update`, and the fields of the request that they set. The server
//! validates the values.

use clap::Args;
use serde_json::{Map, Value, json};

/// The names of the signature formats of other senders.
const PRESETS: [&str; 5] = ["svix", "github", "stripe", "shopify", "slack"];

/// The fields that can be set at creation and changed later.
#[derive(Debug, Args)]
pub(crate) struct FieldFlags {
    /// Event type or pattern, such as order.paid, order.* or *; may be repeated
    #[arg(short = 't', long = "type", alias = "event-type", value_name = "TYPE", group = "change")]
    types: Vec<String>,
    /// Filter on the attributes of events in the CloudEvents dialect, or null for all events
    #[arg(long, value_name = "JSON", value_parser = parse_json, group = "change")]
    filter: Option<Value>,
    /// Your own id of the subscription, unique within its tenant
    #[arg(long, value_name = "UID", group = "change")]
    uid: Option<String>,
    /// Name for display
    #[arg(long, value_name = "NAME", group = "change")]
    name: Option<String>,
    /// Description for display
    #[arg(short, long, value_name = "TEXT", group = "change")]
    description: Option<String>,
    /// Pair of the metadata; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair, group = "change")]
    metadata: Vec<(String, String)>,
    /// Maximum number of attempts, including the first
    #[arg(long, value_name = "N", group = "change")]
    max_retry_limit: Option<u32>,
    /// Timeout of one request, such as 30s
    #[arg(long, value_name = "DURATION", group = "change")]
    timeout: Option<String>,
    /// Signature format: standard, standard_ed25519, svix, github, stripe, shopify, slack or JSON; may be repeated
    #[arg(long, value_name = "FORMAT", value_parser = parse_signature, group = "change")]
    signature: Vec<Value>,
    /// Header of requests; may be repeated
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_header, group = "change")]
    header: Vec<(String, String)>,
    /// Header whose value is stored encrypted and never shown; without a value, the stored one is kept
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_header, group = "change")]
    secret_header: Vec<(String, String)>,
    /// Authentication, such as {"bearer":{"token":"…"}}, or null for none
    #[arg(long, value_name = "JSON", value_parser = parse_json, group = "change")]
    auth: Option<Value>,
    /// Envelope of events: raw, standard, cloudevents-binary or cloudevents-structured
    #[arg(long, value_name = "ENVELOPE", group = "change")]
    envelope: Option<String>,
}

/// The fields that can be set only at creation.
#[derive(Debug, Args)]
pub(crate) struct CreateFlags {
    /// Tenant whose events are delivered [default: that of the API key, or none]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Signing secret; other users can see flags [default: random]
    #[arg(long, value_name = "SECRET")]
    secret: Option<String>,
    /// Ed25519 key (whsk_…); other users can see flags [default: random, if requests are signed with it]
    #[arg(long, value_name = "KEY")]
    signing_key: Option<String>,
}

impl FieldFlags {
    /// Returns the fields of the request. `first_type` precedes the types of the flags.
    pub(super) fn body(
        &self,
        first_type: Option<&String>,
        callback_url: Option<&String>,
    ) -> Map<String, Value> {
        let types: Vec<&String> = first_type.into_iter().chain(&self.types).collect();
        let texts = [
            ("callback_url", callback_url),
            ("uid", self.uid.as_ref()),
            ("name", self.name.as_ref()),
            ("description", self.description.as_ref()),
            ("timeout", self.timeout.as_ref()),
            ("envelope", self.envelope.as_ref()),
        ];
        let texts = texts.map(|(field, text)| (field, text.map(|text| text.as_str().into())));
        let pairs: Map<String, Value> =
            self.metadata.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let others = [
            ("event_types", (!types.is_empty()).then(|| json!(types))),
            ("filter", self.filter.clone()),
            ("metadata", (!pairs.is_empty()).then_some(Value::Object(pairs))),
            ("max_retry_limit", self.max_retry_limit.map(Value::from)),
            ("signatures", (!self.signature.is_empty()).then(|| self.signature.clone().into())),
            ("headers", self.headers()),
            ("auth", self.auth.clone()),
        ];
        given(texts.into_iter().chain(others))
    }

    fn headers(&self) -> Option<Value> {
        let plain = self.header.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        let secret = self.secret_header.iter().map(|(name, value)| {
            let kept = json!({ "secret": true });
            let new = json!({ "value": value, "secret": true });
            (name.clone(), if value.is_empty() { kept } else { new })
        });
        let headers: Map<String, Value> = plain.chain(secret).collect();
        (!headers.is_empty()).then_some(Value::Object(headers))
    }
}

impl CreateFlags {
    pub(super) fn body(&self) -> Map<String, Value> {
        let texts = [("tenant", &self.tenant), ("secret", &self.secret), ("signing_key", &self.signing_key)];
        given(texts.map(|(field, text)| (field, text.clone().map(Value::from))))
    }
}

/// Returns the fields that have a value, which may be null.
fn given(fields: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Map<String, Value> {
    fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect()
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("expected JSON: {error}"))
}

/// Parses the name of a format, or a format as JSON.
fn parse_signature(text: &str) -> Result<Value, String> {
    if PRESETS.contains(&text) {
        return Ok(json!({ "preset": text }));
    }
    if text.starts_with(['{', '"']) { parse_json(text) } else { Ok(text.into()) }
}

/// Parses `NAME=VALUE`.
pub(super) fn parse_pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "expected NAME=VALUE".to_owned())
}

/// Parses `NAME: VALUE`.
fn parse_header(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    pair.ok_or_else(|| "expected NAME: VALUE".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(group = clap::ArgGroup::new("change").multiple(true))]
    struct Flags {
        #[command(flatten)]
        fields: FieldFlags,
        #[command(flatten)]
        once: CreateFlags,
    }

    fn body(flags: &[&str]) -> Value {
        let parsed =
            Flags::try_parse_from(std::iter::once("test").chain(flags.iter().copied())).expect("flags");
        let mut body = parsed.fields.body(Some(&"a".to_owned()), None);
        body.extend(parsed.once.body());
        body.into()
    }

    #[test]
    fn flags_become_fields() {
        assert_eq!(body(&[]), json!({"event_types": ["a"]}));
        let flags = [
            "--type=b.*",
            "--event-type=c",
            "--filter",
            r#"{"exact":{"r":"eu"}}"#,
            "--uid=u",
            "--name=n",
            "-d",
            "text",
            "--metadata=k=v=w",
            "--metadata=e=",
            "--max-retry-limit=3",
            "--timeout=20s",
            "--signature=standard",
            "--signature=github",
            "--signature",
            r#"{"hmac":{"header":"X"}}"#,
            "--header=X-A: b: c",
            "--secret-header=X-T:tok",
            "--secret-header=X-K:",
            "--auth=null",
            "--envelope=raw",
            "--tenant=t",
            "--secret=s",
            "--signing-key=whsk_",
        ];
        let expected = json!({
            "event_types": ["a", "b.*", "c"], "filter": {"exact": {"r": "eu"}}, "uid": "u", "name": "n",
            "description": "text", "metadata": {"k": "v=w", "e": ""}, "max_retry_limit": 3, "timeout": "20s",
            "signatures": ["standard", {"preset": "github"}, {"hmac": {"header": "X"}}],
            "headers": {"X-A": "b: c", "X-T": {"value": "tok", "secret": true}, "X-K": {"secret": true}},
            "auth": null, "envelope": "raw", "tenant": "t", "secret": "s", "signing_key": "whsk_"
        });
        assert_eq!(body(&flags), expected);
        for bad in
            [["--filter", "{"], ["--metadata", "k"], ["--header", "X"], ["--auth", ""], ["--signature", "{"]]
        {
            assert!(Flags::try_parse_from(["test", bad[0], bad[1]]).is_err(), "{bad:?}");
        }
    }
}
