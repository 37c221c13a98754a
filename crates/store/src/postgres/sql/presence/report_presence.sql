-- role: any; the function is SECURITY DEFINER, so that no role needs a right on its tables.
-- Records that a process is running and adds its counters.
SELECT posthaste.report_presence($1::text, $2::text, $3::text, $4::timestamptz, $5::timestamptz,
    $6::timestamptz[], $7::text[], $8::bigint[])
