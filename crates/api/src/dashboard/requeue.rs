//! Requeues all dead letters that a filter finds: after a preview, in parts, each one request, so that the page
//! can tell how far it is; and then what became of the fresh deliveries.

use super::dead_letters::HERE;
use super::filter::Filter;
use super::form::Form;
use super::look::{DEAD_LETTERS, LOOKED_AT_MAX};
use super::page::{Layout, Shown, show as write};
use super::visitor::Visitor;
use crate::dead_letters::{self, REQUEUE_PAGES_NAMED, RequeuedMany};
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::Query;
use crate::state::{Api, ApiState};
use crate::time::Utc;
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};
use http::Uri;
use posthaste_core::audit::Actor;
use posthaste_core::event::EventType;
use posthaste_core::ports::{EXAMINED_MAX, ReaderStore as _, RequeuedFates, RequeuedRange, Stores};
use posthaste_core::{DeadLetterId, SubscriptionId, Timestamp};
use serde_json::Value;

const TEXTS: [&str; 4] = ["event_type", "since", "until", "cursor"];
const NUMBERS: [&str; 1] = ["subscription_id"];

#[derive(Debug, Template)]
#[template(path = "requeue.html")]
struct RequeuePage {
    around: Layout,
    filter: Filter,
    found: RequeuedMany,
    done: Done,
    /// A preview's count, of all its parts.
    counted: Counted,
}

/// What the parts of one preview counted so far. It goes from part to part.
#[derive(Debug, Default)]
struct Counted {
    matched: u64,
    looked_at: u64,
    /// The next part is sent for.
    goes_on: bool,
}

/// What all requests of one work did so far. It goes from form to form.
#[derive(Debug, Default)]
struct Done {
    /// When the first of them began.
    begun: String,
    /// How many there were to do, if the preview saw all of them.
    of: Option<u64>,
    looked_at: u64,
    requeued: u64,
    /// Letters that were found and not requeued: somebody did it before, or nothing could be sent.
    left: u64,
    /// The first and the last letter that got a fresh delivery.
    first: Option<i64>,
    last: Option<i64>,
}

impl Done {
    fn of(form: &Form) -> Self {
        let number = |name: &str| form.get(name).parse::<u64>();
        let id = |name: &str| form.get(name).parse::<i64>().ok();
        Self {
            begun: form.get("begun").to_owned(),
            of: number("of").ok(),
            looked_at: number("looked_at").unwrap_or_default(),
            requeued: number("requeued").unwrap_or_default(),
            left: number("left").unwrap_or_default(),
            first: id("first"),
            last: id("last"),
        }
    }

    fn add(&mut self, part: &RequeuedMany) {
        self.looked_at = self.looked_at.saturating_add(part.matched);
        self.requeued = self.requeued.saturating_add(part.requeued);
        self.left = self.left.saturating_add(part.already_requeued.saturating_add(part.subscription_deleted));
        self.first = self.first.or(part.ids.first().copied());
        self.last = part.ids.last().copied().or(self.last);
    }

    /// Where it is told what came of it.
    fn address(&self, form: &Form) -> String {
        let mut text = url::form_urlencoded::Serializer::new(format!("{HERE}/requeued?"));
        text.append_pair("left", &self.left.to_string()).append_pair("begun", &self.begun);
        for (name, id) in [("first", self.first), ("last", self.last)] {
            text.extend_pairs(id.map(|id| (name, id.to_string())));
        }
        for name in ["subscription_id", "event_type"] {
            text.extend_pairs(Some((name, form.get(name).trim())).filter(|(_, value)| !value.is_empty()));
        }
        text.finish()
    }
}

/// How many and which, before anything is done. What fails later is not among them: a receiver that goes on failing
/// would feed the work that it is fed by.
pub(crate) async fn preview<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(by): Extension<Actor>,
    uri: Uri,
) -> Shown {
    Query::of(&uri)?;
    let form = Form::of_query(&uri)?.or("until", &Utc(api.clock.now()).iso());
    let found = part(&api, by, &form, true).await?;
    let before = |name: &str| form.get(name).parse::<u64>().unwrap_or_default();
    let matched = before("matched").saturating_add(found.matched);
    let looked_at = before("looked_at").saturating_add(LOOKED_AT_MAX.into());
    let goes_on = found.next_cursor.is_some() && looked_at < EXAMINED_MAX.into();
    let of = found.next_cursor.is_none().then_some(matched);
    write(&RequeuePage {
        around: Layout::of(visitor, HERE),
        filter: Filter::filled(&DEAD_LETTERS, form, uri),
        found,
        done: Done { of, ..Done::default() },
        counted: Counted { matched, looked_at, goes_on },
    })
}

/// One part of the work; its page sends for the next.
pub(crate) async fn requeue<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(by): Extension<Actor>,
    Extension(form): Extension<Form>,
) -> Shown {
    let mut done = Done::of(&form);
    if done.begun.is_empty() {
        done.begun = Utc(api.clock.now()).iso();
    }
    let found = part(&api, by, &form, false).await?;
    done.add(&found);
    if found.next_cursor.is_none() {
        return Ok(Redirect::to(&done.address(&form)).into_response());
    }
    let filter = Filter::filled(&DEAD_LETTERS, form, Uri::default());
    let (around, counted) = (Layout::of(visitor, HERE), Counted::default());
    write(&RequeuePage { around, filter, found, done, counted })
}

async fn part<S: Stores>(
    api: &ApiState<S>,
    by: Actor,
    form: &Form,
    dry_run: bool,
) -> Result<RequeuedMany, Problem> {
    let mut body = form.as_body(&TEXTS, &NUMBERS);
    body.insert("dry_run".to_owned(), dry_run.into());
    let text = Value::Object(body).to_string();
    let (pages_max, examined_max) =
        if dry_run { (1, LOOKED_AT_MAX) } else { (REQUEUE_PAGES_NAMED, EXAMINED_MAX) };
    dead_letters::requeue_found(api, by, Fields::parse(&text)?, pages_max, examined_max).await
}

#[derive(Debug, Template)]
#[template(path = "requeued.html")]
struct RequeuedPage {
    around: Layout,
    /// Of all letters that were looked at so far.
    delivered: u64,
    waiting: u64,
    given_up: u64,
    /// Some of the letters that were looked at now have not ended.
    is_live: bool,
    left: u64,
    rest: Option<Rest>,
}

/// What is still to be looked at, and what goes there.
#[derive(Debug)]
struct Rest {
    fields: Vec<(&'static str, String)>,
}

/// What became of the deliveries that one work made.
pub(crate) async fn fates<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let form = Form::of_query(&uri)?;
    let mut query = Query::of(&uri)?;
    let mut number = |name: &str| query.take(name).and_then(|text| text.parse().ok()).unwrap_or_default();
    let (left, delivered, waiting, given_up): (u64, u64, u64, u64) =
        (number("left"), number("delivered"), number("waiting"), number("given_up"));
    let (first, last) = (query.get::<DeadLetterId>("first")?, query.get::<DeadLetterId>("last")?);
    let begun = query.get::<Timestamp>("begun")?;
    let subscription_id = query.get::<SubscriptionId>("subscription_id")?;
    let event_type = query.get::<EventType>("event_type")?;
    query.finish()?;
    let fates = match (first, last, begun) {
        (Some(first), Some(last), Some(since)) => {
            let range = RequeuedRange { first, last, since, subscription_id, event_type };
            api.reader.count_requeued(range).await?
        }
        (_, _, _) => RequeuedFates::default(),
    };
    let mut page = RequeuedPage {
        around: Layout::of(visitor, HERE),
        delivered: delivered.saturating_add(fates.delivered.into()),
        waiting: waiting.saturating_add(fates.waiting.into()),
        given_up: given_up.saturating_add(fates.given_up.into()),
        is_live: fates.waiting > 0,
        left,
        rest: None,
    };
    page.rest = fates.reached.filter(|reached| last.is_some_and(|last| *reached < last)).map(|reached| {
        let fields = [
            ("first", reached.get().saturating_add(1).to_string()),
            ("last", last.map_or_else(String::new, |last| last.to_string())),
            ("begun", begun.map_or_else(String::new, |begun| Utc(begun).iso())),
            ("subscription_id", form.get("subscription_id").to_owned()),
            ("event_type", form.get("event_type").to_owned()),
            ("left", left.to_string()),
            ("delivered", page.delivered.to_string()),
            ("waiting", page.waiting.to_string()),
            ("given_up", page.given_up.to_string()),
        ];
        Rest { fields: fields.into_iter().filter(|(_, value)| !value.is_empty()).collect() }
    });
    write(&page)
}

impl RequeuedPage {
    const fn requeued(&self) -> u64 {
        // The address of the page holds the numbers, and anybody can write an address.
        self.delivered.saturating_add(self.waiting).saturating_add(self.given_up)
    }
}
