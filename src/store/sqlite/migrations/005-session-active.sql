CREATE INDEX session_active ON session (updated_at) WHERE active = 1;
