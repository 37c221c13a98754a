-- The sessions of people who signed in to the dashboard: the twin of PostgreSQL's.

CREATE TABLE sessions (
    token_hash BLOB PRIMARY KEY NOT NULL CONSTRAINT session_token_length CHECK (octet_length(token_hash) = 32),
    key_hash   BLOB NOT NULL CONSTRAINT session_key_length CHECK (octet_length(key_hash) = 32),
    created_at INTEGER NOT NULL,
    ends_at    INTEGER NOT NULL,
    CONSTRAINT session_length CHECK (ends_at > created_at AND ends_at <= created_at + 43200000000)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_session_key ON sessions (key_hash, ends_at);
CREATE INDEX idx_session_end ON sessions (ends_at);
