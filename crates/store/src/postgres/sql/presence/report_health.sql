-- role: any; the function behind it runs as the owner, so nobody needs a right on the table it writes.
SELECT posthaste.report_health($1::timestamptz, $2::bigint[], $3::timestamptz[], $4::bigint[], $5::bigint[], $6::text[],
    $7::timestamptz[])
