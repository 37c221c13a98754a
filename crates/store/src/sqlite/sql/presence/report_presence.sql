-- role: viewer
-- Records that a process is running. Inserting into the view runs its trigger with the rights of the owner.
-- index: primary key of processes, in the trigger of the view
INSERT INTO presence_reports (process_id, role, version, started_at, seen_at) VALUES (?1, ?2, ?3, ?4, ?5)
