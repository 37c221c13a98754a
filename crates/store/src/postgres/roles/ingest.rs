//! Stores batches of events from many API callers, one event per external id. A trigger queues the events for the
//! router. A lock held by another transaction delays a batch only for a bounded time, and an invalid request does not
//! affect other requests in the batch.

mod rows;
mod statements;

use crate::grants::DbRole;
use crate::postgres::PostgresStore;
use crate::postgres::conn::pool::RolePool;
use crate::remote::{Call, Fault};
use posthaste_core::Timestamp;
use posthaste_core::event::{ExternalEventId, NewEvent};
use posthaste_core::ports::{
    Conflict, IngestRequest, IngestStore, RequestOutcome, StoreError, StoreResult, find_own_conflict,
};
use rows::{Answer, Rows, is_unnamed};
use statements::{Storing, compare, insert};
use std::collections::HashMap;
use std::time::{Duration, Instant as Clock};

const DOING: &str = "storing events";
/// Maximum approximate size of one statement, in bytes. A larger batch is split into several statements, but a request
/// never is.
const GROUP_BYTES_MAX: usize = 16 << 20;
/// Maximum number of events in one statement, unless a single request has more.
const GROUP_EVENTS_MAX: usize = 5_000;
/// Maximum size of a request, in bytes. A protocol message is limited to 1 GiB, and the server holds a request in
/// memory twice.
const REQUEST_BYTES_MAX: usize = 256 << 20;
/// Lock timeout for a statement that stores several requests.
const WAIT_TOGETHER: Duration = Duration::from_millis(100);
/// Lock timeout for a statement that stores a single request.
const WAIT_ALONE: Duration = Duration::from_millis(50);
/// Time that one call may spend on statements that store a single request. After that, their lock timeout is 1 ms.
const WAIT_ALONE_IN_ALL: Duration = Duration::from_millis(1_000);
/// Total lock timeout for the final retry of all blocked requests. It is long enough for a concurrent batch with the
/// same external ids to commit, but not for a client that keeps its transaction open.
const WAIT_LAST_IN_ALL: Duration = Duration::from_millis(400);

/// The PostgreSQL implementation of [`IngestStore`], with the rights of the role `event_ingest_writer`.
#[derive(Debug, Clone)]
pub struct PostgresIngest {
    pool: RolePool,
}

impl PostgresIngest {
    pub(crate) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(DbRole::EventIngestWriter) }
    }
}

impl IngestStore for PostgresIngest {
    async fn insert_events(
        &self,
        requests: Vec<IngestRequest>,
        now: Timestamp,
    ) -> StoreResult<Vec<RequestOutcome>> {
        let mut batch = Batch::new(&self.pool, &requests, now);
        batch.run_rounds().await?;
        Ok(batch.outcomes.into_iter().map(|outcome| outcome.unwrap_or(RequestOutcome::Blocked)).collect())
    }
}

/// The state of one call to [`IngestStore::insert_events`]: the requests, and their outcomes so far.
struct Batch<'a> {
    pool: &'a RolePool,
    requests: &'a [IngestRequest],
    now: Timestamp,
    outcomes: Vec<Option<RequestOutcome>>,
    /// Whether events without an external id have been stored. Repeating the call would store them again, so a later
    /// error must not claim that nothing was stored.
    stored_once: bool,
    waited_alone: Duration,
    /// Indexes of the requests that a lock held by another transaction has blocked so far.
    held: Vec<usize>,
}

/// Indexes of the requests that one statement stores.
type Group = Vec<usize>;

/// The result of storing a group.
struct Stored {
    answers: Vec<Answer>,
    /// Whether the new rows are stored. `false` if the transaction was rolled back because of a conflict.
    is_stored: bool,
}

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

    /// Stores the requests in rounds. A request that has different content for an external id of an earlier request is
    /// deferred to the next round. One round suffices unless the batch contains such a request.
    async fn run_rounds(&mut self) -> StoreResult<()> {
        let mut waiting = self.settle_invalid();
        while !waiting.is_empty() {
            let later = self.split_off_other_contents(&mut waiting);
            let groups = self.first_groups(&waiting);
            self.run(groups).await?;
            waiting = self.refuse_known_conflicts(later).await?;
        }
        Ok(())
    }

    /// Sets the outcomes of requests that are empty, are too large or contain conflicting events. Returns the remaining
    /// requests.
    fn settle_invalid(&mut self) -> Group {
        let mut fit = Group::with_capacity(self.requests.len());
        for (index, request) in self.requests.iter().enumerate() {
            let size = size_of(request);
            if request.is_empty() {
                self.note(index, RequestOutcome::Stored(Vec::new()));
            } else if size > REQUEST_BYTES_MAX {
                let reason = format!("a request must be at most {REQUEST_BYTES_MAX} bytes, got {size}");
                self.note(index, RequestOutcome::Refused(reason));
            } else if let Some(place) = find_own_conflict(request) {
                self.note(index, RequestOutcome::Conflict(Conflict { place, first: None }));
            } else {
                fit.push(index);
            }
        }
        fit
    }

    /// Removes and returns the requests that have different content for an external id of an earlier request.
    fn split_off_other_contents(&self, waiting: &mut Group) -> Group {
        let requests = self.requests;
        let mut first_of: HashMap<&ExternalEventId, &NewEvent> = HashMap::new();
        let (fit, later) = waiting.drain(..).partition(|&index| {
            let named = || {
                requests[index].iter().filter_map(|event| Some((event.external_event_id.as_ref()?, event)))
            };
            let is_fit = named()
                .all(|(name, event)| first_of.get(name).is_none_or(|first| first.has_content_of(event)));
            if is_fit {
                for (name, event) in named() {
                    first_of.entry(name).or_insert(event);
                }
            }
            is_fit
        });
        *waiting = fit;
        later
    }

    /// Refuses the requests that conflict with stored events, comparing as many requests per statement as fit. Returns
    /// the remaining requests.
    async fn refuse_known_conflicts(&mut self, later: Group) -> StoreResult<Group> {
        let mut rest = Group::new();
        for group in self.first_groups(&later) {
            let requests = self.requests;
            let events: Vec<&NewEvent> = group.iter().flat_map(|&index| &requests[index]).collect();
            let look = |session| compare(session, &events);
            let known = self.pool.attempts(Call::repeatable(DOING), look).await;
            let mut known = known.map_err(|fault| self.to_error(fault, &group))?.into_iter();
            for index in group {
                let own = known.by_ref().take(requests[index].len());
                let conflicts =
                    own.enumerate().filter_map(|(place, known)| known.and_then(|k| k.conflict(place)));
                // `reduce` returns the first conflict but consumes the whole iterator, so that the next request starts
                // at its own events.
                match conflicts.reduce(|first, _| first) {
                    Some(conflict) => self.note(index, RequestOutcome::Conflict(conflict)),
                    None => rest.push(index),
                }
            }
        }
        Ok(rest)
    }

    async fn run(&mut self, mut groups: Vec<Group>) -> StoreResult<()> {
        // Used as a stack: the parts of a split group are stored before the remaining groups.
        groups.reverse();
        while let Some(group) = groups.pop() {
            let alone = group.len() == 1;
            let began = Clock::now();
            match self.store_group(&group, self.patience(alone)).await {
                Ok(stored) => {
                    let rest = self.settle(&group, stored);
                    groups.extend((!rest.is_empty()).then_some(rest));
                }
                Err(Fault::Refused(cause)) if alone => {
                    self.note(group[0], RequestOutcome::Refused(plain(&*cause)));
                }
                Err(Fault::Locked(_) | Fault::Clash(_)) if alone => self.held.push(group[0]),
                Err(Fault::Refused(_)) => groups.extend(halves(group)),
                Err(Fault::Locked(_) | Fault::Clash(_)) => groups.extend(self.unblocked_first(&group)),
                Err(fault) => return Err(self.to_error(fault, &group)),
            }
            if alone {
                self.waited_alone += began.elapsed();
            }
        }
        self.retry_blocked().await
    }

    /// Retries the blocked requests, one at a time, after all other requests have been stored.
    async fn retry_blocked(&mut self) -> StoreResult<()> {
        let began = Clock::now();
        for index in std::mem::take(&mut self.held) {
            let left = WAIT_LAST_IN_ALL.saturating_sub(began.elapsed());
            match self.store_group(&[index], left).await {
                // A single request is either stored or in conflict, so no request remains.
                Ok(stored) => drop(self.settle(&[index], stored)),
                Err(Fault::Refused(cause)) => self.note(index, RequestOutcome::Refused(plain(&*cause))),
                Err(Fault::Locked(_) | Fault::Clash(_)) => self.note(index, RequestOutcome::Blocked),
                Err(fault) => return Err(self.to_error(fault, &[index])),
            }
        }
        Ok(())
    }

    /// Splits requests into groups that each fit into one statement.
    fn first_groups(&self, waiting: &[usize]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let (mut bytes, mut events) = (0, 0);
        for &index in waiting {
            let request = &self.requests[index];
            let size = size_of(request);
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

    /// Splits a group that was blocked by a lock. Requests without external ids cannot be blocked and stay in one
    /// group; every other request gets its own group. Returns the groups in reverse order, see [`Self::run`].
    fn unblocked_first(&self, group: &[usize]) -> Vec<Group> {
        let (free, named): (Vec<usize>, Vec<usize>) =
            group.iter().copied().partition(|&index| self.requests[index].iter().all(is_unnamed));
        let mut groups: Vec<Group> = named.into_iter().rev().map(|index| vec![index]).collect();
        if !free.is_empty() {
            groups.push(free);
        }
        groups
    }

    /// Stores a group with one statement. If a request has several events and at least one external id, the statement
    /// runs in a transaction that can be rolled back, because a conflict of one event refuses the whole request. A
    /// conflicting event that is alone in its request is not inserted in the first place.
    async fn store_group(&self, group: &[usize], patience: Duration) -> Result<Stored, Fault> {
        let events: Vec<&NewEvent> = group.iter().flat_map(|&index| &self.requests[index]).collect();
        let rows = Rows::arrange(&events);
        let idempotent = !events.iter().any(|event| is_unnamed(event));
        let call = if idempotent { Call::repeatable(DOING) } else { Call::once(DOING) };
        let is_named_array = |request: &IngestRequest| request.len() > 1 && !request.iter().all(is_unnamed);
        let all_or_nothing = group.iter().any(|&index| is_named_array(&self.requests[index]));
        let storing = Storing { now: self.now, patience, all_or_nothing };
        let (mut ids, is_stored) =
            self.pool.attempts(call, |session| insert(session, &events, &rows, storing)).await?;
        if !all_or_nothing {
            let known = rows.missing(&events, &ids);
            if !known.is_empty() {
                let look = |session| compare(session, &known);
                let found = self.pool.attempts(Call::repeatable(DOING), look).await.map_err(after_insert)?;
                ids.extend(&known, found);
            }
        }
        Ok(Stored { answers: rows.answers(&events, &ids)?, is_stored })
    }

    /// Sets the outcomes of a group. Returns the requests that must be stored again because the transaction was rolled
    /// back for a conflict of another request.
    fn settle(&mut self, group: &[usize], stored: Stored) -> Group {
        let mut answers = stored.answers.into_iter();
        let mut rest = Group::new();
        for &index in group {
            let request = &self.requests[index];
            let own: Vec<Answer> = answers.by_ref().take(request.len()).collect();
            let conflict = own
                .iter()
                .enumerate()
                .find_map(|(place, answer)| answer.err().map(|first| Conflict { place, first: Some(first) }));
            if let Some(conflict) = conflict {
                self.note(index, RequestOutcome::Conflict(conflict));
            } else if stored.is_stored {
                self.stored_once |= request.iter().any(is_unnamed);
                self.note(index, RequestOutcome::Stored(own.into_iter().flatten().collect()));
            } else {
                rest.push(index);
            }
        }
        rest
    }

    fn note(&mut self, index: usize, outcome: RequestOutcome) {
        self.outcomes[index] = Some(outcome);
    }

    /// Converts a fault to an error. If events without an external id have been stored, returns `OutcomeUnknown`
    /// instead of an error that says that nothing was done.
    fn to_error(&self, fault: Fault, group: &[usize]) -> StoreError {
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

/// Returns the approximate number of bytes that a request adds to a statement.
fn size_of(request: &IngestRequest) -> usize {
    request.iter().map(|event| event.payload.as_str().len() + 500).sum()
}

fn halves(mut group: Group) -> [Group; 2] {
    let second = group.split_off(group.len() / 2);
    [second, group]
}

/// Converts a fault of a comparison that follows a committed insert. A fault that says that nothing was done becomes
/// `Lost`.
fn after_insert(fault: Fault) -> Fault {
    match fault {
        Fault::Away(cause)
        | Fault::ReadOnly(cause)
        | Fault::TimedOut(cause)
        | Fault::Clash(cause)
        | Fault::Locked(cause) => Fault::Lost(cause),
        Fault::Lost(_) | Fault::Full(_) | Fault::Refused(_) | Fault::Unreadable(_) | Fault::Unusable(_) => {
            fault
        }
    }
}

/// Returns the server's message without the text that the driver adds.
fn plain(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let said = cause.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error);
    said.map_or_else(|| cause.to_string(), |db| db.message().to_owned())
}
