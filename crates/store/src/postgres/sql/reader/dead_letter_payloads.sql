-- role: viewer
-- Returns the payloads of the dead letters $1, in the given order: as many as fit into $2 bytes, and at least the
-- first. The payload of a missing row is NULL.
-- index: dead_letters_pkey.
-- The recursion adds up the sizes and stops at the limit, so that the server decompresses at most one payload more than
-- it returns. A window function would decompress all of them.
WITH RECURSIVE size (place, bytes) AS (
    SELECT 1, (SELECT octet_length(d.payload_snapshot::text)::bigint
        FROM posthaste.dead_letters d WHERE d.id = ($1::bigint[])[1])
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
