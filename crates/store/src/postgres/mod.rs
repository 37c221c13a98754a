//! The PostgreSQL store (version 15 and later), for many processes on many machines. [`roles`] has one module per role,
//! each with a connection pool that has the rights of the role; [`conn`] contains pools, sessions, errors and values;
//! [`migrate`] creates the schema, and [`database_roles`] the roles.

mod conn;
mod database_roles;
mod lock_wait;
mod migrate;
mod roles;

pub use conn::connect::{check_url, user_and_database};
pub use conn::listen::PostgresListener;
pub use conn::monitor::{ConnectFailure, ConnectedServer, ConnectionMonitor, TlsSession, Verified};
pub use conn::options::PostgresOptions;
pub use conn::password::PasswordSource;
pub use conn::pool::PoolStatus;
pub use conn::scratch::{create_database, drop_database, url_with_database, vacuum_database};
pub use database_roles::{AdministratorSql, LoginRoles, MigrateOptions, RoleSource};
pub use migrate::{MIGRATIONS, MigrateReport, migrate, migrate_with};
pub use roles::announce::PostgresAnnouncer;
pub use roles::cleaner::PostgresCleaner;
pub use roles::dead_letter::PostgresDeadLetters;
pub use roles::ingest::PostgresIngest;
pub use roles::insight::PostgresInsight;
pub use roles::key::PostgresKeys;
pub use roles::orchestrator::PostgresOrchestrator;
pub use roles::outbox_intake::PostgresOutboxIntake;
pub use roles::outbox_worker::PostgresOutboxWorker;
pub use roles::presence::PostgresPresence;
pub use roles::reader::PostgresReader;
pub use roles::router::PostgresRouter;
pub use roles::subscriptions::PostgresSubscriptions;
pub use roles::worker::PostgresWorker;

use crate::RolePrefix;
use crate::grants::DbRole;
use crate::remote::{Call, Fault};
use conn::pool::RolePool;
use conn::session::Session;
use conn::value::instant;
use database_roles::record::{self, RoleRecord};
use posthaste_core::Timestamp;
use posthaste_core::ports::{Cause, ClockSample, StoreError, StoreResult, Stores};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio_postgres::error::SqlState;

/// The connection pools of all roles. Only startup code and tests use it directly; a component gets a single port.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pools: Arc<Pools>,
}

#[derive(Debug)]
struct Pools {
    /// The role whose pool serves the calls that every process makes.
    home: DbRole,
    /// The roles that this process uses.
    roles: Vec<DbRole>,
    /// Whether all roles use one login.
    shares_login: bool,
    monitor: ConnectionMonitor,
    /// The prefix of the roles, or `None` if the database has no roles.
    prefix: Option<RolePrefix>,
    event_ingest_writer: RolePool,
    subscription_admin: RolePool,
    router_worker: RolePool,
    saga_orchestrator: RolePool,
    job_worker: RolePool,
    lease_cleaner: RolePool,
    dead_letter_operator: RolePool,
    outbox_writer: RolePool,
    outbox_worker: RolePool,
    key_keeper: RolePool,
    viewer: RolePool,
    /// Unused, because only applications use this role.
    event_publisher: RolePool,
}

impl Pools {
    const fn of(&self, role: DbRole) -> &RolePool {
        match role {
            DbRole::EventIngestWriter => &self.event_ingest_writer,
            DbRole::SubscriptionAdmin => &self.subscription_admin,
            DbRole::RouterWorker => &self.router_worker,
            DbRole::SagaOrchestrator => &self.saga_orchestrator,
            DbRole::JobWorker => &self.job_worker,
            DbRole::LeaseCleaner => &self.lease_cleaner,
            DbRole::DeadLetterOperator => &self.dead_letter_operator,
            DbRole::OutboxWriter => &self.outbox_writer,
            DbRole::OutboxWorker => &self.outbox_worker,
            DbRole::KeyKeeper => &self.key_keeper,
            DbRole::Viewer => &self.viewer,
            DbRole::EventPublisher => &self.event_publisher,
        }
    }
}

/// Counts the connections of a [`PostgresStore`].
#[derive(Debug, Clone)]
pub struct PoolMonitor(Weak<Pools>);

impl PoolMonitor {
    /// Returns the number of connections of each role that the process uses, or an empty list after the store has been
    /// dropped.
    pub fn status(&self) -> Vec<(DbRole, PoolStatus)> {
        let Some(pools) = self.0.upgrade() else { return Vec::new() };
        pools.roles.iter().filter_map(|role| Some((*role, pools.of(*role).status()?))).collect()
    }
}

impl PostgresStore {
    /// Creates the pools and checks that the database has the schema of this version, or a newer one that is marked as
    /// compatible with it. Every role of this process must have a login. Ports of other roles can be created, but their
    /// calls fail if the role has no login.
    pub async fn connect(options: &PostgresOptions) -> StoreResult<Self> {
        let Some(home) = options.roles.first().copied() else {
            return Err(StoreError::Unusable { what: "this process has no role in the database".to_owned() });
        };
        if let Some(role) = options.roles.iter().copied().find(|role| options.login(*role).is_none()) {
            return Err(conn::options::no_login(role));
        }
        let prefix = role_prefix(options, home).await?;
        let pool = |role| RolePool::new(role, options, prefix.as_ref());
        let pools = Pools {
            home,
            roles: options.roles.clone(),
            shares_login: options.role_urls.is_empty(),
            monitor: options.monitor.clone(),
            event_ingest_writer: pool(DbRole::EventIngestWriter)?,
            subscription_admin: pool(DbRole::SubscriptionAdmin)?,
            router_worker: pool(DbRole::RouterWorker)?,
            saga_orchestrator: pool(DbRole::SagaOrchestrator)?,
            job_worker: pool(DbRole::JobWorker)?,
            lease_cleaner: pool(DbRole::LeaseCleaner)?,
            dead_letter_operator: pool(DbRole::DeadLetterOperator)?,
            outbox_writer: pool(DbRole::OutboxWriter)?,
            outbox_worker: pool(DbRole::OutboxWorker)?,
            key_keeper: pool(DbRole::KeyKeeper)?,
            viewer: pool(DbRole::Viewer)?,
            event_publisher: pool(DbRole::EventPublisher)?,
            prefix,
        };
        let store = Self { pools: Arc::new(pools) };
        store.check_poolers(options).await?;
        store.check_schema().await?;
        Ok(store)
    }

    /// Checks the connections of each login once.
    async fn check_poolers(&self, options: &PostgresOptions) -> StoreResult<()> {
        let mut checked = BTreeSet::new();
        for role in &options.roles {
            if options.login(*role).is_some_and(|login| checked.insert(login.url)) {
                let outcome = self.pool(*role).check_pooler().await;
                outcome.map_err(|fault| fault.into_error("connecting to the database", true))?;
            }
        }
        Ok(())
    }

    fn pool(&self, role: DbRole) -> RolePool {
        self.pools.of(role).clone()
    }

    /// Returns a handle with which the connections of this store can be counted. It does not keep them open.
    pub fn pool_monitor(&self) -> PoolMonitor {
        PoolMonitor(Arc::downgrade(&self.pools))
    }

    fn home_pool(&self) -> RolePool {
        self.pool(self.pools.home)
    }

    /// Returns the port that notifies other processes. Every role may use it.
    pub fn announcer(&self) -> PostgresAnnouncer {
        PostgresAnnouncer::new(self)
    }

    async fn check_schema(&self) -> StoreResult<()> {
        let call = Call::repeatable("checking the schema");
        let read = |mut session: Session| async move { session.read(migrate::APPLIED, &[]).await };
        match self.home_pool().call(call, read).await {
            Ok(rows) => migrate::check(&rows),
            Err(StoreError::Refused { doing, source }) => match code_of(&source) {
                // The table or the schema does not exist.
                Some(code) if [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].contains(code) => {
                    Err(migrate::never_migrated())
                }
                Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                    Err(cannot_read_schema(self.pools.home, self.pools.prefix.as_ref()))
                }
                Some(_) | None => Err(StoreError::Refused { doing, source }),
            },
            Err(error) => Err(error),
        }
    }
}

fn code_of(cause: &Cause) -> Option<&SqlState> {
    cause.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code)
}

/// Reads which roles the database was migrated for, on a connection without a role. Returns their prefix, or `None` if
/// the database has no roles. A database without a record was migrated by version 0.1, or not at all.
async fn role_prefix(options: &PostgresOptions, home: DbRole) -> StoreResult<Option<RolePrefix>> {
    let configured = &options.role_prefix;
    let call = Call::repeatable("reading the roles of the database");
    let pool = RolePool::new(home, options, None)?;
    let found = call.run(|| async { record::read_simply(&pool.session().await?).await }).await;
    match call.conclude(found)? {
        Some(RoleRecord::None) => Ok(None),
        Some(RoleRecord::Prefix(prefix)) if prefix != *configured => {
            Err(record::mismatch(&prefix, configured))
        }
        Some(RoleRecord::Prefix(_)) | None => Ok(Some(configured.clone())),
    }
}

/// Returns the error for a login that may not read the schema: either the rights were never granted, or the login is
/// not a member of the role, or the database has no roles and the login is not the owner.
fn cannot_read_schema(role: DbRole, prefix: Option<&RolePrefix>) -> StoreError {
    let what = match prefix.map(|prefix| prefix.role(role)) {
        Some(name) => format!(
            "the login of the role {name} may not read the schema: run `posthaste migrate` first, or \
             grant {name} to the login"
        ),
        None => {
            "this login may not read the schema: the database was migrated with --roles none, so use the \
                 login that migrated it"
                .to_owned()
        }
    };
    StoreError::Unusable { what }
}

impl Stores for PostgresStore {
    type Ingest = PostgresIngest;
    type Subscriptions = PostgresSubscriptions;
    type Router = PostgresRouter;
    type Orchestrator = PostgresOrchestrator;
    type Worker = PostgresWorker;
    type Cleaner = PostgresCleaner;
    type DeadLetters = PostgresDeadLetters;
    type OutboxIntake = PostgresOutboxIntake;
    type OutboxWorker = PostgresOutboxWorker;
    type Keys = PostgresKeys;
    type Reader = PostgresReader;
    type Insight = PostgresInsight;
    type Presence = PostgresPresence;

    fn ingest(&self) -> Self::Ingest {
        PostgresIngest::new(self)
    }

    fn subscriptions(&self) -> Self::Subscriptions {
        PostgresSubscriptions::new(self)
    }

    fn router(&self) -> Self::Router {
        PostgresRouter::new(self)
    }

    fn orchestrator(&self) -> Self::Orchestrator {
        PostgresOrchestrator::new(self)
    }

    fn worker(&self) -> Self::Worker {
        PostgresWorker::new(self)
    }

    fn cleaner(&self) -> Self::Cleaner {
        PostgresCleaner::new(self)
    }

    fn dead_letters(&self) -> Self::DeadLetters {
        PostgresDeadLetters::new(self)
    }

    fn outbox_intake(&self) -> Self::OutboxIntake {
        PostgresOutboxIntake::new(self)
    }

    fn outbox_worker(&self) -> Self::OutboxWorker {
        PostgresOutboxWorker::new(self)
    }

    fn keys(&self) -> Self::Keys {
        PostgresKeys::new(self)
    }

    fn reader(&self) -> Self::Reader {
        PostgresReader::new(self)
    }

    fn insight(&self) -> Self::Insight {
        PostgresInsight::new(self)
    }

    fn presence(&self) -> Self::Presence {
        PostgresPresence::new(self)
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        let now = |mut session: Session| async move { read_time(&mut session).await };
        self.home_pool().call(Call::repeatable("reading the time"), now).await
    }

    async fn sample_clock(&self) -> StoreResult<ClockSample> {
        self.home_pool().call(Call::repeatable("sampling the clock"), sample_clock).await
    }
}

/// Number of queries per clock sample. The one with the shortest round trip is used.
const SAMPLE_QUERIES: u32 = 5;

/// Samples the clock of the server. The connection is already acquired, so only the queries are timed. The first query
/// also prepares the statement, so one of the later queries is normally faster.
async fn sample_clock(mut session: Session) -> Result<ClockSample, Fault> {
    let mut best = timed_query(&mut session).await?;
    for _ in 1..SAMPLE_QUERIES {
        let sample = timed_query(&mut session).await?;
        if sample.round_trip < best.round_trip {
            best = sample;
        }
    }
    Ok(best)
}

async fn timed_query(session: &mut Session) -> Result<ClockSample, Fault> {
    let asked_at = Instant::now();
    let time = read_time(session).await?;
    Ok(ClockSample { time, asked_at, round_trip: asked_at.elapsed() })
}

async fn read_time(session: &mut Session) -> Result<Timestamp, Fault> {
    let rows = session.read("SELECT clock_timestamp()", &[]).await?;
    rows.first().map_or_else(
        || Err(Fault::Unreadable("the server returned no time".to_owned())),
        |row| instant(row, 0),
    )
}
