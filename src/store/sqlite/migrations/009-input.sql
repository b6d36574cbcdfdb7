CREATE TABLE input (
  id TEXT NOT NULL PRIMARY KEY,
  session TEXT NOT NULL,
  digest TEXT NOT NULL,
  at INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('waiting', 'taken', 'withdrawn')),
  turn TEXT
) STRICT;
