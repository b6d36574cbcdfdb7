-- What a surface must not forget: who is paired, what was sent, when a job is due. Not part of any session.
CREATE TABLE note (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
