//! Stores events from the API, each external id once, for many callers in one batch; a trigger queues them for the
//! router. A caller's open transaction delays the batch for a bounded time only, and an invalid request does not
//! affect the others.

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
/// Limits of one statement, in bytes and events. A larger batch uses several statements; a request is never split.
const GROUP_BYTES_MAX: usize = 16 << 20;
const GROUP_EVENTS_MAX: usize = 5_000;
/// Largest request, in bytes. The protocol is limited to 1 GiB, and the server holds a request twice.
const REQUEST_BYTES_MAX: usize = 256 << 20;
/// Lock timeout of a statement for several requests.
const WAIT_TOGETHER: Duration = Duration::from_millis(100);
/// Lock timeout of a request that is retried alone, and the total time for all of those in one call. After that, the
/// lock timeout is 1 ms.
const WAIT_ALONE: Duration = Duration::from_millis(50);
const WAIT_ALONE_IN_ALL: Duration = Duration::from_millis(1_000);
/// Total time for the last retry of all requests that were blocked so far. It is long enough for another batch with
/// the same ids to commit, but not for a caller that keeps its transaction open.
const WAIT_LAST_IN_ALL: Duration = Duration::from_millis(400);

/// Port of the role event_ingest_writer.
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

/// One call: its requests and their outcomes so far.
struct Batch<'a> {
    pool: &'a RolePool,
    requests: &'a [IngestRequest],
    now: Timestamp,
    outcomes: Vec<Option<RequestOutcome>>,
    /// Whether events without an external id were stored. Repeating the call would store them again, so a later
    /// failure must not be reported as "not done".
    stored_once: bool,
    waited_alone: Duration,
    /// Requests that were blocked by another open transaction so far.
    held: Vec<usize>,
}

/// Indexes of requests that are stored by one statement.
type Group = Vec<usize>;

/// The result of storing a group.
struct Stored {
    answers: Vec<Answer>,
    /// `false` if the transaction was rolled back because of a conflict.
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

    /// Stores requests that do not conflict with each other, then those that have different content for an external
    /// id of the first. One round is enough unless callers use the same new id for two contents.
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

    /// Sets the outcome of requests that are empty, too large or conflict with themselves; returns the others.
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

    /// Splits off the requests that have different content for an external id of an earlier request.
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

    /// Refuses requests that conflict with events that are stored by now, in as few statements as the sizes allow;
    /// returns the others.
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
                // The first conflict. `reduce` consumes the iterator, so that the next request starts at its own
                // events.
                match conflicts.reduce(|first, _| first) {
                    Some(conflict) => self.note(index, RequestOutcome::Conflict(conflict)),
                    None => rest.push(index),
                }
            }
        }
        Ok(rest)
    }

    async fn run(&mut self, mut groups: Vec<Group>) -> StoreResult<()> {
        // Groups are popped from the end, so that the parts of a split group keep their position.
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

    /// Retries the blocked requests after all others were stored.
    async fn retry_blocked(&mut self) -> StoreResult<()> {
        let began = Clock::now();
        for index in std::mem::take(&mut self.held) {
            let left = WAIT_LAST_IN_ALL.saturating_sub(began.elapsed());
            match self.store_group(&[index], left).await {
                // A single request is either stored or refused, so there is no rest.
                Ok(stored) => drop(self.settle(&[index], stored)),
                Err(Fault::Refused(cause)) => self.note(index, RequestOutcome::Refused(plain(&*cause))),
                Err(Fault::Locked(_) | Fault::Clash(_)) => self.note(index, RequestOutcome::Blocked),
                Err(fault) => return Err(self.to_error(fault, &[index])),
            }
        }
        Ok(())
    }

    /// Splits requests into as few statements as the sizes allow.
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

    /// Splits a group that ran into a lock: requests without external ids cannot be blocked and stay together, the
    /// others are stored one by one. The order is reversed, see [`Self::run`].
    fn unblocked_first(&self, group: &[usize]) -> Vec<Group> {
        let (free, named): (Vec<usize>, Vec<usize>) =
            group.iter().copied().partition(|&index| self.requests[index].iter().all(is_unnamed));
        let mut groups: Vec<Group> = named.into_iter().rev().map(|index| vec![index]).collect();
        if !free.is_empty() {
            groups.push(free);
        }
        groups
    }

    /// Stores a group. A request with several events, at least one of them with an external id, needs a transaction
    /// that can be rolled back: a conflict of one event refuses all of them. A single event in conflict is not inserted
    /// in the first place.
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

    /// Sets the outcomes of a group; returns the requests that are neither stored nor in conflict, because the
    /// transaction was rolled back for another request.
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

    /// Converts a fault to an error. Once a part of the batch is stored that cannot be repeated, "not done" would be
    /// wrong, so such an error becomes `OutcomeUnknown`.
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

/// Returns the approximate size of a request in a statement, in bytes.
fn size_of(request: &IngestRequest) -> usize {
    request.iter().map(|event| event.payload.as_str().len() + 500).sum()
}

fn halves(mut group: Group) -> [Group; 2] {
    let second = group.split_off(group.len() / 2);
    [second, group]
}

/// Converts a fault of the comparison after an insert: the insert is committed, so "not done" becomes `Lost`.
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

/// Returns the server's message without the text that the driver adds.
fn plain(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let said = cause.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error);
    said.map_or_else(|| cause.to_string(), |db| db.message().to_owned())
}
