-- role: saga_orchestrator
-- Counts the sagas in progress of each subscription in ?1, up to ?2. Each row has its subscription, because the order
-- in which rarray returns values is not guaranteed.
-- index: idx_saga_subscription_due, one range per subscription, up to ?2 entries
SELECT rarray.value, (
    SELECT count(*)
    FROM (SELECT 1 FROM webhook_delivery_sagas g INDEXED BY idx_saga_subscription_due
          WHERE g.subscription_id = rarray.value AND g.status = 'InProgress'
          LIMIT ?2) taken)
FROM rarray(?1)
