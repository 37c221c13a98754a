-- role: viewer
-- Returns the replication slots that prevent VACUUM from removing dead rows, and the age of each in transactions.
SELECT s.slot_name::text, greatest(age(s.xmin), age(s.catalog_xmin))::bigint
FROM pg_catalog.pg_replication_slots s WHERE s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL
ORDER BY 2 DESC LIMIT 10
