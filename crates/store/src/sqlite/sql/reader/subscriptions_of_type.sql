-- role: viewer
-- Variant of subscriptions.sql for one event type.
-- index: idx_subscription_event_type, backwards, without a sort: index entries end with the rowid
SELECT {subscription}
FROM subscriptions INDEXED BY idx_subscription_event_type
WHERE event_type = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2
