-- role: dead_letter_operator
-- Inserts a row into the operator audit. The server generates the id and the time, which the role may not insert.
INSERT INTO posthaste.operator_audit (key_id, key_name, client_address, action, object, before, after)
VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::text, $6::json, $7::json)
