CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;
