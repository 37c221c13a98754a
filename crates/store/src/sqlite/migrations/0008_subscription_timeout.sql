-- The timeout of a request to the receiver; NULL means POSTHASTE_REQUEST_TIMEOUT.
ALTER TABLE subscriptions ADD COLUMN timeout_ms INTEGER
    CONSTRAINT subscription_timeout_range CHECK (timeout_ms >= 1000);
