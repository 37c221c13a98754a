-- role: any; the function is SECURITY DEFINER, so that no role needs a right on its table.
-- Adds attempt counts to subscription_health.
SELECT posthaste.report_health($1::timestamptz, $2::bigint[], $3::timestamptz[], $4::bigint[], $5::bigint[], $6::text[],
    $7::timestamptz[])
