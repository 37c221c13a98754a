-- role: viewer
-- Returns the id of the last of $3 sagas below $1, of event $2 or of all events; NULL if there are fewer.
-- index: webhook_delivery_sagas_pkey or idx_saga_event.
SELECT CASE WHEN $2::bigint IS NULL
    THEN (SELECT g.id
        FROM (SELECT g.id FROM posthaste.webhook_delivery_sagas g
            WHERE g.id < $1::bigint ORDER BY g.id DESC LIMIT 10000) g
        OFFSET (SELECT $3::bigint - 1) LIMIT 1)
    ELSE (SELECT g.id
        FROM (SELECT g.id FROM posthaste.webhook_delivery_sagas g
            WHERE g.event_id = $2::bigint AND g.id < $1::bigint ORDER BY g.id DESC LIMIT 10000) g
        OFFSET (SELECT $3::bigint - 1) LIMIT 1)
    END
