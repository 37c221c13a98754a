-- role: viewer
-- Returns the payloads of the events $1, in the given order: as many as fit into $2 bytes, and at least the first. The
-- payload of a missing row is NULL.
-- index: events_pkey.
-- The recursion adds up the sizes and stops at the limit, so that the server decompresses at most one payload more than
-- it returns. A window function would decompress all of them.
WITH RECURSIVE size (place, bytes) AS (
    SELECT 1, (SELECT octet_length(e.payload::text)::bigint FROM posthaste.events e WHERE e.id = ($1::bigint[])[1])
    UNION ALL
    SELECT size.place + 1, coalesce(size.bytes, 0) + coalesce(
        (SELECT octet_length(e.payload::text) FROM posthaste.events e
            WHERE e.id = ($1::bigint[])[size.place + 1]), 0)
    FROM size
    WHERE size.place < cardinality($1::bigint[]) AND coalesce(size.bytes, 0) <= $2::bigint
)
SELECT (SELECT e.payload FROM posthaste.events e WHERE e.id = ($1::bigint[])[size.place]) AS payload
FROM size
WHERE size.place = 1 OR size.bytes <= $2::bigint
ORDER BY size.place
