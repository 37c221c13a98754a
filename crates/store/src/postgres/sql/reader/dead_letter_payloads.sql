-- role: viewer
-- The payloads of the dead letters $1, in this order, as many as have $2 bytes together, and the first in any case. One that
-- is not there any more is NULL.
-- index: dead_letters_pkey.
-- The recursion adds up one size after the other and ends at the bound, so that of a page of large payloads the server
-- unpacks no more than it sends and one: a window function would unpack all of them.
WITH RECURSIVE size (place, bytes) AS (
    SELECT 1, (SELECT octet_length(d.payload_snapshot::text)::bigint FROM posthaste.dead_letters d WHERE d.id = ($1::bigint[])[1])
    UNION ALL
    SELECT size.place + 1, coalesce(size.bytes, 0) + coalesce(
        (SELECT octet_length(d.payload_snapshot::text) FROM posthaste.dead_letters d
            WHERE d.id = ($1::bigint[])[size.place + 1]), 0)
    FROM size
    WHERE size.place < cardinality($1::bigint[]) AND coalesce(size.bytes, 0) <= $2::bigint
)
SELECT (SELECT d.payload_snapshot FROM posthaste.dead_letters d WHERE d.id = ($1::bigint[])[size.place]) AS payload
FROM size
WHERE size.place = 1 OR size.bytes <= $2::bigint
ORDER BY size.place
