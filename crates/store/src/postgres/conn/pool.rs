//! One connection pool per database role. A role with its own URL uses that login; with the common URL, every new
//! connection executes SET ROLE first. Connections are created on demand, and broken ones are replaced, so a pool
//! survives server restarts.

use crate::Observer;
use crate::grants::DbRole;
use crate::postgres::conn::error::classify_pool;
use crate::postgres::conn::options::{Login, PostgresOptions, no_login_text};
use crate::postgres::conn::session::Session;
use crate::remote::{Call, Fault};
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use posthaste_core::ports::{StoreError, StoreResult};
use std::future::Future;
use std::time::Duration;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};

/// TCP user timeout and keepalive idle time, after which an unreachable server is detected.
const DEAD_PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// Parses a database URL. Returns an error for unsupported options.
pub(crate) fn parse_url(url: &str, program: &str, timeout: Duration) -> StoreResult<Config> {
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        let cause = error.into_source().map_or_else(String::new, |source| format!(": {source}"));
        StoreError::Unusable { what: format!("the URL of the PostgreSQL database cannot be read{cause}") }
    })?;
    // Stricter modes require TLS, which is not supported.
    if ![SslMode::Disable, SslMode::Prefer].contains(&config.get_ssl_mode()) {
        return Err(StoreError::Unusable {
            what: "the URL of the PostgreSQL database has sslmode=require, but this version of Posthaste \
                   does not support TLS to PostgreSQL: use sslmode=prefer or disable on a trusted \
                   network, or a local tunnel"
                .to_owned(),
        });
    }
    config.application_name(program);
    config.connect_timeout(timeout);
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(DEAD_PEER_TIMEOUT);
    }
    config.keepalives_idle(DEAD_PEER_TIMEOUT);
    Ok(config)
}

/// Returns the TLS connector used for all connections. TLS is not supported.
pub(crate) const fn connector() -> NoTls {
    NoTls
}

/// The connection pool of one role. Connections are opened on demand, so an unused role costs nothing and needs no URL.
#[derive(Clone)]
pub(crate) struct RolePool {
    role: DbRole,
    pool: Option<Pool>,
    observer: Observer,
}

impl std::fmt::Debug for RolePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RolePool").field("role", &self.role).finish_non_exhaustive()
    }
}

impl RolePool {
    pub(crate) fn new(role: DbRole, options: &PostgresOptions) -> StoreResult<Self> {
        let program = format!("posthaste {}", role.name());
        let pool = options.login(role).map(|login| build(login, &program, options)).transpose()?;
        Ok(Self { role, pool, observer: options.observer.clone() })
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
        let attempt = || async move { run(self.session().await?).await };
        self.observer.time(self.role, call.run(attempt)).await
    }
}

fn build(login: Login<'_>, program: &str, options: &PostgresOptions) -> StoreResult<Pool> {
    let config = parse_url(login.url, program, options.connect_timeout)?;
    let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, connector(), manager_config);
    let mut builder = Pool::builder(manager)
        .max_size(options.connections_max.max(1))
        .wait_timeout(Some(options.wait_timeout))
        .create_timeout(Some(options.connect_timeout))
        .recycle_timeout(Some(options.connect_timeout))
        .runtime(Runtime::Tokio1)
        .pre_recycle(replan_periodically());
    if let Some(role) = login.takes_role {
        builder = builder.post_create(set_role(role));
    }
    builder.build().map_err(|error| StoreError::Unusable {
        what: format!("the connection pool cannot be created: {error}"),
    })
}

fn set_role(role: DbRole) -> Hook {
    Hook::async_fn(move |client, _| {
        Box::pin(async move {
            let statement = format!("SET ROLE {}", role.name());
            client.batch_execute(&statement).await.map_err(HookError::Backend)
        })
    })
}

/// Interval at which a connection discards its prepared statements.
const PLAN_AGE_MAX: Duration = Duration::from_secs(60);

/// Clears the cache of prepared statements periodically. A cached generic plan made for a small table may be very slow
/// once the table has grown. Statements are therefore prepared again at use 1, 4, 16, 64, … of a connection, because
/// new tables grow fastest, and once a minute.
fn replan_periodically() -> Hook {
    Hook::sync_fn(|client, metrics| {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match parse_url(url, "test", Duration::from_secs(1)) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn required_encryption_is_never_dropped_silently() {
        assert_eq!(refusal("postgres://a@b/c"), "");
        assert_eq!(refusal("postgres://a@b/c?sslmode=disable"), "");
        assert!(refusal("postgres://a@b/c?sslmode=require").contains("sslmode=require"));
        assert!(refusal("postgres://a@b/c?sslmode=verify-full").contains("cannot be read"));
    }
}
