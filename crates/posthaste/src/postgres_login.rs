//! Determines the PostgreSQL logins of a process: the database roles that its process roles need, and the URL for each
//! database role.

use crate::database::{DatabaseUrl, ServerUrl};
use crate::settings::{ProcessRole, Settings};
use posthaste_core::ports::{StoreError, StoreResult};
use posthaste_services::doctor::ConnectionDemand;
use posthaste_store::grants::DbRole;
use posthaste_store::postgres::PostgresOptions;
use std::time::Duration;

/// The delay between connection attempts while the server is unavailable at startup.
const CONNECT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The number of connections of a process for LISTEN.
const LISTENERS: u32 = 1;

/// Returns the options for the PostgreSQL store, or `None` if the embedded database is used.
pub(crate) fn postgres_options(settings: &Settings) -> Option<PostgresOptions> {
    let database = &settings.database;
    let url = match &database.url {
        DatabaseUrl::Postgres(url) => Some(url.expose().to_owned()),
        // This is the default URL. It is ignored if there are logins.
        DatabaseUrl::Sqlite(_) if !database.logins.is_empty() => None,
        DatabaseUrl::Sqlite(_) => return None,
    };
    let roles = database_roles(settings);
    let own_logins = database.logins.iter().filter(|(role, _)| roles.contains(role));
    let mut role_urls: Vec<(DbRole, String)> =
        own_logins.map(|(role, url)| (*role, url.expose().to_owned())).collect();
    role_urls.sort_by_key(|(role, _)| roles.iter().position(|known| known == role));
    let (password, role_prefix) = (database.password.clone(), database.role_prefix.clone());
    Some(PostgresOptions { url, role_urls, password, roles, role_prefix, ..PostgresOptions::default() })
}

/// Returns the URL for LISTEN, which must bypass a connection pooler. Any login may be used.
pub(crate) fn listen_url<'a>(settings: &'a Settings, options: &'a PostgresOptions) -> Option<&'a str> {
    let direct = settings.database.direct.as_ref().map(ServerUrl::expose);
    let any = || options.role_urls.first().map(|(_, url)| url.as_str());
    direct.or(options.url.as_deref()).or_else(any)
}

/// Calls `connect` until the server is available, because the server may be starting at the same time. Logs a failure
/// when its reason changes.
pub(crate) async fn wait_for<T, F: Future<Output = StoreResult<T>>>(
    connect: impl Fn() -> F,
) -> StoreResult<T> {
    let mut logged = String::new();
    loop {
        match connect().await {
            Err(error @ StoreError::Unavailable { .. }) => {
                let error = format!("{:#}", anyhow::Error::new(error));
                if error != logged {
                    tracing::warn!(error, "database unavailable, retrying every second");
                }
                logged = error;
                tokio::time::sleep(CONNECT_RETRY_DELAY).await;
            }
            result => return result,
        }
    }
}

/// Returns a description of the database for the log.
pub(crate) fn describe(settings: &Settings) -> String {
    match &settings.database.url {
        DatabaseUrl::Sqlite(_) if !settings.database.logins.is_empty() => {
            "postgres, one login per role".into()
        }
        url @ (DatabaseUrl::Sqlite(_) | DatabaseUrl::Postgres(_)) => url.to_string(),
    }
}

/// Returns the connections that processes with these settings may open, or `None` if the embedded database is used.
/// With `POSTHASTE_DATABASE_URL_DIRECT` the pools use a connection pooler, and `None` is returned as well.
pub(crate) fn connection_demand(settings: &Settings) -> Option<ConnectionDemand> {
    let options = postgres_options(settings).filter(|_| settings.database.direct.is_none())?;
    let pools = |role: ProcessRole| u32::try_from(roles_of(role).len() * options.connections_max);
    let by_role = ProcessRole::ALL.map(|role| (role.as_str(), pools(role).unwrap_or(u32::MAX)));
    Some(ConnectionDemand { by_role: by_role.to_vec(), per_process: LISTENERS })
}

/// Returns the database roles that a process role needs.
const fn roles_of(role: ProcessRole) -> &'static [DbRole] {
    match role {
        ProcessRole::Api => &[
            DbRole::Viewer,
            DbRole::EventIngestWriter,
            DbRole::SubscriptionAdmin,
            DbRole::DeadLetterOperator,
            DbRole::OutboxWriter,
            DbRole::KeyKeeper,
        ],
        ProcessRole::Router => &[DbRole::RouterWorker],
        ProcessRole::Orchestrator => &[DbRole::SagaOrchestrator],
        ProcessRole::Worker => &[DbRole::JobWorker],
        ProcessRole::Cleaner => &[DbRole::LeaseCleaner],
        ProcessRole::Outbox => &[DbRole::OutboxWorker],
    }
}

/// Returns the database roles that this process needs, without duplicates. The first one is used to sample the clock.
fn database_roles(settings: &Settings) -> Vec<DbRole> {
    let mut roles: Vec<DbRole> = Vec::new();
    for role in settings.roles.iter().flat_map(|role| roles_of(*role)) {
        if !roles.contains(role) {
            roles.push(*role);
        }
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Flags, load};

    fn settings(variables: &[(&str, &str)]) -> Settings {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        load(&Flags::default(), variables).unwrap().0
    }

    const URL: (&str, &str) = ("POSTHASTE_DATABASE_URL", "postgres://u@h/d");

    fn roles_of(roles: &str) -> Vec<DbRole> {
        postgres_options(&settings(&[("POSTHASTE_ROLES", roles), URL])).unwrap().roles
    }

    #[test]
    fn a_process_may_open_four_connections_per_database_role_and_one_to_listen() {
        let demand = connection_demand(&settings(&[("POSTHASTE_ROLES", "worker"), URL])).unwrap();
        let others = ["router", "orchestrator", "worker", "cleaner", "outbox"].map(|role| (role, 4));
        assert_eq!(demand.by_role, [&[("api", 24)][..], &others].concat());
        assert_eq!(demand.per_process, 1);
        assert_eq!(connection_demand(&settings(&[])), None);
        let pooled = [URL, ("POSTHASTE_DATABASE_URL_DIRECT", "postgres://u@h:5433/d")];
        assert_eq!(connection_demand(&settings(&pooled)), None);
    }

    #[test]
    fn api_has_no_login_that_can_change_orders() {
        assert!(!roles_of("api").contains(&DbRole::OutboxWorker));
        assert!(roles_of("api").contains(&DbRole::DeadLetterOperator));
        assert!(roles_of("outbox").contains(&DbRole::OutboxWorker));
    }

    #[test]
    fn cleaner_has_a_login_without_payloads_and_secrets() {
        assert_eq!(roles_of("cleaner"), [DbRole::LeaseCleaner]);
        assert_eq!(roles_of("worker"), [DbRole::JobWorker]);
    }
}
