PRAGMA application_id = 1214607981;

PRAGMA user_version = 14;

CREATE TABLE owner (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  epoch INTEGER NOT NULL
) STRICT;

CREATE TABLE session (
  key TEXT NOT NULL PRIMARY KEY,
  epoch INTEGER NOT NULL,
  version INTEGER NOT NULL,
  active INTEGER NOT NULL CHECK (active IN (0, 1)),
  parent TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  state TEXT NOT NULL
, title TEXT NOT NULL DEFAULT '') STRICT;

CREATE INDEX session_updated ON session (updated_at);

CREATE INDEX session_active ON session (updated_at) WHERE active = 1;

CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;

CREATE TABLE entry (
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  turn TEXT NOT NULL,
  at INTEGER NOT NULL,
  fact TEXT NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT;

CREATE INDEX entry_turn ON entry (turn);

CREATE TABLE input (
  id TEXT NOT NULL PRIMARY KEY,
  session TEXT NOT NULL,
  digest TEXT NOT NULL,
  at INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('waiting', 'taken', 'withdrawn')),
  turn TEXT
) STRICT;

CREATE INDEX input_session ON input (session);

CREATE VIRTUAL TABLE said USING fts5(
  text,
  content = '',
  contentless_delete = 1,
  tokenize = 'unicode61 remove_diacritics 2'
);

CREATE TABLE 'said_data'(id INTEGER PRIMARY KEY, block BLOB);

CREATE TABLE 'said_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;

CREATE TABLE 'said_docsize'(id INTEGER PRIMARY KEY, sz BLOB, origin INTEGER);

CREATE TABLE 'said_config'(k PRIMARY KEY, v) WITHOUT ROWID;

CREATE TABLE announcement (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  recipient TEXT NOT NULL,
  session TEXT NOT NULL,
  turn TEXT NOT NULL,
  at INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  due INTEGER NOT NULL DEFAULT 0,
  error TEXT NOT NULL DEFAULT '',
  dead INTEGER NOT NULL DEFAULT 0 CHECK (dead IN (0, 1))
) STRICT;

CREATE TABLE sqlite_sequence(name,seq);

CREATE TABLE note (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
