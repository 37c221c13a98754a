-- role: viewer
-- index: rollups' key, through the view that stands for a function of the owner
INSERT INTO rollup_reports (interval_start, counter, amount) VALUES (?1, ?2, ?3)
