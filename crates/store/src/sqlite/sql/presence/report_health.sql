-- role: viewer
-- Adds attempt counts of a subscription. Inserting into the view runs its trigger with the rights of the owner.
-- index: primary key of subscription_health, in the trigger of the view
INSERT INTO health_reports (seen_at, subscription_id, interval_start, failed,
    within_5ms, within_10ms, within_20ms, within_50ms, within_100ms, within_200ms,
    within_500ms, within_1s, within_2s, within_5s, within_10s, beyond_10s, last_error_code, last_error_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
