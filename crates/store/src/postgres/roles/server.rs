//! Reads the state and the settings of the server with the role viewer, for [`PostgresInsight`](super::insight).

use crate::postgres::conn::session::Session;
use crate::postgres::conn::value::get;
use crate::remote::Fault;
use posthaste_core::ports::{
    ConnectedServer, ConnectionLimits, Durability, IdAge, Observed, STANDBYS_MAX, ServerFacts, Standby,
};
use std::time::Duration;
use tokio_postgres::Row;

/// Reads the state of the server. `connected` is what the connector recorded about the connection. The limit of the
/// login is returned only if all roles share the login.
pub(crate) async fn read(
    mut session: Session,
    connected: ConnectedServer,
    shares_login: bool,
) -> Result<ServerFacts, Fault> {
    let sql = include_str!("../sql/insight/server.sql");
    let rows = session.read(sql, &[&i64::from(STANDBYS_MAX)]).await?;
    let row = rows.first().ok_or_else(|| Fault::Unreadable("the server returned no row".to_owned()))?;
    let limit = |column| Ok::<_, Fault>(get::<Option<i64>>(row, column)?.map(connections));
    Ok(ServerFacts {
        connected,
        is_standby: get(row, "is_standby")?,
        durability: Durability {
            fsync: get(row, "fsync")?,
            full_page_writes: get(row, "full_page_writes")?,
            synchronous_commit: get(row, "synchronous_commit")?,
        },
        standbys: standbys(&rows, get(row, "sees_standbys")?)?,
        transactions: IdAge {
            age: count(row, "transaction_age")?,
            freeze_max_age: count(row, "transaction_freeze_max_age")?,
        },
        multixacts: IdAge {
            age: count(row, "multixact_age")?,
            freeze_max_age: count(row, "multixact_freeze_max_age")?,
        },
        connections: ConnectionLimits {
            server: connections(get(row, "connections_max")?),
            database: limit("database_connections_max")?,
            login: limit("login_connections_max")?.filter(|_| shares_login),
        },
    })
}

fn standbys(rows: &[Row], sees_standbys: bool) -> Result<Observed<Vec<Standby>>, Fault> {
    let mut standbys = Vec::new();
    for row in rows {
        if !get(row, "has_standby")? {
            continue;
        }
        if !sees_standbys {
            return Ok(Observed::Denied);
        }
        let lag_s = get::<Option<f64>>(row, "lag_s")?.unwrap_or_default();
        standbys.push(Standby {
            name: get::<Option<String>>(row, "name")?.unwrap_or_default(),
            is_synchronous: get::<Option<bool>>(row, "is_synchronous")?.unwrap_or_default(),
            lag: Duration::try_from_secs_f64(lag_s).unwrap_or_default(),
            lag_bytes: get::<Option<i64>>(row, "lag_bytes")?
                .and_then(|bytes| u64::try_from(bytes).ok())
                .unwrap_or_default(),
        });
    }
    Ok(Observed::Seen(standbys))
}

fn count(row: &Row, column: &str) -> Result<u64, Fault> {
    Ok(u64::try_from(get::<i64>(row, column)?).unwrap_or_default())
}

fn connections(count: i64) -> u32 {
    u32::try_from(count.max(0)).unwrap_or(u32::MAX)
}
