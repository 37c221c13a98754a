-- role: viewer
-- index: idx_saga_subscription_due, three ranges for each subscription, each left after ?2 entries
-- What each subscription has in every state that is not an end. Every row names its subscription, because nothing
-- promises the order in which an array is read.
SELECT rarray.value,
    (SELECT count(*) FROM (SELECT 1 FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
        WHERE g.subscription_id = rarray.value AND g.status = 'Pending' LIMIT ?2)),
    (SELECT count(*) FROM (SELECT 1 FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
        WHERE g.subscription_id = rarray.value AND g.status = 'PendingRetry' LIMIT ?2)),
    (SELECT count(*) FROM (SELECT 1 FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
        WHERE g.subscription_id = rarray.value AND g.status = 'InProgress' LIMIT ?2))
FROM rarray(?1)
