-- role: viewer
-- Returns the state and the settings of the server: one row for each attached standby, or one row without a standby.
-- A role without pg_read_all_stats sees that a standby is attached, but not its state. The receivers of logical
-- replication and of a WAL archive (pg_receivewal, which replays nothing) are not standbys.
SELECT server.is_standby, server.fsync, server.full_page_writes, server.synchronous_commit, server.transaction_age,
    server.transaction_freeze_max_age, server.multixact_age, server.multixact_freeze_max_age, server.connections_max,
    server.database_connections_max, server.login_connections_max, server.sees_standbys,
    standby.pid IS NOT NULL AS has_standby, standby.name, standby.is_synchronous, standby.lag_s, standby.lag_bytes
FROM (
    SELECT pg_is_in_recovery() AS is_standby,
        current_setting('fsync')::boolean AS fsync,
        current_setting('full_page_writes')::boolean AS full_page_writes,
        current_setting('synchronous_commit') AS synchronous_commit,
        -- The oldest id of any database stops the whole server.
        (SELECT max(age(a.datfrozenxid)) FROM pg_catalog.pg_database a)::bigint AS transaction_age,
        current_setting('autovacuum_freeze_max_age')::bigint AS transaction_freeze_max_age,
        (SELECT max(mxid_age(a.datminmxid)) FROM pg_catalog.pg_database a)::bigint AS multixact_age,
        current_setting('autovacuum_multixact_freeze_max_age')::bigint AS multixact_freeze_max_age,
        -- PostgreSQL 15 has no reserved_connections.
        current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
            - coalesce(current_setting('reserved_connections', true), '0')::bigint AS connections_max,
        nullif(d.datconnlimit, -1)::bigint AS database_connections_max,
        (
            SELECT nullif(l.rolconnlimit, -1)::bigint FROM pg_catalog.pg_roles l WHERE l.rolname = session_user
        ) AS login_connections_max,
        pg_has_role('pg_read_all_stats', 'USAGE') AS sees_standbys
    FROM pg_catalog.pg_database d WHERE d.datname = current_database()
) server
LEFT JOIN LATERAL (
    SELECT r.pid, coalesce(nullif(r.application_name, ''), host(r.client_addr)) AS name,
        r.sync_state IN ('sync', 'quorum') AS is_synchronous,
        extract(epoch FROM r.replay_lag)::double precision AS lag_s,
        pg_wal_lsn_diff(
            CASE WHEN server.is_standby THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, r.replay_lsn
        )::bigint AS lag_bytes
    FROM pg_catalog.pg_stat_replication r
    WHERE (r.replay_lsn IS NOT NULL OR NOT server.sees_standbys)
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical'
        )
    ORDER BY r.replay_lag DESC NULLS LAST, r.pid LIMIT $1
) standby ON true
