-- role: viewer
-- How the deliveries of the subscriptions in $2 stand among the newest 10,000 of all below $1: how many were completed
-- and given up, how long half and 99 of 100 of the completed took in microseconds, and the last error.
-- index: webhook_delivery_sagas_pkey. No index has the finished ones of one subscription.
SELECT g.subscription_id,
    count(*) FILTER (WHERE g.status = 'Completed'),
    count(*) FILTER (WHERE g.status = 'DeadLettered'),
    (1000000 * extract(epoch FROM percentile_disc(0.50) WITHIN GROUP (ORDER BY g.updated_at - g.created_at)
        FILTER (WHERE g.status = 'Completed')))::bigint,
    (1000000 * extract(epoch FROM percentile_disc(0.99) WITHIN GROUP (ORDER BY g.updated_at - g.created_at)
        FILTER (WHERE g.status = 'Completed')))::bigint,
    (array_agg(g.final_error_code ORDER BY g.updated_at DESC) FILTER (WHERE g.final_error_code IS NOT NULL))[1],
    max(g.updated_at) FILTER (WHERE g.final_error_code IS NOT NULL)
FROM (
    SELECT g.subscription_id, g.status, g.created_at, g.updated_at, g.final_error_code
    FROM posthaste.webhook_delivery_sagas g WHERE g.id < $1::bigint ORDER BY g.id DESC LIMIT 10000
) g
WHERE g.subscription_id = ANY ($2::bigint[])
GROUP BY g.subscription_id
