-- role: viewer
-- Variant of event_heads.sql for one event type.
-- index: idx_event_type, backwards, without a sort: index entries end with the rowid
SELECT {event_head}
FROM events INDEXED BY idx_event_type
WHERE event_type = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2
