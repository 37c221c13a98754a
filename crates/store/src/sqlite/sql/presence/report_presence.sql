-- role: viewer
-- index: processes' key, through the view that stands for a function of the owner
INSERT INTO presence_reports (process_id, role, version, started_at, seen_at) VALUES (?1, ?2, ?3, ?4, ?5)
