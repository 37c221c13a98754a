-- role: event_ingest_writer
-- index: uniq_event_external_id, for the conflict alone.
-- 8 rows at once: each statement that a trigger hangs on saves the pages that it changes, so that many rows
-- in one statement cost less than as many statements. Rows get ids in this order, one after the other,
-- because nobody else writes; that is how the ids find back to the events.
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
