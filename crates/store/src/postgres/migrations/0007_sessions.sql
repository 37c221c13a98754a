-- The sessions of people who signed in to the dashboard. The cookie holds a random token and the table its hash, so
-- that every process knows a session, any of them can end it, and what is stored opens nothing.

CREATE TABLE posthaste.sessions (
    token_hash bytea PRIMARY KEY CONSTRAINT session_token_length CHECK (octet_length(token_hash) = 32),
    key_hash   bytea NOT NULL CONSTRAINT session_key_length CHECK (octet_length(key_hash) = 32),
    created_at timestamptz NOT NULL,
    ends_at    timestamptz NOT NULL,
    CONSTRAINT session_length CHECK (ends_at > created_at AND ends_at <= created_at + interval '12 hours')
);
CREATE INDEX idx_session_key ON posthaste.sessions (key_hash, ends_at);
CREATE INDEX idx_session_end ON posthaste.sessions (ends_at);
