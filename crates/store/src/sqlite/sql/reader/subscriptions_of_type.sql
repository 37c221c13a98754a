-- role: viewer
-- index: idx_subscription_event_type, backwards: an index ends with the id, so no sort
SELECT {subscription}
FROM subscriptions INDEXED BY idx_subscription_event_type
WHERE event_type = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2
