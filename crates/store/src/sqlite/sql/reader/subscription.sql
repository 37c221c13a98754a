-- role: viewer
-- Returns one subscription, without its secrets, even if it is deleted: sagas refer to it.
-- index: primary key of subscriptions
SELECT {subscription}
FROM subscriptions WHERE id = ?1
