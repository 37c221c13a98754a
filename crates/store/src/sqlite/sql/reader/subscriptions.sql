-- role: viewer
-- Returns the next ?2 subscriptions below ?1, newest first. The caller applies the filter.
-- index: primary key of subscriptions, backwards
SELECT {subscription}
FROM subscriptions WHERE id < ?1 ORDER BY id DESC LIMIT ?2
