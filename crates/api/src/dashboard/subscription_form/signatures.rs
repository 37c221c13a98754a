//! The input for signature formats: a choice of common ones, or JSON. Converts it to the JSON of the API and back.

use posthaste_core::signature::Signatures;
use serde_json::Value;

/// An option of the select.
#[derive(Debug)]
pub(in super::super) struct Choice {
    pub(in super::super) name: &'static str,
    pub(in super::super) label: &'static str,
    json: &'static str,
}

const CUSTOM: &str = "custom";

pub(super) static CHOICES: [Choice; 9] = [
    choice("standard", "Standard Webhooks (HMAC)", r#"["standard"]"#),
    choice("standard_ed25519", "Standard Webhooks (Ed25519)", r#"["standard_ed25519"]"#),
    choice("standard_both", "Standard Webhooks (HMAC and Ed25519)", r#"["standard","standard_ed25519"]"#),
    choice("svix", "Svix", r#"[{"preset":"svix"}]"#),
    choice("github", "GitHub", r#"[{"preset":"github"}]"#),
    choice("stripe", "Stripe", r#"[{"preset":"stripe"}]"#),
    choice("shopify", "Shopify", r#"[{"preset":"shopify"}]"#),
    choice("slack", "Slack", r#"[{"preset":"slack"}]"#),
    choice(CUSTOM, "Other (JSON)…", ""),
];

const fn choice(name: &'static str, label: &'static str, json: &'static str) -> Choice {
    Choice { name, label, json }
}

fn known(signatures: &Value) -> Option<&'static Choice> {
    CHOICES.iter().find(|one| serde_json::from_str(one.json).is_ok_and(|json: Value| json == *signatures))
}

/// Returns the name of the option that selects the formats. Without formats, it is empty.
pub(super) fn choice_of(signatures: &Value) -> &'static str {
    if signatures.is_null() { "" } else { known(signatures).map_or(CUSTOM, |one| one.name) }
}

/// Returns the JSON text of formats that no other option selects.
pub(super) fn custom_text(signatures: &Value) -> String {
    if choice_of(signatures) == CUSTOM {
        serde_json::to_string_pretty(signatures).unwrap_or_default()
    } else {
        String::new()
    }
}

/// Returns the JSON of the selected formats, or `None` if no option is selected.
pub(super) fn json_of(choice: &str, custom: &str) -> Result<Option<String>, String> {
    if choice.is_empty() {
        return Ok(None);
    }
    if choice == CUSTOM {
        return Signatures::parse(custom).map(|one| Some(one.to_json())).map_err(|error| error.to_string());
    }
    let known = CHOICES.iter().find(|one| one.name == choice);
    // The API rejects an unknown name.
    Ok(Some(known.map_or_else(|| Value::from(vec![choice]).to_string(), |one| one.json.to_owned())))
}
