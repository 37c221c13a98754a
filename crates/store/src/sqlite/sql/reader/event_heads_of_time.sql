-- role: viewer
-- index: idx_event_created_at, backwards: an index ends with the id, so no sort
-- From the instant ?4 back to ?3; of the last instant only what is below ?1, where the page before ended. Other types
-- than the one asked for are left out by whoever reads the rows.
SELECT {event_head}
FROM events INDEXED BY idx_event_created_at
WHERE created_at >= ?3 AND created_at <= ?4 AND (created_at < ?4 OR id < ?1)
ORDER BY created_at DESC, id DESC LIMIT ?2
