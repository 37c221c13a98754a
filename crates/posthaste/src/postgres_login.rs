//! Determines the PostgreSQL logins of a process: the database roles that its process roles need, and the URL for each
//! database role.

use crate::database::{DatabaseUrl, ServerUrl};
use crate::settings::{ProcessRole, Settings};
use posthaste_core::ports::{StoreError, StoreResult};
use posthaste_store::grants::DbRole;
use posthaste_store::postgres::PostgresOptions;
use std::time::Duration;

/// The delay between connection attempts while the server is unavailable at startup.
const CONNECT_RETRY_DELAY: Duration = Duration::from_secs(1);

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
    let password = database.password.clone();
    Some(PostgresOptions { url, role_urls, password, roles, ..PostgresOptions::default() })
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

/// Returns the database roles that this process needs, without duplicates. The first one is used to sample the clock.
fn database_roles(settings: &Settings) -> Vec<DbRole> {
    let of = |role: &ProcessRole| -> &'static [DbRole] {
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
    };
    let mut roles: Vec<DbRole> = Vec::new();
    for role in settings.roles.iter().flat_map(of) {
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

    fn roles_of(roles: &str) -> Vec<DbRole> {
        let variables = [("POSTHASTE_ROLES", roles), ("POSTHASTE_DATABASE_URL", "postgres://u@h/d")]
            .map(|(name, value)| (name.into(), value.into()));
        let (settings, _) = load(&Flags::default(), variables).unwrap();
        postgres_options(&settings).unwrap().roles
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
