CREATE INDEX session_updated ON session (updated_at);
