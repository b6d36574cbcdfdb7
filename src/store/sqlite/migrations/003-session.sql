CREATE TABLE session (
  key TEXT NOT NULL PRIMARY KEY,
  epoch INTEGER NOT NULL,
  version INTEGER NOT NULL,
  active INTEGER NOT NULL CHECK (active IN (0, 1)),
  parent TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT;
