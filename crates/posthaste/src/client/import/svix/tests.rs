//! Tests the mapping of a Svix bundle with two applications, as the API of Svix returns them.

use super::*;

fn bundle() -> Value {
    json!([
        {
            "application": {
                "id": "app_1srOrx2ZWZBpBUvZwXKQmoEYga2", "uid": "acme", "name": "Acme", "rateLimit": null,
                "metadata": {}, "createdAt": "2025-11-06T10:15:30Z", "updatedAt": "2025-11-06T10:15:30Z"
            },
            "endpoints": [
                {
                    "id": "ep_1srOrx2ZWZBpBUvZwXKQmoEYga2", "uid": "billing", "url": "https://acme.example/hooks",
                    "description": "Billing", "filterTypes": ["invoice", "invoice.paid"], "channels": null,
                    "disabled": false, "rateLimit": null, "version": 1, "metadata": {"team": "billing"},
                    "createdAt": "2025-11-06T10:15:30Z", "updatedAt": "2025-11-06T10:15:30Z",
                    "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "headers": {"X-Region": "eu"}
                },
                {
                    "id": "ep_2x", "url": "https://acme.example/other", "description": "", "disabled": true,
                    "channels": ["project_1", "project_2"], "throttleRate": 50, "version": 2, "metadata": {},
                    "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oE",
                    "headers": {"headers": {"X-Api-Key": "k"}, "sensitive": ["authorization", "X-Api-Key"]},
                    "transformation": {"enabled": true, "code": "function handler(webhook) { return webhook }"}
                }
            ]
        },
        {
            "application": {"id": "app_2y", "uid": null, "name": "Globex", "rateLimit": 10},
            "endpoints": [{
                "id": "ep_3z", "url": "https://globex.example/", "eventTypes": ["user.created"], "metadata": {},
                "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oF", "headers": {},
                "transformation": {"enabled": false, "code": "function handler(webhook) { return webhook }"}
            }]
        }
    ])
}

fn fields(entry: &Entry) -> Value {
    entry.desired.fields.clone().into()
}

#[test]
fn two_applications_become_two_tenants() {
    let plan = parse(&bundle(), &[]).expect("a plan");
    let identities: Vec<String> =
        plan.entries.iter().map(|entry| entry.desired.identity.to_string()).collect();
    assert_eq!(
        identities,
        [
            "svix:acme:billing of tenant acme",
            "svix:acme:ep_2x of tenant acme",
            "svix:app_2y:ep_3z of tenant app_2y"
        ]
    );
    let [billing, other, globex] = &plan.entries[..] else { panic!("three entries") };
    assert_eq!(
        fields(billing),
        json!({
            "callback_url": "https://acme.example/hooks", "event_types": ["invoice", "invoice.paid"], "active": true,
            "description": "Billing", "metadata": {"team": "billing"}, "headers": {"X-Region": "eu"},
            "signatures": [{"preset": "svix"}], "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
        })
    );
    assert_eq!((&billing.notes, &billing.gaps), (&vec![], &vec![]));
    assert_eq!(
        fields(other),
        json!({
            "callback_url": "https://acme.example/other", "event_types": ["*"], "active": false,
            "headers": {"X-Api-Key": {"value": "k", "secret": true}}, "signatures": [{"preset": "svix"}],
            "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oE"
        })
    );
    assert_eq!(
        other.gaps,
        [
            "the headers authorization, whose values Svix does not show",
            "the channels project_1, project_2",
            "the transformation"
        ]
    );
    assert_eq!(other.notes, ["the rate limit of 50 messages per second"]);
    assert_eq!(globex.desired.fields["event_types"], json!(["user.created"]));
    assert_eq!(globex.gaps, [""; 0], "a disabled transformation");
    assert_eq!(plan.notes, ["not imported: the rate limit of application app_2y"]);
    assert!(plan.checked().is_ok());
}

#[test]
fn applications_are_selected_by_uid_or_id() {
    for (wanted, count) in [("acme", 2), ("app_1srOrx2ZWZBpBUvZwXKQmoEYga2", 2), ("app_2y", 1)] {
        let plan = parse(&bundle(), &[wanted.to_owned()]).expect("a plan");
        assert_eq!(plan.entries.len(), count, "{wanted}");
    }
    let errors =
        parse(&bundle(), &["acme".to_owned(), "initech".to_owned()]).expect_err("an unknown application");
    assert_eq!(errors, ["--app initech: there is no such application"]);
}

#[test]
fn keys_of_other_kinds_are_mapped_or_reported() {
    for (secret, field, gap) in [
        (
            json!("whsk_c2VlZA=="),
            json!({"signing_key": "whsk_c2VlZA==", "signatures": ["standard_ed25519"]}),
            None,
        ),
        (json!("whpk_cHVibGlj"), json!({"signatures": ["standard_ed25519"]}), Some("private key")),
        (json!(null), json!({"signatures": [{"preset": "svix"}]}), Some("the receiver needs the new one")),
        (json!(""), json!({"signatures": [{"preset": "svix"}]}), Some("the receiver needs the new one")),
    ] {
        let endpoint = json!({"id": "e", "url": "https://h.example/", "secret": secret});
        let entry = entry("a", &endpoint).expect("an entry");
        let mut found = fields(&entry);
        let members = found.as_object_mut().expect("an object");
        members.retain(|name, _| ["secret", "signing_key", "signatures"].contains(&name.as_str()));
        assert_eq!(found, field, "{secret}");
        assert_eq!(entry.gaps.len(), usize::from(gap.is_some()), "{secret}");
        assert!(entry.gaps.concat().contains(gap.unwrap_or_default()), "{secret}: {:?}", entry.gaps);
    }
}

#[test]
fn wrong_bundles_are_refused_with_the_place() {
    for (bundle, message) in [
        (json!({}), "the bundle must be a list"),
        (json!([{"endpoints": []}]), "[0].application must be an object with a uid or an id"),
        (json!([{"application": {"id": "a"}}]), "[0].endpoints must be a list"),
        (
            json!([{"application": {"id": "a"}, "endpoints": [7]}]),
            "[0].endpoints[0] must be an object with a uid",
        ),
        (
            json!([{"application": {"id": "a"}, "endpoints": [{"id": "e"}]}]),
            "[0].endpoints[0].url must be text",
        ),
    ] {
        let errors = parse(&bundle, &[]).expect_err("an error");
        assert!(errors.len() == 1 && errors[0].starts_with(message), "{bundle}: {errors:?}");
    }
    let endpoint = json!({"id": "e", "url": "https://h.example/", "secret": "whsec_a"});
    let twice = json!([{"application": {"id": "a"}, "endpoints": [endpoint, endpoint]}]);
    let errors = parse(&twice, &[]).and_then(Plan::checked).expect_err("a duplicate");
    assert_eq!(errors, ["svix:a:e of tenant a appears twice"]);
}
