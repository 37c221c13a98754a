-- role: any; the function behind it runs as the owner, so nobody needs a right on the tables it writes.
SELECT posthaste.report_presence($1::text, $2::text, $3::text, $4::timestamptz, $5::timestamptz,
    $6::timestamptz[], $7::text[], $8::bigint[])
