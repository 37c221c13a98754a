-- role: viewer
-- Returns events with times from ?4 down to ?3, latest first, without payloads. Of the events at ?4 itself, only those
-- with ids below ?1 are returned, where the previous page ended. The caller filters by type.
-- index: idx_event_created_at, backwards, without a sort: index entries end with the rowid
SELECT {event_head}
FROM events INDEXED BY idx_event_created_at
WHERE created_at >= ?3 AND created_at <= ?4 AND (created_at < ?4 OR id < ?1)
ORDER BY created_at DESC, id DESC LIMIT ?2
