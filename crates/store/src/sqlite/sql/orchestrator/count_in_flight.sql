-- role: saga_orchestrator
-- index: idx_saga_subscription_due, one range for each subscription, left after ?2 entries
-- How many sagas of each subscription are in progress, whoever started them. Every row names its
-- subscription, because nothing promises the order in which an array is read.
SELECT rarray.value, (
    SELECT count(*)
    FROM (SELECT 1 FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
          WHERE g.subscription_id = rarray.value AND g.status = 'InProgress'
          LIMIT ?2) taken)
FROM rarray(?1)
