// The schema, step by step. A step that was released never changes; the next one adds or removes what is no longer used by the version
// before, so that both versions can run while nodes are upgraded one by one.
//
// * Entries, states and notes are text, not jsonb: jsonb refuses \u0000 and lone surrogates. What lists need of a state has a column.
// * The key of the session is part of the primary key of everything on the way of a message, so that a distributed PostgreSQL can
//   divide the tables by it. Only `input_id` and `entry_turn` look across sessions.
// * Keys have the collation "C": their order is that of their bytes, as in SQLite.
export const MIGRATIONS: readonly string[] = [
  `
CREATE TABLE owner (epoch bigint PRIMARY KEY);
INSERT INTO owner VALUES (0);

CREATE TABLE session (
  key text COLLATE "C" PRIMARY KEY,
  number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  epoch bigint NOT NULL,
  version bigint NOT NULL,
  active boolean NOT NULL,
  works boolean NOT NULL,
  granted boolean NOT NULL,
  parent text COLLATE "C",
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  entries bigint NOT NULL,
  title text COLLATE "C" NOT NULL,
  state text NOT NULL
);
CREATE INDEX session_updated ON session (updated_at, key);
CREATE INDEX session_active ON session (updated_at) WHERE active;
CREATE INDEX session_granted ON session (key) WHERE granted;
CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;

CREATE TABLE entry (
  session text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  turn text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  fact text NOT NULL,
  PRIMARY KEY (session, seq)
);
CREATE INDEX entry_turn ON entry (turn);

CREATE TABLE input (
  session text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  digest text NOT NULL,
  at bigint NOT NULL,
  status text NOT NULL CHECK (status IN ('waiting', 'taken', 'withdrawn')),
  turn text,
  PRIMARY KEY (session, id)
);
CREATE UNIQUE INDEX input_id ON input (id);

CREATE TABLE announcement (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  session text COLLATE "C" NOT NULL,
  recipient text NOT NULL,
  turn text NOT NULL,
  at bigint NOT NULL,
  attempts bigint NOT NULL DEFAULT 0,
  due bigint NOT NULL DEFAULT 0,
  error text NOT NULL DEFAULT '',
  dead boolean NOT NULL DEFAULT false,
  PRIMARY KEY (id, session)
);

CREATE TABLE note (
  key text COLLATE "C" PRIMARY KEY,
  value text NOT NULL,
  at bigint NOT NULL
);

-- What people and models said. Filled by searches, from the queue that commits fill: numbers are not in the order of commits.
CREATE TABLE said_queue (
  session text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  PRIMARY KEY (session, seq)
);
CREATE TABLE said (
  session text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  words tsvector NOT NULL,
  PRIMARY KEY (session, seq)
);
CREATE INDEX said_words ON said USING gin (words);

-- A group of commits, at most one of each session, in one call: row by row was nine times slower. All of them or none; the answer is of
-- the first kind of refusal that one of them meets. Changing the key of the owner waits for everybody who holds it, and whoever comes
-- later does not find it any more.
CREATE FUNCTION commit_group(
  claim bigint,
  keys text[], versions bigint[], actives boolean[], working boolean[], grants boolean[], parents text[], ats bigint[],
  lengths bigint[], titles text[], states text[],
  entry_sessions text[], entry_seqs bigint[], entry_turns text[], entry_ats bigint[], entry_facts text[],
  said_sessions text[], said_seqs bigint[],
  input_sessions text[], input_ids text[], input_digests text[], input_ats bigint[],
  taken_ids text[], taken_turns text[],
  told_sessions text[], told_recipients text[], told_turns text[], told_ats bigint[]
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM owner WHERE epoch = claim FOR KEY SHARE;
  IF NOT FOUND THEN RETURN 'fenced'; END IF;
  PERFORM 1 FROM session s WHERE s.key = ANY (keys) ORDER BY s.key FOR NO KEY UPDATE;
  IF EXISTS (
    SELECT 1 FROM unnest(keys, versions) c (key, version) LEFT JOIN session s ON s.key = c.key
    WHERE c.version <> coalesce(s.version, 0)
  ) THEN RETURN 'stale'; END IF;
  IF EXISTS (SELECT 1 FROM input i WHERE i.id = ANY (input_ids)) THEN RETURN 'duplicate'; END IF;

  UPDATE session s SET epoch = claim, version = c.version + 1, active = c.active, works = c.works, granted = c.granted,
    parent = c.parent, updated_at = c.at, entries = c.length, state = c.state,
    title = CASE s.title WHEN '' THEN c.title ELSE s.title END
  FROM unnest(keys, versions, actives, working, grants, parents, ats, lengths, titles, states)
    c (key, version, active, works, granted, parent, at, length, title, state)
  WHERE s.key = c.key;
  IF 0 = ANY (versions) THEN
    INSERT INTO session (key, epoch, version, active, works, granted, parent, created_at, updated_at, entries, title, state)
    SELECT c.key, claim, 1, c.active, c.works, c.granted, c.parent, c.at, c.at, c.length, c.title, c.state
    FROM unnest(keys, versions, actives, working, grants, parents, ats, lengths, titles, states)
      WITH ORDINALITY c (key, version, active, works, granted, parent, at, length, title, state, place)
    WHERE c.version = 0 ORDER BY c.place;
  END IF;
  INSERT INTO entry (session, seq, turn, at, fact)
  SELECT * FROM unnest(entry_sessions, entry_seqs, entry_turns, entry_ats, entry_facts);
  IF cardinality(said_seqs) > 0 THEN
    INSERT INTO said_queue (session, seq) SELECT * FROM unnest(said_sessions, said_seqs);
  END IF;
  IF cardinality(input_ids) > 0 THEN
    INSERT INTO input (session, id, digest, at, status)
    SELECT i.session, i.id, i.digest, i.at, 'waiting'
    FROM unnest(input_sessions, input_ids, input_digests, input_ats) i (session, id, digest, at) ORDER BY i.id;
  END IF;
  IF cardinality(taken_ids) > 0 THEN
    UPDATE input i SET turn = t.turn, status = CASE WHEN t.turn IS NULL THEN 'withdrawn' ELSE 'taken' END
    FROM (SELECT DISTINCT ON (id) id, turn FROM unnest(taken_ids, taken_turns) WITH ORDINALITY u (id, turn, place)
      ORDER BY id, place DESC) t
    WHERE i.id = t.id;
  END IF;
  IF cardinality(told_turns) > 0 THEN
    INSERT INTO announcement (session, recipient, turn, at)
    SELECT t.session, t.recipient, t.turn, t.at
    FROM unnest(told_sessions, told_recipients, told_turns, told_ats) WITH ORDINALITY t (session, recipient, turn, at, place)
    ORDER BY t.place;
  END IF;
  RETURN 'done';
END $$;

CREATE FUNCTION drop_sessions(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE gone bigint;
BEGIN
  DELETE FROM said WHERE session = ANY (keys);
  DELETE FROM said_queue WHERE session = ANY (keys);
  DELETE FROM entry WHERE session = ANY (keys);
  DELETE FROM input WHERE session = ANY (keys);
  DELETE FROM session WHERE key = ANY (keys);
  GET DIAGNOSTICS gone = ROW_COUNT;
  RETURN gone;
END $$;

CREATE FUNCTION forget_session(claim bigint, which text, from_version bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM owner WHERE epoch = claim FOR KEY SHARE;
  IF NOT FOUND THEN RETURN 'fenced'; END IF;
  PERFORM 1 FROM session WHERE key = which AND version = from_version FOR UPDATE;
  IF NOT FOUND THEN RETURN 'stale'; END IF;
  PERFORM drop_sessions(ARRAY[which]);
  RETURN 'done';
END $$;

-- Idle and unchanged for long, a bounded number at a time. One that somebody works on just now is left for the next time.
CREATE FUNCTION prune_sessions(first text, last text, before bigint, most bigint) RETURNS bigint LANGUAGE sql AS $$
  SELECT drop_sessions(ARRAY(
    SELECT key FROM session WHERE updated_at < before AND key >= first AND key < last AND NOT works
    ORDER BY key LIMIT most FOR UPDATE SKIP LOCKED))
$$;
`,
];
