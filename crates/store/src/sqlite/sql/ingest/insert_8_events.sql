-- role: event_ingest_writer
-- Inserts 8 events. A statement that fires a trigger journals each page it changes, so many rows in one statement cost
-- less than one statement per row. Ids are consecutive in row order, because there is no other writer; this maps ids to
-- events.
-- index: uniq_event_external_id, for the conflict only
INSERT INTO events (external_event_id, event_type, payload, correlation_id, traceparent, created_at)
VALUES
    (?2, ?3, ?4, ?5, ?6, ?1),
    (?7, ?8, ?9, ?10, ?11, ?1),
    (?12, ?13, ?14, ?15, ?16, ?1),
    (?17, ?18, ?19, ?20, ?21, ?1),
    (?22, ?23, ?24, ?25, ?26, ?1),
    (?27, ?28, ?29, ?30, ?31, ?1),
    (?32, ?33, ?34, ?35, ?36, ?1),
    (?37, ?38, ?39, ?40, ?41, ?1)
ON CONFLICT (external_event_id) DO NOTHING
