//! The pages for a bulk requeue of dead letters: a preview with the count, then one request per part so that the page
//! can show progress, and finally the outcomes of the new deliveries.

use super::dead_letters::HERE;
use super::filter::Filter;
use super::form::Form;
use super::lists::{DEAD_LETTERS, ROWS_EXAMINED_MAX};
use super::page::{Layout, Shown, show as write};
use super::visitor::Visitor;
use crate::auth::Scope;
use crate::dead_letters::{self, REQUEUE_PAGES_NAMED, RequeuedMany};
use crate::fields::Fields;
use crate::problem::Problem;
use crate::query::Query;
use crate::state::{Api, ApiState};
use crate::time::{self, Utc};
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

const TEXTS: [&str; 5] = ["tenant", "event_type", "since", "until", "cursor"];
const NUMBERS: [&str; 1] = ["subscription_id"];

#[derive(Debug, Template)]
#[template(path = "requeue.html")]
struct RequeuePage {
    layout: Layout,
    filter: Filter,
    found: RequeuedMany,
    totals: Totals,
    /// The counts of the preview so far.
    preview: PreviewCount,
}

impl RequeuePage {
    /// Returns the value of the field `since` or `until` for display.
    fn time_text(&self, name: &str) -> String {
        let text = self.filter.get(name);
        time::parse(text).map_or_else(|| text.to_owned(), |at| format!("{} UTC", Utc(at).short()))
    }
}

/// The counts of a preview so far. The form passes them to the next request.
#[derive(Debug, Default)]
struct PreviewCount {
    matched: u64,
    examined: u64,
    /// Whether the page requests the next part.
    continues: bool,
}

/// The totals of a bulk requeue so far. The form passes them to the next request.
#[derive(Debug, Default)]
struct Totals {
    /// The start time of the first request.
    started: String,
    /// The number of matching dead letters; `None` if the preview did not count all of them.
    of: Option<u64>,
    examined: u64,
    requeued: u64,
    /// The number of dead letters that had already been requeued or whose subscription was deleted.
    skipped: u64,
    /// The id of the first dead letter that was requeued.
    first: Option<i64>,
    /// The id of the last dead letter that was requeued.
    last: Option<i64>,
}

impl Totals {
    fn of(form: &Form) -> Self {
        let number = |name: &str| form.get(name).parse::<u64>();
        let id = |name: &str| form.get(name).parse::<i64>().ok();
        Self {
            started: form.get("started").to_owned(),
            of: number("of").ok(),
            examined: number("examined").unwrap_or_default(),
            requeued: number("requeued").unwrap_or_default(),
            skipped: number("skipped").unwrap_or_default(),
            first: id("first"),
            last: id("last"),
        }
    }

    fn add(&mut self, part: &RequeuedMany) {
        self.examined = self.examined.saturating_add(part.matched);
        self.requeued = self.requeued.saturating_add(part.requeued);
        let skipped = part.already_requeued.saturating_add(part.subscription_deleted);
        self.skipped = self.skipped.saturating_add(skipped);
        self.first = self.first.or(part.ids.first().copied());
        self.last = part.ids.last().copied().or(self.last);
    }

    /// Returns the URL of the page that shows the outcomes.
    fn address(&self, form: &Form) -> String {
        let mut text = url::form_urlencoded::Serializer::new(format!("{HERE}/requeued?"));
        text.append_pair("skipped", &self.skipped.to_string()).append_pair("started", &self.started);
        for (name, id) in [("first", self.first), ("last", self.last)] {
            text.extend_pairs(id.map(|id| (name, id.to_string())));
        }
        for name in ["subscription_id", "event_type"] {
            text.extend_pairs(Some((name, form.get(name).trim())).filter(|(_, value)| !value.is_empty()));
        }
        text.finish()
    }
}

/// Shows the number of matching dead letters and their ids. Sets the current time as the end of the filter, so that
/// deliveries which fail again during the requeue are not requeued in an endless loop.
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
    let examined = before("examined").saturating_add(ROWS_EXAMINED_MAX.into());
    let continues = found.next_cursor.is_some() && examined < EXAMINED_MAX.into();
    let of = found.next_cursor.is_none().then_some(matched);
    write(&RequeuePage {
        layout: Layout::of(visitor, HERE),
        filter: Filter::filled(&DEAD_LETTERS, form, uri),
        found,
        totals: Totals { of, ..Totals::default() },
        preview: PreviewCount { matched, examined, continues },
    })
}

/// Requeues one part. The resulting page requests the next part; the last part redirects to the outcomes.
pub(crate) async fn requeue<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    Extension(by): Extension<Actor>,
    Extension(form): Extension<Form>,
) -> Shown {
    let mut totals = Totals::of(&form);
    if totals.started.is_empty() {
        totals.started = Utc(api.clock.now()).iso();
    }
    let found = part(&api, by, &form, false).await?;
    totals.add(&found);
    if found.next_cursor.is_none() {
        return Ok(Redirect::to(&totals.address(&form)).into_response());
    }
    let filter = Filter::filled(&DEAD_LETTERS, form, Uri::default());
    let (layout, preview) = (Layout::of(visitor, HERE), PreviewCount::default());
    write(&RequeuePage { layout, filter, found, totals, preview })
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
        if dry_run { (1, ROWS_EXAMINED_MAX) } else { (REQUEUE_PAGES_NAMED, EXAMINED_MAX) };
    let fields = Fields::parse(&text)?;
    dead_letters::requeue_found(api, by, &Scope::default(), fields, pages_max, examined_max).await
}

#[derive(Debug, Template)]
#[template(path = "requeued.html")]
struct RequeuedPage {
    layout: Layout,
    /// The number of new deliveries that succeeded, in all parts so far.
    delivered: u64,
    /// The number of new deliveries that are unfinished, in all parts so far.
    unfinished: u64,
    /// The number of new deliveries that were dead-lettered, in all parts so far.
    dead_lettered: u64,
    /// Whether some deliveries of the current part are unfinished.
    is_live: bool,
    skipped: u64,
    rest: Option<Rest>,
}

/// The form fields of the request for the next part.
#[derive(Debug)]
struct Rest {
    fields: Vec<(&'static str, String)>,
}

/// Shows the outcomes of the deliveries created by a bulk requeue.
pub(crate) async fn show_results<S: Stores>(
    State(api): Api<S>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Shown {
    let form = Form::of_query(&uri)?;
    let mut query = Query::of(&uri)?;
    let mut number = |name: &str| query.take(name).and_then(|text| text.parse().ok()).unwrap_or_default();
    let (skipped, delivered, unfinished, dead_lettered): (u64, u64, u64, u64) =
        (number("skipped"), number("delivered"), number("unfinished"), number("dead_lettered"));
    let (first, last) = (query.get::<DeadLetterId>("first")?, query.get::<DeadLetterId>("last")?);
    let started = query.get::<Timestamp>("started")?;
    let subscription_id = query.get::<SubscriptionId>("subscription_id")?;
    let event_type = query.get::<EventType>("event_type")?;
    query.finish()?;
    let fates = match (first, last, started) {
        (Some(first), Some(last), Some(since)) => {
            let range = RequeuedRange { first, last, since, subscription_id, event_type };
            api.reader.count_requeued(range).await?
        }
        (_, _, _) => RequeuedFates::default(),
    };
    let mut page = RequeuedPage {
        layout: Layout::of(visitor, HERE),
        delivered: delivered.saturating_add(fates.delivered.into()),
        unfinished: unfinished.saturating_add(fates.waiting.into()),
        dead_lettered: dead_lettered.saturating_add(fates.given_up.into()),
        is_live: fates.waiting > 0,
        skipped,
        rest: None,
    };
    page.rest = fates.reached.filter(|reached| last.is_some_and(|last| *reached < last)).map(|reached| {
        let fields = [
            ("first", reached.get().saturating_add(1).to_string()),
            ("last", last.map_or_else(String::new, |last| last.to_string())),
            ("started", started.map_or_else(String::new, |started| Utc(started).iso())),
            ("subscription_id", form.get("subscription_id").to_owned()),
            ("event_type", form.get("event_type").to_owned()),
            ("skipped", skipped.to_string()),
            ("delivered", page.delivered.to_string()),
            ("unfinished", page.unfinished.to_string()),
            ("dead_lettered", page.dead_lettered.to_string()),
        ];
        Rest { fields: fields.into_iter().filter(|(_, value)| !value.is_empty()).collect() }
    });
    write(&page)
}

impl RequeuedPage {
    const fn requeued(&self) -> u64 {
        // The numbers come from the URL, which the client controls.
        self.delivered.saturating_add(self.unfinished).saturating_add(self.dead_lettered)
    }
}
