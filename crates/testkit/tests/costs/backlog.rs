//! Tests that a backlog, hanging deliveries or suspects do not make other work more expensive. Costs are counted, not
//! timed. On PostgreSQL, the cost is the number of table and index buffers that one port call accesses, including
//! triggers and planning; on SQLite, it is the number of virtual machine steps of the call's statements.

use crate::sqlite::{count, fill, open};
use crate::statements::load;
use posthaste_core::SubscriptionId;
use posthaste_core::ports::{
    Claim, OrchestratorStore as _, Quota, ResultTake, Stores as _, WorkerStore as _,
};
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use posthaste_testkit::fixtures::{POLICY, T0, claim};
use posthaste_testkit::harness::SqliteFile;
use posthaste_testkit::postgres;
use rusqlite::Connection;
use rusqlite::types::Value;
use std::ops::RangeInclusive;
use tokio_postgres::Client;

const FEW: i64 = 100;
const MANY: i64 = 100_000;
/// The number of finished jobs in addition to the hanging ones.
const ENDED_COUNT: i64 = 100;
// The number of subscriptions in addition to the one with a backlog, and the quota of each.
const FAIR: i64 = 32;
const QUOTA: u32 = 16;

/// SQL that inserts sagas in progress whose jobs are leased and never finish. Placeholders are replaced for each
/// engine.
const HUNG: &str = "
    INSERT INTO webhook_delivery_sagas
        (id, event_id, subscription_id, status, next_attempt_at, current_job_id, created_at, updated_at) {ids}
        SELECT k, k, 1 + k % 10, 'InProgress', {past}, k, {past}, {past} FROM {numbers};
    INSERT INTO webhook_delivery_jobs
        (id, saga_id, status, lease_until, attempt_at, lease_token, worker_id, created_at) {ids}
        SELECT k, k, 'Leased', {future}, {past}, {token}, 'gone', {past} FROM {numbers};";
/// SQL that finishes the last hundred of the hanging jobs.
const ENDED: &str = "
    UPDATE webhook_delivery_jobs SET status = 'Completed', response_status = 200 WHERE id > {last} - 100;
    INSERT INTO finished_jobs (job_id) SELECT id FROM webhook_delivery_jobs WHERE id > {last} - 100;";
pub(crate) const SUBSCRIPTIONS: &str = "
    INSERT INTO subscriptions
        (id, event_type, event_types, callback_url, verified, secret_ref, secret, created_at, updated_at) {ids}
        SELECT k, 'kind', {types}, 'https://receiver.example/hook', {true}, {secret_ref}, 'secret', {past}, {past}
        FROM {numbers};";
/// SQL that inserts a backlog of due sagas for the last subscription, older than the forty of every other one.
const DUE: &str = "
    INSERT INTO webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at)
        SELECT k, 33, {past}, {past}, {past} FROM {numbers};";
const DUE_OF_OTHERS: &str = "
    INSERT INTO webhook_delivery_sagas (event_id, subscription_id, next_attempt_at, created_at, updated_at)
        SELECT 1000000 + k, 1 + k % 32, {now}, {past}, {past} FROM {numbers};";

/// SQL for PostgreSQL that inserts sagas in progress for one subscription, and as many that are due for a later retry.
const NOT_DUE: &str = "
    INSERT INTO webhook_delivery_sagas (event_id, subscription_id, status, next_attempt_at, created_at, updated_at)
        SELECT 2000000 + k, 1, 'InProgress', {past} + k * interval '1 ms', {past}, {past} FROM {numbers};
    INSERT INTO webhook_delivery_sagas (event_id, subscription_id, status, next_attempt_at, created_at, updated_at)
        SELECT 3000000 + k, 1, 'PendingRetry', {future} + k * interval '1 ms', {past}, {past} FROM {numbers};";

/// SQL that inserts pending suspects that are older than every normal job.
const SUSPECTS: &str = "
    INSERT INTO webhook_delivery_sagas
        (id, event_id, subscription_id, status, next_attempt_at, current_job_id, created_at, updated_at) {ids}
        SELECT 1000 + k, 1000 + k, 1 + k % 10, 'InProgress', {past}, 1000 + k, {past}, {past} FROM {numbers};
    INSERT INTO webhook_delivery_jobs (id, saga_id, lease_until, attempt_at, suspect, created_at) {ids}
        SELECT 1000 + k, 1000 + k, {past}, {past}, {true}, {past} FROM {numbers};";
const NORMAL_JOBS: &str = "
    INSERT INTO webhook_delivery_sagas
        (id, event_id, subscription_id, status, next_attempt_at, current_job_id, created_at, updated_at) {ids}
        SELECT k, k, 1 + k % 10, 'InProgress', {past}, k, {past}, {past} FROM {numbers};
    INSERT INTO webhook_delivery_jobs (id, saga_id, lease_until, attempt_at, created_at) {ids}
        SELECT k, k, {now}, {past}, {past} FROM {numbers};";

/// SQL that disables autovacuum, which would access counted pages and collect statistics where there must be none.
const NO_AUTOVACUUM: &str = "DO $$
    DECLARE name regclass;
    BEGIN
        FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'posthaste'::regnamespace AND relkind = 'r' LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
        END LOOP;
    END $$";

/// A PostgreSQL database that is filled with triggers disabled.
pub(crate) struct Server {
    url: String,
    pub(crate) client: Client,
}

impl Server {
    pub(crate) async fn with(name: &str, script: &[(&str, i64)]) -> Self {
        let url = postgres::migrated_database(name).await;
        let client = postgres::client(&postgres::as_admin(&url)).await;
        let begin = "SET search_path = posthaste; SET session_replication_role = replica;";
        client.batch_execute(begin).await.expect("a setting");
        client.batch_execute(NO_AUTOVACUUM).await.expect("a setting");
        let server = Self { url, client };
        server.fill(script).await;
        server
    }

    async fn fill(&self, script: &[(&str, i64)]) {
        for (part, count) in script {
            let numbers = format!("generate_series(1, {count}) k");
            let sql = part
                .replace("{ids}", "OVERRIDING SYSTEM VALUE")
                .replace("{numbers}", &numbers)
                .replace("{last}", &count.to_string())
                .replace("{past}", "timestamptz '2027-01-15 07:59:00Z'")
                .replace("{now}", "timestamptz '2027-01-15 08:00:00Z'")
                .replace("{future}", "timestamptz '2027-01-15 09:00:00Z'")
                .replace("{token}", "gen_random_uuid()")
                .replace("{secret_ref}", "gen_random_uuid()")
                .replace("{types}", "ARRAY['kind']")
                .replace("{true}", "true");
            self.client.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        self.client.batch_execute("VACUUM").await.expect("a vacuum");
    }

    /// Returns the number of pages that one call accesses.
    async fn pages<F: Future>(&self, call: impl FnOnce(PostgresStore) -> F) -> i64 {
        let before = self.touched().await;
        let store = PostgresStore::connect(&PostgresOptions::new(&self.url)).await.expect("the store");
        call(store).await;
        // A backend reports its statistics when it exits.
        let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        self.client.query(end, &[]).await.expect("the end");
        self.touched().await - before
    }

    async fn touched(&self) -> i64 {
        let sql = "SELECT (sum(heap_blks_hit + heap_blks_read) + sum(coalesce(idx_blks_hit + idx_blks_read, 0)))::bigint
            FROM pg_statio_user_tables WHERE schemaname = 'posthaste'";
        self.client.batch_execute("SELECT pg_stat_force_next_flush()").await.expect("the figures");
        self.client.query_one(sql, &[]).await.expect("the figures").get(0)
    }
}

async fn analyze(servers: &[&Server]) {
    for server in servers {
        server.client.batch_execute("ANALYZE").await.expect("statistics");
    }
}

/// A SQLite file that is filled with triggers disabled.
pub(crate) struct File {
    pub(crate) connection: Connection,
    _file: SqliteFile,
}

impl File {
    pub(crate) fn with(script: &[(&str, i64)]) -> Self {
        let file = SqliteFile::migrated();
        let connection = open(&file.path());
        let mut all = String::from(
            "CREATE TEMP TABLE numbers (k INTEGER PRIMARY KEY);
            INSERT INTO numbers WITH RECURSIVE counted (k) AS
                (VALUES (1) UNION ALL SELECT k + 1 FROM counted WHERE k < 100100) SELECT k FROM counted;",
        );
        for (part, count) in script {
            let sql = part
                .replace("{ids}", "")
                .replace("{numbers}", &format!("numbers WHERE k <= {count}"))
                .replace("{last}", &count.to_string())
                .replace("{past}", &(T0.micros() - 60_000_000).to_string())
                .replace("{now}", &T0.micros().to_string())
                .replace("{future}", &(T0.micros() + 3_600_000_000).to_string())
                .replace("{token}", "zeroblob(16)")
                .replace("{secret_ref}", "randomblob(16)")
                .replace("{types}", "'[\"kind\"]'")
                .replace("{true}", "1");
            all.push_str(&sql);
        }
        all.push_str("DROP TABLE numbers;");
        fill(&connection, &all);
        Self { connection, _file: file }
    }

    /// Returns the number of virtual machine steps of a statement, which must return `rows` rows.
    fn steps(&self, name: &str, arguments: &[i64], rows: usize) -> usize {
        self.steps_over(RangeInclusive::new(1, 0), name, arguments, rows)
    }

    /// Returns the number of virtual machine steps of a statement with an array of ids, which must return `rows` rows.
    fn steps_over(&self, ids: RangeInclusive<i64>, name: &str, arguments: &[i64], rows: usize) -> usize {
        let arguments: Vec<Value> = arguments.iter().map(|number| Value::Integer(*number)).collect();
        self.steps_with(name, &arguments, |_| ids.clone().map(Value::Integer).collect(), rows)
    }

    /// Returns the number of virtual machine steps of a statement with arrays, which must return `rows` rows. `list`
    /// returns the array at a place.
    pub(crate) fn steps_with(
        &self,
        name: &str,
        arguments: &[Value],
        list: impl Fn(usize) -> Vec<Value>,
        rows: usize,
    ) -> usize {
        let counted = count(&self.connection, &load("sqlite", name), arguments, list)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(counted.rows, rows, "{name}");
        counted.steps
    }
}

fn hung(count: i64) -> [(&'static str, i64); 3] {
    [(SUBSCRIPTIONS, 10), (HUNG, count + ENDED_COUNT), (ENDED, count + ENDED_COUNT)]
}

fn suspects(count: i64) -> [(&'static str, i64); 2] {
    [(NORMAL_JOBS, 200), (SUSPECTS, count)]
}

fn not_due(count: i64) -> [(&'static str, i64); 3] {
    [(SUBSCRIPTIONS, FAIR), (NOT_DUE, count), (DUE_OF_OTHERS, 40 * FAIR)]
}

fn fair(backlog: i64) -> [(&'static str, i64); 3] {
    [(SUBSCRIPTIONS, FAIR + 1), (DUE, backlog), (DUE_OF_OTHERS, 40 * FAIR)]
}

#[tokio::test]
async fn on_postgres_the_cost_of_a_result_is_independent_of_hanging_deliveries() {
    let few = Server::with("hung_few", &hung(FEW)).await;
    let many = Server::with("hung_many", &hung(MANY)).await;
    for statistics in ["no", "fresh"] {
        for results_max in [1, 40] {
            let apply = |store: PostgresStore| async move {
                let take = ResultTake { from: None, results_max };
                let applied =
                    store.orchestrator().apply_job_results(take, POLICY, T0).await.expect("results");
                assert_eq!(applied.len(), results_max as usize);
            };
            let (next_to_few, next_to_many) = (few.pages(apply).await, many.pages(apply).await);
            let found = format!(
                "{statistics} statistics, {results_max} results: {next_to_few} pages next to {FEW}, {next_to_many} next to {MANY}"
            );
            println!("{found}");
            assert!(next_to_many <= 2 * next_to_few, "{found}");
        }
        analyze(&[&few, &many]).await;
    }
}

#[test]
fn on_sqlite_the_cost_of_a_result_is_independent_of_hanging_deliveries() {
    let one_result = |count: i64| {
        let file = File::with(&hung(count));
        let job = count + 1;
        file.steps("orchestrator/fetch_job_results", &[0, 1], 1)
            + file.steps_over(job..=job, "orchestrator/complete_sagas", &[0, 1, T0.micros()], 0)
            + file.steps("orchestrator/delete_applied", &[job, job], 0)
    };
    let (next_to_few, next_to_many) = (one_result(FEW), one_result(MANY));
    println!("one result: {next_to_few} steps next to {FEW}, {next_to_many} next to {MANY}");
    assert!(next_to_many <= 2 * next_to_few, "{next_to_many} steps, {next_to_few} next to few");
}

#[tokio::test]
async fn on_postgres_the_cost_of_a_claim_is_independent_of_waiting_suspects() {
    let few = Server::with("suspects_few", &suspects(FEW)).await;
    let many = Server::with("suspects_many", &suspects(MANY)).await;
    for statistics in ["no", "fresh"] {
        let normal = |store: PostgresStore| async move {
            let claim = Claim { from: Some(T0), ..claim(32) };
            assert_eq!(store.worker().claim_due_jobs(claim, T0).await.expect("a claim").len(), 32);
        };
        let suspect = |store: PostgresStore| async move {
            assert!(store.worker().claim_suspect_job(claim(1), T0).await.expect("a claim").is_some());
        };
        for (what, next_to_few, next_to_many) in [
            ("32 normal jobs", few.pages(normal).await, many.pages(normal).await),
            ("one suspect", few.pages(suspect).await, many.pages(suspect).await),
        ] {
            let found =
                format!("{statistics} statistics, {what}: {next_to_few} pages, {next_to_many} next to many");
            println!("{found}");
            assert!(2 * next_to_many <= 3 * next_to_few, "{found}");
        }
        analyze(&[&few, &many]).await;
    }
}

#[test]
fn on_sqlite_the_cost_of_a_claim_is_independent_of_waiting_suspects() {
    let steps = |count: i64| {
        let (file, now) = (File::with(&suspects(count)), T0.micros());
        let normal = file.steps("worker/fetch_due_jobs", &[now, 32], 32);
        (normal, file.steps("worker/find_suspect_job", &[0], 1))
    };
    let (next_to_few, next_to_many) = (steps(FEW), steps(MANY));
    println!("normal jobs and one suspect: {next_to_few:?} steps, {next_to_many:?} next to many");
    assert_eq!(next_to_few, next_to_many);
}

#[tokio::test]
async fn on_postgres_admission_costs_no_more_next_to_a_backlog() {
    let alone = Server::with("fair_alone", &fair(0)).await;
    let beside = Server::with("fair_beside", &fair(MANY)).await;
    // Statistics were collected when the table contained only the backlog of one subscription.
    let misled = Server::with("fair_misled", &fair(MANY)[..2]).await;
    analyze(&[&misled]).await;
    misled.fill(&fair(MANY)[2..]).await;
    for statistics in ["no", "fresh"] {
        let find = |store: PostgresStore| async move {
            let found = store.orchestrator().find_due_subscriptions(None, 64, T0).await.expect("a look");
            assert!(found.due.len() >= FAIR as usize && found.next.is_none());
        };
        let admit = |store: PostgresStore| async move {
            let admitted =
                store.orchestrator().admit_due_sagas(quotas(), POLICY, T0).await.expect("admission");
            assert!(!admitted.jobs.is_empty());
        };
        let count = |store: PostgresStore| async move {
            let ids = (1..=FAIR).map(SubscriptionId::from_store).collect();
            let counts = store.orchestrator().count_in_flight(ids, 2048).await.expect("counts");
            assert!(counts.iter().all(|count| *count > 0));
        };
        let looks = (alone.pages(find).await, beside.pages(find).await, misled.pages(find).await);
        let admissions = (alone.pages(admit).await, beside.pages(admit).await, misled.pages(admit).await);
        let counts = (alone.pages(count).await, beside.pages(count).await, misled.pages(count).await);
        println!(
            "{statistics} statistics: pages alone, next to a backlog, and with misleading statistics: scan {looks:?}, \
             admission {admissions:?}, count {counts:?}"
        );
        for (without, with, misled) in [looks, admissions, counts] {
            let with = with.max(misled);
            assert!(2 * with <= 3 * without, "{with} pages next to a backlog, {without} without");
        }
        analyze(&[&alone, &beside]).await;
    }
}

#[tokio::test]
async fn on_postgres_admission_does_not_read_sagas_that_are_not_due() {
    let few = Server::with("not_due_few", &not_due(FEW)).await;
    let many = Server::with("not_due_many", &not_due(MANY)).await;
    for statistics in ["no", "fresh"] {
        let find = |store: PostgresStore| async move {
            let found = store.orchestrator().find_due_subscriptions(None, 64, T0).await.expect("a look");
            assert_eq!(found.due.len(), FAIR as usize);
        };
        let admit = |store: PostgresStore| async move {
            let quotas = vec![quotas().remove(0)];
            let admitted = store.orchestrator().admit_due_sagas(quotas, POLICY, T0).await.expect("admission");
            assert_eq!(admitted.jobs.len(), QUOTA as usize);
        };
        for (what, next_to_few, next_to_many) in [
            ("scan", few.pages(find).await, many.pages(find).await),
            ("admission", few.pages(admit).await, many.pages(admit).await),
        ] {
            let found =
                format!("{statistics} statistics, {what}: {next_to_few} pages, {next_to_many} next to many");
            println!("{found}");
            // The B-trees are one level higher.
            assert!(2 * next_to_many <= 3 * next_to_few, "{found}");
        }
        analyze(&[&few, &many]).await;
    }
}

#[test]
fn on_sqlite_admission_costs_no_more_next_to_a_backlog() {
    let (without, with) = (admission_steps(0), admission_steps(MANY));
    println!("steps alone and next to a backlog: {without:?}, {with:?}");
    // With a backlog, there is one more subscription to check.
    assert!(2 * with.0 <= 3 * without.0, "scan: {with:?} steps next to a backlog, {without:?} without");
    assert!(2 * with.1 <= 3 * without.1, "admission: {with:?} steps next to a backlog, {without:?} without");
}

/// Returns the number of steps to find due subscriptions, and to admit 500 sagas.
fn admission_steps(backlog: i64) -> (usize, usize) {
    let file = File::with(&fair(backlog));
    let now = T0.micros();
    let found = FAIR as usize + usize::from(backlog > 0);
    let look = file.steps("orchestrator/find_due_subscriptions", &[0, 64, now], found);
    let mut steps = 0;
    for id in 1..=FAIR {
        steps += file.steps("orchestrator/find_subscription", &[id], 1);
        steps += file.steps("orchestrator/fetch_due_sagas", &[id, now, QUOTA.into(), 0], QUOTA as usize);
    }
    let count = FAIR * i64::from(QUOTA);
    let sagas = backlog + 1..=backlog + count;
    steps += file.steps_over(sagas.clone(), "orchestrator/insert_jobs", &[0, now, 0], count as usize);
    steps += file.steps_over(sagas, "orchestrator/start_attempts", &[0, now], 0);
    (look, steps)
}

fn quotas() -> Vec<Quota> {
    let quota = |id| Quota { subscription_id: SubscriptionId::from_store(id), jobs_max: QUOTA, from: None };
    (1..=FAIR).map(quota).collect()
}
