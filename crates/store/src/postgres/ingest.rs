//! Takes events in (from the API, many callers at once), each external id once; a trigger queues them
//! for the router. Never waits long for anybody's open transaction, and lets no bad request spoil the
//! others.

use crate::grants::Role;
use crate::postgres::PostgresStore;
use crate::postgres::error::Fault;
use crate::postgres::pool::{RolePool, Verb};
use crate::postgres::session::Session;
use crate::postgres::value::{Instant, Json, get};
use posthaste_core::event::NewEvent;
use posthaste_core::ports::{IngestRequest, IngestStore, Ingested, RequestOutcome, StoreError, StoreResult};
use posthaste_core::{EventId, Timestamp};
use std::collections::HashMap;
use std::time::{Duration, Instant as Clock};

const DOING: &str = "storing events";
/// How much one statement carries; more goes in several, a single request never.
const GROUP_BYTES_MAX: usize = 16 << 20;
const GROUP_EVENTS_MAX: usize = 5_000;
/// What one request may carry: the protocol ends at a gigabyte, and the server holds it twice.
const REQUEST_BYTES_MAX: usize = 256 << 20;
/// How long everybody together waits for somebody's open transaction.
const WAIT_TOGETHER: Duration = Duration::from_millis(100);
/// How long one request does afterwards, and how long all of those do in one call: then only those wait
/// on that turn out to be held.
const WAIT_ALONE: Duration = Duration::from_millis(50);
const WAIT_ALONE_IN_ALL: Duration = Duration::from_millis(1_000);
/// How long requests that were held so far wait once more at the end, all of them together. Another
/// batch with the same ids is done by then; a caller who does something else meanwhile is not.
const WAIT_LAST_IN_ALL: Duration = Duration::from_millis(400);

/// Port of the role event_ingest_writer.
#[derive(Debug, Clone)]
pub struct PostgresIngest {
    pool: RolePool,
}

impl PostgresIngest {
    pub(super) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(Role::EventIngestWriter) }
    }
}

impl IngestStore for PostgresIngest {
    async fn insert_events(
        &self,
        requests: Vec<IngestRequest>,
        now: Timestamp,
    ) -> StoreResult<Vec<RequestOutcome>> {
        let mut batch = Batch::new(&self.pool, &requests, now);
        batch.run().await?;
        Ok(batch.outcomes.into_iter().map(|outcome| outcome.unwrap_or(RequestOutcome::Blocked)).collect())
    }
}

/// One call: its requests, and what became of them so far.
struct Batch<'a> {
    pool: &'a RolePool,
    requests: &'a [IngestRequest],
    now: Timestamp,
    outcomes: Vec<Option<RequestOutcome>>,
    /// Something that cannot be repeated was stored already, so a later failure is no plain "not done".
    stored_once: bool,
    waited_alone: Duration,
    /// Requests that somebody's open transaction has held up so far.
    held: Vec<usize>,
}

/// Some requests, by their place in the batch, that go into one statement.
type Group = Vec<usize>;

impl<'a> Batch<'a> {
    fn new(pool: &'a RolePool, requests: &'a [IngestRequest], now: Timestamp) -> Self {
        let outcomes = vec![None; requests.len()];
        Self {
            pool,
            requests,
            now,
            outcomes,
            stored_once: false,
            waited_alone: Duration::ZERO,
            held: Vec::new(),
        }
    }

    async fn run(&mut self) -> StoreResult<()> {
        let mut groups = self.first_groups();
        // The last one is next, so parts of a group that was split keep their place in line.
        groups.reverse();
        while let Some(group) = groups.pop() {
            let alone = group.len() == 1;
            let began = Clock::now();
            match self.store_group(&group, self.patience(alone)).await {
                Ok(answers) => self.settle(&group, answers),
                Err(Fault::Refused(cause)) if alone => {
                    self.note(group[0], RequestOutcome::Refused(plain(&*cause)));
                }
                Err(Fault::Locked(_) | Fault::Clash(_)) if alone => self.held.push(group[0]),
                Err(Fault::Refused(_)) => groups.extend(halves(group)),
                Err(Fault::Locked(_) | Fault::Clash(_)) => groups.extend(self.unblocked_first(&group)),
                Err(fault) => return Err(self.give_up(fault, &group)),
            }
            if alone {
                self.waited_alone += began.elapsed();
            }
        }
        self.try_held().await
    }

    /// Once more, now that everybody else has been served.
    async fn try_held(&mut self) -> StoreResult<()> {
        let began = Clock::now();
        for index in std::mem::take(&mut self.held) {
            let left = WAIT_LAST_IN_ALL.saturating_sub(began.elapsed());
            match self.store_group(&[index], left).await {
                Ok(answers) => self.settle(&[index], answers),
                Err(Fault::Refused(cause)) => self.note(index, RequestOutcome::Refused(plain(&*cause))),
                Err(Fault::Locked(_) | Fault::Clash(_)) => self.note(index, RequestOutcome::Blocked),
                Err(fault) => return Err(self.give_up(fault, &[index])),
            }
        }
        Ok(())
    }

    /// As few statements as the sizes allow; what is empty or too large is answered here.
    fn first_groups(&mut self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let (mut bytes, mut events) = (0, 0);
        for (index, request) in self.requests.iter().enumerate() {
            let size: usize = request.iter().map(|event| event.payload.as_str().len() + 500).sum();
            if request.is_empty() {
                self.note(index, RequestOutcome::Stored(Vec::new()));
                continue;
            }
            if size > REQUEST_BYTES_MAX {
                let reason = format!("a request may carry {REQUEST_BYTES_MAX} bytes at most, not {size}");
                self.note(index, RequestOutcome::Refused(reason));
                continue;
            }
            let fits = bytes + size <= GROUP_BYTES_MAX && events + request.len() <= GROUP_EVENTS_MAX;
            match groups.last_mut() {
                Some(group) if fits => group.push(index),
                Some(_) | None => {
                    groups.push(vec![index]);
                    (bytes, events) = (0, 0);
                }
            }
            bytes += size;
            events += request.len();
        }
        groups
    }

    fn patience(&self, alone: bool) -> Duration {
        if !alone {
            WAIT_TOGETHER
        } else if self.waited_alone < WAIT_ALONE_IN_ALL {
            WAIT_ALONE
        } else {
            Duration::from_millis(1)
        }
    }

    /// Behind a lock that somebody holds: requests without external ids cannot be waiting for it and go
    /// together, the others each for itself. In reverse, see [`Self::run`].
    fn unblocked_first(&self, group: &[usize]) -> Vec<Group> {
        let (free, named): (Vec<usize>, Vec<usize>) =
            group.iter().copied().partition(|&index| self.requests[index].iter().all(is_unnamed));
        let mut groups: Vec<Group> = named.into_iter().rev().map(|index| vec![index]).collect();
        if !free.is_empty() {
            groups.push(free);
        }
        groups
    }

    async fn store_group(&self, group: &[usize], patience: Duration) -> Result<Vec<Ingested>, Fault> {
        let events: Vec<&NewEvent> = group.iter().flat_map(|&index| &self.requests[index]).collect();
        let rows = Rows::arrange(&events);
        let idempotent = !events.iter().any(|event| is_unnamed(event));
        let verb = if idempotent { Verb::repeatable(DOING) } else { Verb::once(DOING) };
        let mut ids =
            self.pool.attempts(verb, |session| insert(session, &events, &rows, self.now, patience)).await?;
        let known = rows.missing(&events, &ids);
        if !known.is_empty() {
            let find = |session| find_known(session, &known);
            let found = self.pool.attempts(Verb::repeatable(DOING), find).await.map_err(after_insert)?;
            ids.extend(found);
        }
        rows.answers(&events, &ids)
    }

    fn settle(&mut self, group: &[usize], answers: Vec<Ingested>) {
        let mut answers = answers.into_iter();
        for &index in group {
            let request = &self.requests[index];
            self.stored_once |= request.iter().any(is_unnamed);
            let own = answers.by_ref().take(request.len()).collect();
            self.note(index, RequestOutcome::Stored(own));
        }
    }

    fn note(&mut self, index: usize, outcome: RequestOutcome) {
        self.outcomes[index] = Some(outcome);
    }

    /// "Nothing was done" would be a lie once a part of the batch is stored that cannot be repeated.
    fn give_up(&self, fault: Fault, group: &[usize]) -> StoreError {
        let idempotent = group.iter().all(|&index| !self.requests[index].iter().any(is_unnamed));
        let error = fault.into_error(DOING, idempotent);
        if !self.stored_once {
            return error;
        }
        match error {
            StoreError::Unavailable { doing, source }
            | StoreError::Busy { doing, source }
            | StoreError::Full { doing, source } => StoreError::OutcomeUnknown { doing, source },
            StoreError::OutcomeUnknown { .. }
            | StoreError::Refused { .. }
            | StoreError::Unreadable { .. }
            | StoreError::Unusable { .. } => error,
        }
    }
}

fn is_unnamed(event: &NewEvent) -> bool {
    event.external_event_id.is_none()
}

fn halves(mut group: Group) -> [Group; 2] {
    let second = group.split_off(group.len() / 2);
    [second, group]
}

/// The insert is committed by now, whatever happens to the look behind it.
fn after_insert(fault: Fault) -> Fault {
    match fault {
        Fault::Away(cause) | Fault::TimedOut(cause) | Fault::Clash(cause) | Fault::Locked(cause) => {
            Fault::Lost(cause)
        }
        Fault::Lost(_) | Fault::Full(_) | Fault::Refused(_) | Fault::Unreadable(_) | Fault::Unusable(_) => {
            fault
        }
    }
}

/// What the server said, without the driver's words around it.
fn plain(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let said = cause.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error);
    said.map_or_else(|| cause.to_string(), |db| db.message().to_owned())
}

/// Ids of the rows that a statement stored or found.
#[derive(Default)]
struct Ids {
    /// Of rows without an external id, rising: in the order in which they were inserted.
    unnamed: Vec<i64>,
    new: HashMap<String, i64>,
    known: HashMap<String, i64>,
}

impl Ids {
    fn extend(&mut self, found: HashMap<String, i64>) {
        self.known.extend(found);
    }
}

/// The events of a group in the order in which they are inserted: those without an external id as they
/// came, then each external id once, sorted, so that two batches never wait for each other in a circle.
struct Rows {
    order: Vec<usize>,
}

impl Rows {
    fn arrange(events: &[&NewEvent]) -> Self {
        let mut order: Vec<usize> = (0..events.len()).filter(|&i| is_unnamed(events[i])).collect();
        let mut named: Vec<usize> = (0..events.len()).filter(|&i| !is_unnamed(events[i])).collect();
        named.sort_by_key(|&i| (&events[i].external_event_id, i));
        named.dedup_by_key(|i| &events[*i].external_event_id);
        order.extend(named);
        Self { order }
    }

    fn missing<'e>(&self, events: &[&'e NewEvent], ids: &Ids) -> Vec<&'e str> {
        let names = self.order.iter().filter_map(|&i| events[i].external_event_id.as_ref());
        names.map(|name| name.as_str()).filter(|name| !ids.new.contains_key(*name)).collect()
    }

    /// One answer for each event, in the order of the input. Of equal external ids the first is new.
    fn answers(&self, events: &[&NewEvent], ids: &Ids) -> Result<Vec<Ingested>, Fault> {
        let mut unnamed = ids.unnamed.iter();
        let mut first_of: HashMap<&str, usize> = HashMap::new();
        let mut answers = Vec::with_capacity(events.len());
        for (index, event) in events.iter().enumerate() {
            let Some(name) = event.external_event_id.as_ref().map(|name| name.as_str()) else {
                let id = unnamed.next().ok_or_else(|| lost_row("without an external id"))?;
                answers.push(Ingested::New(EventId::from_store(*id)));
                continue;
            };
            let first = *first_of.entry(name).or_insert(index);
            let answer = match (ids.new.get(name), ids.known.get(name)) {
                (Some(id), _) if first == index => Ingested::New(EventId::from_store(*id)),
                (Some(id), _) | (None, Some(id)) => Ingested::Duplicate(EventId::from_store(*id)),
                (None, None) => return Err(lost_row(name)),
            };
            answers.push(answer);
        }
        Ok(answers)
    }
}

fn lost_row(name: &str) -> Fault {
    Fault::Unreadable(format!("the event {name:?} was neither stored nor found"))
}

async fn insert(
    mut session: Session,
    events: &[&NewEvent],
    rows: &Rows,
    now: Timestamp,
    patience: Duration,
) -> Result<Ids, Fault> {
    let picked = || rows.order.iter().map(|&index| events[index]);
    let types: Vec<&str> = picked().map(|event| event.event_type.as_str()).collect();
    let payloads: Vec<Json<'_>> = picked().map(|event| Json(event.payload.as_str())).collect();
    let names: Vec<Option<&str>> =
        picked().map(|event| event.external_event_id.as_ref().map(|text| text.as_str())).collect();
    let correlations: Vec<Option<&str>> =
        picked().map(|event| event.correlation_id.as_ref().map(|text| text.as_str())).collect();
    let traces: Vec<Option<&str>> =
        picked().map(|event| event.traceparent.as_ref().map(|text| text.as_str())).collect();
    let patience = format!("{}ms", patience.as_millis().max(1));
    let sql = include_str!("sql/ingest/insert_events.sql");
    let answer = session
        .run(sql, &[&types, &payloads, &names, &correlations, &traces, &Instant(now), &patience])
        .await?;
    let mut ids = Ids::default();
    for row in &answer {
        let id = get(row, 0)?;
        match get::<Option<String>>(row, 1)? {
            Some(name) => drop(ids.new.insert(name, id)),
            None => ids.unnamed.push(id),
        }
    }
    ids.unnamed.sort_unstable();
    Ok(ids)
}

async fn find_known(mut session: Session, names: &[&str]) -> Result<HashMap<String, i64>, Fault> {
    let rows = session.read(include_str!("sql/ingest/find_events.sql"), &[&names]).await?;
    rows.iter().map(|row| Ok((get(row, 1)?, get(row, 0)?))).collect()
}
