//! Starts attempts of the sagas that the router made and that have come due, and applies what the
//! workers reported. Every decision is [`saga::step`]'s: here rows are read, it is asked, and its
//! answer is written down.

use crate::grants::Role;
use crate::postgres::PostgresStore;
use crate::postgres::error::Fault;
use crate::postgres::pool::{RolePool, Verb};
use crate::postgres::session::{Durability, Session};
use crate::postgres::value::{
    Instant, TAKE_MAX, count, count_or_none, error_code, get, instant, int, job_status, saga_status,
};
use posthaste_core::job::{JobOutcome, JobResult};
use posthaste_core::outcome::ErrorCode;
use posthaste_core::ports::{
    Admitted, AdmittedJob, AppliedResult, DueSince, DueSubscriptions, GivenUp, OrchestratorStore, Quota,
    RecentlyDue, RestartedWaits, ResultTake, StoreResult, WaitPage,
};
use posthaste_core::retry::{RetryPolicy, Wait};
use posthaste_core::saga::{self, Decision, Ignored, SagaState, Signal};
use posthaste_core::{EventId, JobId, SagaId, SubscriptionId, Timestamp};
use std::collections::{HashMap, HashSet};
use tokio_postgres::Row;

/// Port of the role saga_orchestrator.
#[derive(Debug, Clone)]
pub struct PostgresOrchestrator {
    pool: RolePool,
}

impl PostgresOrchestrator {
    pub(super) fn new(store: &PostgresStore) -> Self {
        Self { pool: store.pool(Role::SagaOrchestrator) }
    }
}

impl OrchestratorStore for PostgresOrchestrator {
    async fn find_due_subscriptions(
        &self,
        after: Option<SubscriptionId>,
        probes_max: u32,
        now: Timestamp,
    ) -> StoreResult<DueSubscriptions> {
        let verb = Verb::repeatable("looking for due subscriptions");
        self.pool.call(verb, |session| find_due(session, after, probes_max.max(1), now)).await
    }

    async fn find_recently_due(
        &self,
        since: Timestamp,
        sagas_max: u32,
        now: Timestamp,
    ) -> StoreResult<RecentlyDue> {
        let verb = Verb::repeatable("finding recently due deliveries");
        let sagas_max = sagas_max.clamp(1, TAKE_MAX);
        self.pool.call(verb, |session| find_recently_due(session, since, sagas_max, now)).await
    }

    async fn admit_due_sagas(
        &self,
        quotas: Vec<Quota>,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Admitted> {
        let verb = Verb::repeatable("admitting due deliveries");
        self.pool.call(verb, |session| admit(session, &quotas, policy, now)).await
    }

    async fn restart_waits(
        &self,
        page: WaitPage,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> StoreResult<RestartedWaits> {
        let verb = Verb::repeatable("restarting waits");
        let page = WaitPage { rows_max: page.rows_max.clamp(1, TAKE_MAX), ..page };
        self.pool.call(verb, |session| restart_waits(session, page, policy, now)).await
    }

    async fn apply_job_results(
        &self,
        take: ResultTake,
        policy: RetryPolicy,
        now: Timestamp,
    ) -> StoreResult<Vec<AppliedResult>> {
        let verb = Verb::repeatable("applying results of attempts");
        let mut applied = Vec::new();
        let mut wanted = take.results_max;
        while wanted > 0 {
            let part = ResultTake { results_max: wanted.min(TAKE_MAX), ..take };
            let (taken, results) = self.pool.call(verb, |session| apply(session, part, policy, now)).await?;
            wanted = if taken < part.results_max { 0 } else { wanted - taken };
            applied.extend(results);
        }
        Ok(applied)
    }

    async fn count_in_flight(
        &self,
        subscriptions: Vec<SubscriptionId>,
        count_max: u32,
    ) -> StoreResult<Vec<u32>> {
        if subscriptions.is_empty() {
            return Ok(Vec::new());
        }
        let verb = Verb::repeatable("counting deliveries in flight");
        self.pool.call(verb, |session| count_in_flight(session, &subscriptions, count_max)).await
    }
}

async fn find_due(
    mut session: Session,
    after: Option<SubscriptionId>,
    probes_max: u32,
    now: Timestamp,
) -> Result<DueSubscriptions, Fault> {
    let after = after.map_or(i64::MIN, SubscriptionId::get);
    let sql = include_str!("sql/orchestrator/find_due_subscriptions.sql");
    let rows = session.read(sql, &[&after, &int(probes_max), &Instant(now)]).await?;
    let mut found = DueSubscriptions::default();
    for row in &rows {
        let id = SubscriptionId::from_store(get(row, 0)?);
        if let Some(Instant(since)) = get(row, 1)? {
            found.due.push(DueSince { subscription_id: id, since });
        }
        found.next = found.next.max(Some(id));
    }
    found.due.sort_unstable();
    if rows.len() < probes_max as usize {
        found.next = None;
    }
    Ok(found)
}

async fn find_recently_due(
    mut session: Session,
    since: Timestamp,
    sagas_max: u32,
    now: Timestamp,
) -> Result<RecentlyDue, Fault> {
    let sql = include_str!("sql/orchestrator/find_recently_due.sql");
    let rows = session.read(sql, &[&Instant(since), &Instant(now), &int(sagas_max)]).await?;
    let mut found = RecentlyDue::default();
    // How many were read in each state, and the time of the last one.
    let mut read: HashMap<&str, (i64, Timestamp)> = HashMap::new();
    for row in &rows {
        let subscription_id = SubscriptionId::from_store(get(row, 1)?);
        found.due.push(DueSince { subscription_id, since: instant(row, 3)? });
        let (count, last) = read.entry(get(row, 0)?).or_insert((0, Timestamp::MIN));
        *count += get::<i64>(row, 2)?;
        *last = instant(row, 4)?.max(*last);
    }
    let ends = read.into_values().filter(|(count, _)| *count >= i64::from(sagas_max));
    found.until = ends.map(|(_, last)| last).min();
    found.due.sort_unstable();
    found.due.dedup_by_key(|due| due.subscription_id);
    Ok(found)
}

async fn restart_waits(
    mut session: Session,
    page: WaitPage,
    policy: RetryPolicy,
    now: Timestamp,
) -> Result<RestartedWaits, Fault> {
    let sql = include_str!("sql/orchestrator/list_waiting_sagas.sql");
    let rows = session.read(sql, &[&Instant(page.from), &int(page.rows_max)]).await?;
    let (mut sagas, mut was, mut until) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        let wait = Wait { since: instant(row, 1)?, until: instant(row, 2)? };
        if let Some(restarted) = policy.restarted_wait(wait, now) {
            sagas.push(get::<i64>(row, 0)?);
            was.push(Instant(wait.until));
            until.push(Instant(restarted));
        }
    }
    let last = rows.last().map(|row| instant(row, 2)).transpose()?;
    let mut restarted = 0;
    if !sagas.is_empty() {
        let sql = include_str!("sql/orchestrator/restart_waits.sql");
        restarted = session.run(sql, &[&sagas, &was, &until, &Instant(now)]).await?.len();
    }
    Ok(RestartedWaits::of_page(page, rows.len(), restarted, last))
}

async fn count_in_flight(
    mut session: Session,
    subscriptions: &[SubscriptionId],
    count_max: u32,
) -> Result<Vec<u32>, Fault> {
    let ids: Vec<i64> = subscriptions.iter().map(|id| id.get()).collect();
    let sql = include_str!("sql/orchestrator/count_in_flight.sql");
    let rows = session.read(sql, &[&ids, &int(count_max)]).await?;
    rows.iter().map(|row| Ok(u32::try_from(get::<i64>(row, 0)?).unwrap_or(u32::MAX))).collect()
}

/// What is decided over due sagas.
#[derive(Default)]
struct Admission {
    /// The event and the subscription of each saga.
    pair_of: HashMap<i64, (i64, i64)>,
    /// The saga of each job to create, the attempt, and whether the job is suspect.
    starts: Vec<(i64, Timestamp, bool)>,
    letters: Vec<i64>,
    fetched: Vec<DueSince>,
}

async fn admit(
    mut session: Session,
    quotas: &[Quota],
    policy: RetryPolicy,
    now: Timestamp,
) -> Result<Admitted, Fault> {
    // In the order of ids, and each once: two orchestrators that ask for the same take them alike.
    let mut quotas: Vec<Quota> = quotas.iter().filter(|quota| quota.jobs_max > 0).copied().collect();
    quotas.sort_unstable_by_key(|quota| quota.subscription_id);
    quotas.dedup_by_key(|quota| quota.subscription_id);
    if quotas.is_empty() {
        return Ok(Admitted::default());
    }
    let ids: Vec<i64> = quotas.iter().map(|quota| quota.subscription_id.get()).collect();
    let maxima: Vec<i32> = quotas.iter().map(|quota| int(quota.jobs_max)).collect();
    let from: Vec<Instant> =
        quotas.iter().map(|quota| Instant(quota.from.unwrap_or(Timestamp::MIN))).collect();
    let sql = include_str!("sql/orchestrator/take_due_sagas.sql");
    let rows = session.begin(Durability::Relaxed, sql, &[&ids, &maxima, &from, &Instant(now)]).await?;
    let admission = match decide_admission(&rows, policy, now) {
        Ok(admission) => admission,
        Err(fault) => return Err(undone(session, fault).await),
    };
    if admission.starts.is_empty() && admission.letters.is_empty() {
        session.roll_back().await?;
        return Ok(Admitted::default());
    }
    write_admission(session, admission, now).await
}

/// Lets go of what a transaction took, and hands on why.
async fn undone(mut session: Session, fault: Fault) -> Fault {
    // If this fails the connection is dropped, which undoes as well.
    let _ = session.roll_back().await;
    fault
}

fn decide_admission(rows: &[Row], policy: RetryPolicy, now: Timestamp) -> Result<Admission, Fault> {
    let mut due = rows.iter().map(due_saga).collect::<Result<Vec<DueSaga>, Fault>>()?;
    // Both waiting states come with the whole quota; the oldest of both count.
    due.sort_by_key(|saga| (saga.subscription_id, saga.state.next_attempt_at));
    let mut admission = Admission::default();
    let (mut subscription_id, mut admitted) = (None, 0);
    for saga in due {
        if subscription_id.replace(saga.subscription_id) != Some(saga.subscription_id) {
            admitted = 0;
        }
        if admitted >= saga.jobs_max {
            continue;
        }
        let policy = policy.with_limit(saga.limit);
        match saga::step(&saga.state, &Signal::Look, &policy, now) {
            Decision::StartAttempt { attempt_at, suspect } => {
                admission.starts.push((saga.id, attempt_at, suspect));
            }
            Decision::DeadLetter { .. } => admission.letters.push(saga.id),
            Decision::Complete { .. } | Decision::Retry { .. } | Decision::Ignore(_) => continue,
        }
        admitted += 1;
        if admitted == 1 {
            let subscription_id = SubscriptionId::from_store(saga.subscription_id);
            admission.fetched.push(DueSince { subscription_id, since: saga.state.next_attempt_at });
        }
        admission.pair_of.insert(saga.id, (saga.event_id, saga.subscription_id));
    }
    // Sagas are locked in the order of their ids wherever sets of them are.
    admission.starts.sort_unstable();
    admission.letters.sort_unstable();
    Ok(admission)
}

struct DueSaga {
    id: i64,
    event_id: i64,
    subscription_id: i64,
    state: SagaState,
    limit: Option<u32>,
    jobs_max: i32,
}

fn due_saga(row: &Row) -> Result<DueSaga, Fault> {
    Ok(DueSaga {
        id: get(row, 0)?,
        event_id: get(row, 8)?,
        subscription_id: get(row, 1)?,
        state: SagaState {
            status: saga_status(row, 2)?,
            attempt_count: count(row, 3)?,
            next_attempt_at: instant(row, 4)?,
            final_error_code: error_code(row, 5)?,
            current_job_id: None,
        },
        limit: count_or_none(row, 6)?,
        jobs_max: get(row, 7)?,
    })
}

async fn write_admission(
    mut session: Session,
    admission: Admission,
    now: Timestamp,
) -> Result<Admitted, Fault> {
    let Admission { pair_of, starts, letters, fetched } = admission;
    let sagas: Vec<i64> = starts.iter().map(|(saga_id, ..)| *saga_id).collect();
    let attempts: Vec<Instant> = starts.iter().map(|(_, attempt_at, _)| Instant(*attempt_at)).collect();
    let suspects: Vec<bool> = starts.iter().map(|(.., suspect)| *suspect).collect();
    let start = include_str!("sql/orchestrator/start_attempts.sql");
    let give_up = include_str!("sql/orchestrator/give_up_sagas.sql");
    let (made, ended) = if letters.is_empty() {
        (session.commit_with(start, &[&sagas, &attempts, &Instant(now), &suspects]).await?, Vec::new())
    } else {
        let made = session.go_on(start, &[&sagas, &attempts, &Instant(now), &suspects]).await?;
        (made, session.commit_with(give_up, &[&letters, &Instant(now)]).await?)
    };
    let pair = |saga_id: i64| {
        let pair = pair_of.get(&saga_id).copied();
        pair.map(|(event, subscription)| {
            (EventId::from_store(event), SubscriptionId::from_store(subscription))
        })
        .ok_or_else(|| Fault::Unreadable("a saga that was not taken".into()))
    };
    let mut admitted = Admitted { fetched, ..Admitted::default() };
    for row in &made {
        let saga_id = get(row, 1)?;
        let (event_id, subscription_id) = pair(saga_id)?;
        let (job_id, saga_id) = (JobId::from_store(get(row, 0)?), SagaId::from_store(saga_id));
        admitted.jobs.push(AdmittedJob { job_id, saga_id, event_id, subscription_id });
    }
    for row in &ended {
        let saga_id = get(row, 0)?;
        let (event_id, subscription_id) = pair(saga_id)?;
        let saga_id = SagaId::from_store(saga_id);
        admitted.dead_lettered.push(GivenUp { saga_id, event_id, subscription_id });
    }
    Ok(admitted)
}

/// Answers how many finished jobs were taken, and what the results did.
async fn apply(
    mut session: Session,
    take: ResultTake,
    policy: RetryPolicy,
    now: Timestamp,
) -> Result<(u32, Vec<AppliedResult>), Fault> {
    let from = take.from.map_or(i64::MIN, JobId::get);
    let sql = include_str!("sql/orchestrator/take_job_results.sql");
    let rows = session.begin(Durability::Flushed, sql, &[&from, &int(take.results_max)]).await?;
    if rows.is_empty() {
        session.roll_back().await?;
        return Ok((0, Vec::new()));
    }
    let taken = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let mut moves = match decide_results(&rows, policy, now) {
        Ok(moves) => moves,
        Err(fault) => return Err(undone(session, fault).await),
    };
    moves.rows.sort_unstable_by_key(|row| row.saga_id);
    let moved = write_results(session, &moves, now).await?;
    for result in &mut moves.results {
        if !matches!(result.decision, Decision::Ignore(_)) && !moved.contains(&result.job_id.get()) {
            result.decision = Decision::Ignore(Ignored::NotItsJob);
        }
    }
    Ok((taken, moves.results))
}

/// What is decided over finished jobs.
#[derive(Default)]
struct Moves {
    taken: Vec<i64>,
    rows: Vec<SagaMove>,
    results: Vec<AppliedResult>,
}

struct SagaMove {
    saga_id: i64,
    job_id: i64,
    state: SagaState,
}

fn decide_results(rows: &[Row], policy: RetryPolicy, now: Timestamp) -> Result<Moves, Fault> {
    let mut moves = Moves::default();
    for row in rows {
        let job_id: i64 = get(row, 0)?;
        moves.taken.push(job_id);
        let Some((result, saga_id)) = read_result(row, JobId::from_store(job_id))? else {
            continue;
        };
        let state = SagaState {
            status: saga_status(row, 7)?,
            attempt_count: count(row, 8)?,
            next_attempt_at: instant(row, 9)?,
            final_error_code: error_code(row, 10)?,
            current_job_id: get::<Option<i64>>(row, 11)?.map(JobId::from_store),
        };
        let policy = policy.with_limit(count_or_none(row, 13)?);
        let decision = saga::step(&state, &Signal::JobFinished(&result), &policy, now);
        moves.results.push(AppliedResult {
            job_id: result.job_id,
            saga_id: SagaId::from_store(saga_id),
            event_id: EventId::from_store(get(row, 5)?),
            subscription_id: SubscriptionId::from_store(get(row, 6)?),
            error_code: match result.outcome {
                JobOutcome::Completed => None,
                JobOutcome::Failed { error_code, .. } => Some(error_code),
            },
            decision: decision.clone(),
            saga_created_at: instant(row, 12)?,
        });
        if !matches!(decision, Decision::Ignore(_)) {
            let state = state.after(&decision, result.job_id);
            moves.rows.push(SagaMove { saga_id, job_id, state });
        }
    }
    Ok(moves)
}

/// The job and its saga's id; nothing if either is gone or the job has not ended, which only hands other
/// than ours can bring about.
fn read_result(row: &Row, job_id: JobId) -> Result<Option<(JobResult, i64)>, Fault> {
    let Some(saga_id) = get::<Option<i64>>(row, 4)? else {
        return Ok(None);
    };
    let outcome = JobOutcome::of_row(job_status(row, 1)?, error_code(row, 2)?, count_or_none(row, 3)?);
    Ok(outcome.map(|outcome| (JobResult { job_id, outcome }, saga_id)))
}

async fn write_results(mut session: Session, moves: &Moves, now: Timestamp) -> Result<HashSet<i64>, Fault> {
    let rows = &moves.rows;
    let sagas: Vec<i64> = rows.iter().map(|row| row.saga_id).collect();
    let jobs: Vec<i64> = rows.iter().map(|row| row.job_id).collect();
    let statuses: Vec<&str> = rows.iter().map(|row| row.state.status.as_str()).collect();
    let counts: Vec<i32> = rows.iter().map(|row| int(row.state.attempt_count)).collect();
    let times: Vec<Instant> = rows.iter().map(|row| Instant(row.state.next_attempt_at)).collect();
    let codes: Vec<Option<&str>> =
        rows.iter().map(|row| row.state.final_error_code.as_ref().map(ErrorCode::as_str)).collect();
    let sql = include_str!("sql/orchestrator/apply_job_results.sql");
    let answer = session
        .commit_with(sql, &[&sagas, &jobs, &statuses, &counts, &times, &codes, &moves.taken, &Instant(now)])
        .await?;
    let moved: Option<Vec<i64>> = answer.first().map(|row| get(row, 0)).transpose()?;
    Ok(moved.unwrap_or_default().into_iter().collect())
}
