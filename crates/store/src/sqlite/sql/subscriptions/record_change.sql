-- role: subscription_admin
-- index: none, it adds a row
INSERT INTO operator_audit (created_at, key_id, key_name, client_address, action, object, before, after)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
