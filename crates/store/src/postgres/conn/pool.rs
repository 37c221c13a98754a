//! One connection pool per database role. A role with its own URL uses that login; with the common URL, every new
//! connection executes SET ROLE first, unless the database has no roles. Connections are created on demand, and broken
//! ones are replaced, so a pool survives server restarts.

use crate::grants::DbRole;
use crate::postgres::conn::connect::Connector;
use crate::postgres::conn::error::classify_pool;
use crate::postgres::conn::failure::ConnectError;
use crate::postgres::conn::monitor::ConnectionMonitor;
use crate::postgres::conn::options::{Login, PostgresOptions, no_login_text};
use crate::postgres::conn::pooling::{self, Need};
use crate::postgres::conn::session::Session;
use crate::remote::{Call, Fault};
use crate::{Observer, RolePrefix};
use deadpool::Runtime;
use deadpool::managed::{self, Hook, Metrics, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use posthaste_core::ports::{StoreError, StoreResult};
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

/// The age at which a connection is replaced, so that renewed certificates and changed DNS entries take effect.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(3600);

/// The pool of connections with one login.
type Pool = managed::Pool<Manager>;

/// A connection of a pool.
pub(crate) struct PooledClient {
    client: ClientWrapper,
    /// The generation in which it was opened. See [`ConnectionMonitor::search_again`].
    generation: u64,
}

impl Deref for PooledClient {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.client
    }
}

/// Creates the connections of a pool.
pub(crate) struct Manager {
    monitor: ConnectionMonitor,
    connector: Connector,
    /// The statements that a new connection executes first.
    setup: Option<String>,
}

impl managed::Manager for Manager {
    type Type = PooledClient;
    type Error = ConnectError;

    async fn create(&self) -> Result<PooledClient, ConnectError> {
        let generation = *self.monitor.generation().borrow();
        let (client, transport) = self.connector.connect(self.setup.as_deref()).await?;
        // Every call on the connection reports the error, too.
        let task = tokio::spawn(async move {
            if let Err(error) = transport.await {
                let error: &dyn std::error::Error = &error;
                tracing::debug!(error, "connection to the database lost");
            }
        });
        Ok(PooledClient { client: ClientWrapper::new(client, task), generation })
    }

    async fn recycle(&self, client: &mut PooledClient, metrics: &Metrics) -> RecycleResult<ConnectError> {
        if client.is_closed() {
            return Err(RecycleError::message("the connection was closed"));
        }
        if client.generation != *self.monitor.generation().borrow() {
            return Err(RecycleError::message("the server is no longer the primary"));
        }
        if metrics.created.elapsed() > CONNECTION_AGE_MAX {
            return Err(RecycleError::message("the connection is old"));
        }
        Ok(())
    }
}

/// The number of connections in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStatus {
    pub idle: usize,
    pub in_use: usize,
    /// The number of calls that wait for a connection.
    pub waiting: usize,
}

/// The connection pool of one role. Connections are opened on demand, so an unused role costs nothing and needs no URL.
#[derive(Clone)]
pub(crate) struct RolePool {
    role: DbRole,
    pool: Option<Pool>,
    observer: Observer,
    monitor: ConnectionMonitor,
}

impl std::fmt::Debug for RolePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RolePool").field("role", &self.role).finish_non_exhaustive()
    }
}

impl RolePool {
    /// Creates the pool of a role. `prefix` is the prefix of the roles in the database, or `None` to keep the rights of
    /// the login.
    pub(crate) fn new(
        role: DbRole,
        options: &PostgresOptions,
        prefix: Option<&RolePrefix>,
    ) -> StoreResult<Self> {
        let program = format!("posthaste {}", role.name());
        let pool = options.login(role).map(|login| build(login, &program, options, prefix)).transpose()?;
        Ok(Self { role, pool, observer: options.observer.clone(), monitor: options.monitor.clone() })
    }

    /// Returns the number of connections, or `None` for a role without a URL.
    pub(crate) fn status(&self) -> Option<PoolStatus> {
        let status = self.pool.as_ref()?.status();
        let in_use = status.size.saturating_sub(status.available);
        Some(PoolStatus { idle: status.available, in_use, waiting: status.waiting })
    }

    /// Returns an error if the connections lead through a pooler that does not provide what this role needs.
    pub(crate) async fn check_pooler(&self) -> Result<(), Fault> {
        let Some(pool) = &self.pool else { return Ok(()) };
        let Manager { connector, setup, .. } = pool.manager();
        let need = if setup.is_some() { Need::Role } else { Need::Statements };
        pooling::check(connector, need).await
    }

    pub(crate) async fn session(&self) -> Result<Session, Fault> {
        let Some(pool) = &self.pool else {
            return Err(Fault::Unusable(no_login_text(self.role)));
        };
        pool.get().await.map(Session::new).map_err(classify_pool)
    }

    /// Runs a call on a pooled connection. Repeats it on another connection if the fault allows that.
    pub(crate) async fn call<T, F, Run>(&self, call: Call, run: Run) -> StoreResult<T>
    where
        Run: Fn(Session) -> F,
        F: Future<Output = Result<T, Fault>>,
    {
        call.conclude(self.attempts(call, run).await)
    }

    /// Runs a call in the same way as [`Self::call`], but returns the fault, for callers that handle some faults
    /// themselves.
    pub(crate) async fn attempts<T, F, Run>(&self, call: Call, run: Run) -> Result<T, Fault>
    where
        Run: Fn(Session) -> F,
        F: Future<Output = Result<T, Fault>>,
    {
        let run = &run;
        let attempt = || async move {
            let result = run(self.session().await?).await;
            if matches!(result, Err(Fault::ReadOnly(_))) {
                self.monitor.search_again();
            }
            result
        };
        self.observer.time(self.role, call.run(attempt)).await
    }
}

fn build(
    login: Login<'_>,
    program: &str,
    options: &PostgresOptions,
    prefix: Option<&RolePrefix>,
) -> StoreResult<Pool> {
    let connector = Connector::new(login.url, program, &options.monitor)?.with_password(&options.password)?;
    let role = login.takes_role.zip(prefix).map(|(role, prefix)| prefix.role(role));
    // Statements are short and their plans are kept, so compiling one takes longer than it ever saves. With a login of
    // its own, a role may be behind a pooler in transaction mode, where a setting would reach other clients.
    let setup = role.map(|role| format!("SET ROLE {role}; SET jit = off"));
    Pool::builder(Manager { monitor: options.monitor.clone(), connector, setup })
        .max_size(options.connections_max.max(1))
        .wait_timeout(Some(options.wait_timeout))
        .runtime(Runtime::Tokio1)
        .pre_recycle(replan_periodically())
        .build()
        .map_err(|error| StoreError::Unusable {
            what: format!("the connection pool cannot be created: {error}"),
        })
}

/// Interval at which a connection discards its prepared statements.
const PLAN_AGE_MAX: Duration = Duration::from_secs(60);

/// Clears the cache of prepared statements periodically. A cached generic plan made for a small table may be very slow
/// once the table has grown. Statements are therefore prepared again at use 1, 4, 16, 64, … of a connection, because
/// new tables grow fastest, and once a minute.
fn replan_periodically() -> Hook<Manager> {
    Hook::sync_fn(|client: &mut PooledClient, metrics| {
        let uses = metrics.recycle_count;
        let is_young = uses.is_power_of_two() && uses.ilog2() % 2 == 0;
        let minutes =
            |at: std::time::Instant| at.duration_since(metrics.created).as_secs() / PLAN_AGE_MAX.as_secs();
        let last = metrics.recycled.unwrap_or(metrics.created);
        if is_young || minutes(last) != minutes(std::time::Instant::now()) {
            client.statement_cache.clear();
        }
        Ok(())
    })
}
