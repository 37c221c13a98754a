-- role: viewer
-- index: subscriptions' key
-- Deleted ones too: history refers to them.
SELECT {subscription}
FROM subscriptions WHERE id = ?1
