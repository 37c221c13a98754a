//! Creates and drops the temporary databases that benchmarks use.

use crate::postgres::conn::connect::Connector;
use crate::postgres::conn::error::{classify, connecting};
use crate::postgres::conn::monitor::ConnectionMonitor;
use crate::postgres::conn::password::PasswordSource;
use crate::remote::Phase;
use posthaste_core::ports::{StoreError, StoreResult};

/// Returns the URL of another database on the same server.
pub fn url_with_database(server_url: &str, name: &str) -> String {
    let (address, query) = server_url.split_once('?').unwrap_or((server_url, ""));
    let (scheme, rest) = address.split_once("://").unwrap_or(("postgres", address));
    let authority = rest.split('/').next().unwrap_or_default();
    // The parameter dbname would take precedence.
    let parameters: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("dbname=")).collect();
    let query = parameters.join("&");
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    format!("{scheme}://{authority}/{name}{query}")
}

/// Creates an empty database. `name` may contain lower-case letters, digits and underscores.
pub async fn create_database(server_url: &str, password: &PasswordSource, name: &str) -> StoreResult<()> {
    execute(server_url, password, name, "creating a database", |name| format!("CREATE DATABASE {name}")).await
}

/// Drops a database, even if clients are connected to it.
pub async fn drop_database(server_url: &str, password: &PasswordSource, name: &str) -> StoreResult<()> {
    let sql = |name: &str| format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    execute(server_url, password, name, "dropping a database", sql).await
}

/// Runs VACUUM (ANALYZE), as autovacuum would eventually do.
pub async fn vacuum_database(url: &str, password: &PasswordSource) -> StoreResult<()> {
    run(url, password, "vacuuming a database", "VACUUM (ANALYZE)".to_owned()).await
}

async fn execute(
    server_url: &str,
    password: &PasswordSource,
    name: &str,
    doing: &'static str,
    sql: impl Fn(&str) -> String,
) -> StoreResult<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(StoreError::Unusable { what: format!("{name:?} is not a valid name for a database") });
    }
    run(server_url, password, doing, sql(name)).await
}

async fn run(url: &str, password: &PasswordSource, doing: &'static str, sql: String) -> StoreResult<()> {
    let monitor = ConnectionMonitor::default();
    let connector = Connector::new(url, "posthaste bench", &monitor)?.with_password(password)?;
    let (client, connection) =
        connector.connect(None).await.map_err(|error| connecting(error).into_error(doing, true))?;
    let work = async move { client.batch_execute(&sql).await };
    let (done, _) = futures_util::future::join(work, connection).await;
    done.map_err(|error| classify(error, Phase::MayBeDone).into_error(doing, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_database_keeps_hosts_and_parameters() {
        for (url, expected) in [
            ("postgres://u:p@h/a", "postgres://u:p@h/b"),
            ("postgres://h", "postgres://h/b"),
            ("postgres://h?dbname=a", "postgres://h/b"),
            ("postgres://h/a?sslmode=require&dbname=a", "postgres://h/b?sslmode=require"),
            ("postgresql://u@h1:1,h2/a?sslmode=require", "postgresql://u@h1:1,h2/b?sslmode=require"),
        ] {
            assert_eq!(url_with_database(url, "b"), expected);
        }
    }
}
