-- The timeout of a request to the receiver; NULL means POSTHASTE_REQUEST_TIMEOUT.
ALTER TABLE posthaste.subscriptions ADD COLUMN timeout_ms integer
    CONSTRAINT subscription_timeout_range CHECK (timeout_ms >= 1000);
