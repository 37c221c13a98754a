-- role: viewer
-- index: subscriptions' key, backwards
SELECT {subscription}
FROM subscriptions WHERE id < ?1 ORDER BY id DESC LIMIT ?2
