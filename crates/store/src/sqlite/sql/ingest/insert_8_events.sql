-- role: event_ingest_writer
-- Inserts 8 events. A statement that fires a trigger journals each page it changes, so many rows in one statement cost
-- less than one statement per row. Ids are consecutive in row order, because there is no other writer; this maps ids to
-- events.
-- index: uniq_event_external_id, for the conflict only
INSERT INTO events (external_event_id, event_type, payload, correlation_id, traceparent, tracestate, tenant, attributes,
    created_at)
VALUES
    (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?1),
    (?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?1),
    (?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?1),
    (?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?1),
    (?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?1),
    (?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?1),
    (?50, ?51, ?52, ?53, ?54, ?55, ?56, ?57, ?1),
    (?58, ?59, ?60, ?61, ?62, ?63, ?64, ?65, ?1)
ON CONFLICT (external_event_id) DO NOTHING
