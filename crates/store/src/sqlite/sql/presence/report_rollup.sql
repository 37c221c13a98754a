-- role: viewer
-- Adds to a counter of an interval. Inserting into the view runs its trigger with the rights of the owner.
-- index: primary key of rollups, in the trigger of the view
INSERT INTO rollup_reports (interval_start, counter, amount) VALUES (?1, ?2, ?3)
