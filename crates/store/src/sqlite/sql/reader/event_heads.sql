-- role: viewer
-- Returns the next ?2 events below ?1, newest first, without payloads, which may be large.
-- index: primary key of events, backwards
SELECT {event_head}
FROM events WHERE id < ?1 ORDER BY id DESC LIMIT ?2
