//! Subscriptions as a file ([`configuration`](super::configuration)) or another sender ([`import`](super::import))
//! describes them. Compares them with those of the server and writes the differences by uid, each on the condition that
//! the subscription was not changed since it was read.

mod fields;
mod report;

pub(super) use fields::{AUTH_KINDS, FIELDS, SECRET_FIELDS, Secrets};
pub(super) use report::{Outcome, Report, Row};

use super::call::{Condition, path_segment};
use super::{ApiClient, Call, Failure, PAGES_MAX, table};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// The number of subscriptions that are fetched at once. A page of the largest ones fits into a response of the client.
const PAGE_ITEMS: u32 = 100;

/// What identifies a subscription in a file: the uid is unique within the tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) tenant: Option<String>,
    pub(super) uid: String,
}

impl Identity {
    /// Returns the identity of a subscription that the server shows, or `None` if it has no uid.
    fn of(subscription: &Value) -> Option<Self> {
        let text = |name: &str| subscription[name].as_str().map(str::to_owned);
        Some(Self { tenant: text("tenant"), uid: text("uid")? })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&table::visible(&self.uid))?;
        self.tenant.as_ref().map_or(Ok(()), |tenant| write!(f, " of tenant {}", table::visible(tenant)))
    }
}

/// A subscription as it should be: the fields that a PUT accepts, without the tenant and the uid.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Desired {
    pub(super) identity: Identity,
    pub(super) fields: Map<String, Value>,
}

/// Omits the values, because they contain secrets.
impl fmt::Debug for Desired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Desired({}: {:?})", self.identity, self.fields.keys())
    }
}

impl Desired {
    /// Returns the places that need a secret which neither the file nor the stored subscription has.
    pub(super) fn missing_secrets(&self, stored: Option<&Value>) -> Vec<String> {
        fields::missing_secrets(&self.fields, stored)
    }
}

/// The subscriptions of the server.
#[derive(Debug, Default)]
pub(super) struct Stored {
    by_identity: BTreeMap<Identity, Value>,
    /// The ids of the subscriptions without a uid.
    pub(super) without_uid: Vec<i64>,
}

impl Stored {
    /// Fetches all subscriptions, or those of a tenant.
    pub(super) async fn load(server: &ApiClient, tenant: Option<&str>) -> Result<Self, Failure> {
        let mut stored = Self::default();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let query = [
                ("limit", Some(PAGE_ITEMS.to_string())),
                ("tenant", tenant.map(str::to_owned)),
                ("cursor", cursor),
            ];
            let call = Call::get("/v1/subscriptions").query(&query).required("items");
            let (_, page) = server.call_json(&call).await?;
            page["items"].as_array().into_iter().flatten().for_each(|item| stored.add(item));
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return Ok(stored);
            }
        }
        Err(Failure::Local("the server returned too many pages: is this a Posthaste server?".to_owned()))
    }

    fn add(&mut self, subscription: &Value) {
        match Identity::of(subscription) {
            Some(identity) => drop(self.by_identity.insert(identity, subscription.clone())),
            None => self.without_uid.extend(subscription["id"].as_i64()),
        }
    }

    pub(super) fn get(&self, identity: &Identity) -> Option<&Value> {
        self.by_identity.get(identity)
    }

    /// Returns the subscriptions in the order of their tenants and uids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Identity, &Value)> {
        self.by_identity.iter()
    }
}

/// What happens to the fields of a stored subscription that the desired one does not describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undescribed {
    /// They get their defaults.
    Reset,
    /// They are kept.
    Keep,
}

/// Writes subscriptions to a server, or finds out what it would write.
pub(super) struct Writer<'a> {
    pub(super) server: &'a ApiClient,
    pub(super) is_dry_run: bool,
    pub(super) undescribed: Undescribed,
    pub(super) secrets: Secrets,
}

impl Writer<'_> {
    /// Creates or changes a subscription. If the server refuses it, the outcome says why.
    ///
    /// # Errors
    ///
    /// Returns an error after which further calls would fail as well, such as an unreachable server.
    pub(super) async fn put(&self, desired: &Desired, stored: Option<&Value>) -> Result<Row, Failure> {
        let written = match stored {
            None => self.create(desired).await,
            Some(stored) => self.change(desired, stored).await,
        };
        written.or_else(|failure| failed(&desired.identity, failure, stored.is_none()))
    }

    /// Deletes a subscription. If the server refuses it, the outcome says why.
    ///
    /// # Errors
    ///
    /// Returns an error after which further calls would fail as well, such as an unreachable server.
    pub(super) async fn delete(&self, identity: &Identity, stored: &Value) -> Result<Row, Failure> {
        let row = Row { id: stored["id"].as_i64(), ..Row::new(identity.clone(), Outcome::Delete) };
        if self.is_dry_run {
            return Ok(row);
        }
        let deleted = async {
            let (_, tag) = self.read(identity, stored).await?;
            self.server.call(&Call::delete(path(stored)?).when(Condition::IfMatch(tag))).await
        };
        match deleted.await {
            Ok(_) => Ok(row),
            Err(failure) => failed(identity, failure, false),
        }
    }

    async fn create(&self, desired: &Desired) -> Result<Row, Failure> {
        let mut row = Row::new(desired.identity.clone(), Outcome::Create);
        if self.is_dry_run {
            return Ok(row);
        }
        let created = self.send(desired, None, Condition::IfNoneMatch).await?;
        row.id = created["id"].as_i64();
        if created["secret"].is_string() && !desired.fields.contains_key("secret") {
            let id = table::cell(&created["id"]);
            row.notes.push(format!(
                "a signing secret was created, which is not shown here; `posthaste subscription rotate-secret {id}` \
                 replaces it and shows the new one"
            ));
        }
        Ok(row)
    }

    async fn change(&self, desired: &Desired, listed: &Value) -> Result<Row, Failure> {
        let row = |outcome, changed| Row {
            id: listed["id"].as_i64(),
            changed,
            ..Row::new(desired.identity.clone(), outcome)
        };
        let changed = self.changed(&self.completed(desired, listed), listed);
        if changed.is_empty() {
            return Ok(row(Outcome::Unchanged, changed));
        }
        if self.is_dry_run {
            return Ok(row(Outcome::Change, changed));
        }
        let (current, tag) = self.read(&desired.identity, listed).await?;
        let desired = self.completed(desired, &current);
        let changed = self.changed(&desired, &current);
        if changed.is_empty() {
            return Ok(row(Outcome::Unchanged, changed));
        }
        self.send(&desired, Some(&current), Condition::IfMatch(tag)).await?;
        Ok(row(Outcome::Change, changed))
    }

    /// Returns the subscription as it should be, including the fields that are kept.
    fn completed(&self, desired: &Desired, stored: &Value) -> Desired {
        match self.undescribed {
            Undescribed::Reset => desired.clone(),
            Undescribed::Keep => Desired {
                identity: desired.identity.clone(),
                fields: fields::completed(&desired.fields, stored),
            },
        }
    }

    /// Returns the names of the fields to write.
    fn changed(&self, desired: &Desired, stored: &Value) -> Vec<&'static str> {
        let mut changed = fields::changed(&desired.fields, stored);
        if self.secrets == Secrets::Write && fields::names_secrets(&desired.fields) {
            changed.push("secrets");
        }
        changed
    }

    /// Reads a subscription of the list again, with its ETag.
    async fn read(&self, identity: &Identity, listed: &Value) -> Result<(Value, String), Failure> {
        let (current, tag) = self.server.call_tagged(&Call::get(path(listed)?).required("id")).await?;
        match Identity::of(&current).as_ref() == Some(identity) {
            true => Ok((current, tag)),
            // Its uid was changed, which counts like any other concurrent change.
            false => Err(Failure::Refused { status: 412, text: String::new(), problem: None }),
        }
    }

    async fn send(
        &self,
        desired: &Desired,
        stored: Option<&Value>,
        condition: Condition,
    ) -> Result<Value, Failure> {
        let Identity { tenant, uid } = &desired.identity;
        let body = fields::body(tenant.as_deref(), &desired.fields, stored, self.secrets);
        let call = Call::put(format!("/v1/subscriptions/uid/{}", path_segment(uid)));
        let call = call.body(Value::from(body).to_string()).when(condition).required("id");
        Ok(self.server.call_json(&call).await?.1)
    }
}

/// Returns the path of a subscription.
pub(super) fn path(subscription: &Value) -> Result<String, Failure> {
    let id = subscription["id"].as_i64();
    let id =
        id.ok_or_else(|| Failure::Unreadable { text: "a subscription in the response has no id".to_owned() });
    Ok(format!("/v1/subscriptions/{}", id?))
}

/// Returns the outcome of a refused write, or the failure if it does not concern this subscription alone.
fn failed(identity: &Identity, failure: Failure, is_new: bool) -> Result<Row, Failure> {
    let reason = match &failure {
        Failure::Refused { status: 412, .. } if is_new => {
            "a subscription with this uid exists although the list did not have it: it was created meanwhile, or the \
             API key is bound to a tenant that this entry does not name; run the command again"
                .to_owned()
        }
        Failure::Refused { status: 412, .. } => {
            "it was changed since it was read, and is left as it is; run the command again".to_owned()
        }
        Failure::Refused { status: 400 | 404 | 409 | 413 | 422, problem: Some(_), .. } => failure.detail(),
        Failure::Refused { .. }
        | Failure::Local(_)
        | Failure::Usage(_)
        | Failure::Unreachable { .. }
        | Failure::Unreadable { .. } => return Err(failure),
    };
    Ok(Row::new(identity.clone(), Outcome::Fail).because(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn identity(tenant: Option<&str>, uid: &str) -> Identity {
        Identity { tenant: tenant.map(str::to_owned), uid: uid.to_owned() }
    }

    #[test]
    fn subscriptions_are_found_by_tenant_and_uid() {
        let mut stored = Stored::default();
        for item in [
            json!({"id": 1, "uid": "b", "tenant": "acme"}),
            json!({"id": 2, "uid": "a", "tenant": null}),
            json!({"id": 3, "uid": null}),
            json!({"id": 4, "uid": "a", "tenant": "acme"}),
        ] {
            stored.add(&item);
        }
        let ids: Vec<&Value> = stored.iter().map(|(_, item)| &item["id"]).collect();
        assert_eq!(ids, [2, 4, 1], "in the order of tenants and uids");
        assert_eq!(stored.without_uid, [3]);
        assert_eq!(stored.get(&identity(Some("acme"), "a")).map(|item| &item["id"]), Some(&4.into()));
        assert_eq!(stored.get(&identity(Some("other"), "a")), None);
    }

    #[test]
    fn refusals_concern_one_subscription_and_faults_all() {
        let refused = |status: u16, body: &str| Failure::from_response(status, body.as_bytes());
        for (failure, is_new, reason) in [
            (refused(412, r#"{"title":"No"}"#), true, Some("run the command again")),
            (refused(412, r#"{"title":"No"}"#), false, Some("changed since it was read")),
            (refused(422, r#"{"title":"Not valid","detail":"url"}"#), true, Some("Not valid: url")),
            (refused(404, "<html>"), true, None),
            (refused(401, r#"{"title":"No"}"#), true, None),
            (refused(503, r#"{"title":"No"}"#), true, None),
            (Failure::Unreachable { url: "u".to_owned(), why: "w".to_owned() }, true, None),
        ] {
            let row = failed(&identity(None, "a"), failure.clone(), is_new);
            let found = row.ok().and_then(|row| row.reason);
            assert_eq!(found.is_some(), reason.is_some(), "{failure:?}");
            assert!(found.unwrap_or_default().contains(reason.unwrap_or_default()), "{failure:?}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let fields = json!({"secret": "whsec_hush"}).as_object().cloned().expect("an object");
        let desired = Desired { identity: identity(Some("t"), "a"), fields };
        let printed = format!("{desired:?}");
        assert!(!printed.contains("hush") && printed.contains("secret"), "{printed}");
    }
}
