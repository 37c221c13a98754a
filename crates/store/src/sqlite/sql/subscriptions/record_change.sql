-- role: subscription_admin
-- Inserts a row into the operator audit.
-- index: none
INSERT INTO operator_audit (created_at, key_id, key_name, client_address, action, object, before, after)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
