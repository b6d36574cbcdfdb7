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

-- Idle and unchanged for long, a bounded number at a time. One that somebody works on just now is left for the next time.
CREATE FUNCTION prune_sessions(first text, last text, before bigint, most bigint) RETURNS bigint LANGUAGE sql AS $$
  SELECT drop_sessions(ARRAY(
    SELECT key FROM session WHERE updated_at < before AND key >= first AND key < last AND NOT works
    ORDER BY key LIMIT most FOR UPDATE SKIP LOCKED))
$$;
`,
  `
CREATE TABLE node (
  id text COLLATE "C" PRIMARY KEY,
  address text NOT NULL,
  version text NOT NULL,
  leaving boolean NOT NULL DEFAULT false,
  lease_until timestamptz NOT NULL
);
-- What only one node may do, by name.
CREATE TABLE lease (
  name text COLLATE "C" PRIMARY KEY,
  node text COLLATE "C" NOT NULL
);
-- Only a session that is active has an owner. The number that was everybody's before is of no more use.
ALTER TABLE session ADD owner text COLLATE "C", ADD writer text COLLATE "C" NOT NULL DEFAULT '', ALTER epoch SET DEFAULT 0;

CREATE FUNCTION forget_session(node_id text, which text, from_version bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM node WHERE id = node_id FOR KEY SHARE;
  IF NOT FOUND THEN RETURN 'fenced'; END IF;
  PERFORM 1 FROM session WHERE key = which FOR UPDATE;
  IF EXISTS (SELECT 1 FROM session WHERE key = which AND owner <> node_id) THEN RETURN 'elsewhere'; END IF;
  IF NOT EXISTS (SELECT 1 FROM session WHERE key = which AND version = from_version) THEN RETURN 'stale'; END IF;
  PERFORM drop_sessions(ARRAY[which]);
  RETURN 'done';
END $$;

-- Channels belong to a database, not to a schema.
CREATE FUNCTION node_channel() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'hermes_' || to_hex(hashtext(current_schema())) $$;

-- The second half of the name of the advisory lock that a node holds as long as it lives.
CREATE FUNCTION node_lock(node_id text) RETURNS integer LANGUAGE sql STABLE AS $$ SELECT hashtext(current_schema() || '/node/' || node_id) $$;

-- With keys they are handed over: nobody has died with them.
CREATE FUNCTION free_sessions(node_ids text[], keys text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM session WHERE active AND owner = ANY (node_ids) AND (keys IS NULL OR key = ANY (keys)) ORDER BY key FOR NO KEY UPDATE;
  UPDATE session SET owner = NULL, writer = CASE WHEN keys IS NULL THEN writer ELSE '' END
  WHERE active AND owner = ANY (node_ids) AND (keys IS NULL OR key = ANY (keys));
  PERFORM pg_notify(node_channel(), '');
END $$;

CREATE FUNCTION remove_nodes(node_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM node WHERE id = ANY (node_ids) ORDER BY id FOR UPDATE;
  DELETE FROM node WHERE id = ANY (node_ids);
  PERFORM free_sessions(node_ids, NULL);
END $$;

-- Whoever wrote under the number of the schema before is fenced too.
CREATE FUNCTION join_node(node_id text, its_address text, its_version text, alone boolean, lease interval) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE owner SET epoch = epoch + 1;
  IF alone THEN PERFORM remove_nodes(ARRAY(SELECT id FROM node)); END IF;
  INSERT INTO node (id, address, version, lease_until) VALUES (node_id, its_address, its_version, clock_timestamp() + lease);
  PERFORM pg_notify(node_channel(), '');
END $$;

-- Its lease is over by the clock of this server; or it is one of the suspects, whose lock was free a moment ago, and still is.
CREATE FUNCTION reap_nodes(suspects text[], locks integer) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE gone text[];
BEGIN
  gone := ARRAY(
    SELECT id FROM node WHERE lease_until < clock_timestamp() OR (id = ANY (suspects) AND NOT is_locked(locks, id))
    ORDER BY id FOR UPDATE);
  IF cardinality(gone) > 0 THEN PERFORM remove_nodes(gone); END IF;
  RETURN QUERY SELECT unnest(gone);
END $$;

CREATE FUNCTION is_locked(locks integer, node_id text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT EXISTS (SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.classid = locks::oid
    AND l.objid = (node_lock(node_id)::bigint & 4294967295)::oid
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
$$;

-- In two statements: what one statement returns is what it saw before it waited for a lock. What this node was given before and has not
-- written yet comes again: an answer may be lost.
CREATE FUNCTION claim_sessions(node_id text, most bigint) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE found_keys text[];
BEGIN
  PERFORM 1 FROM node WHERE id = node_id AND NOT leaving FOR SHARE;
  IF NOT FOUND THEN RETURN; END IF;
  found_keys := ARRAY(SELECT key FROM session WHERE active AND (owner IS NULL OR (owner = node_id AND writer <> node_id))
    ORDER BY owner NULLS FIRST, updated_at, number LIMIT most FOR NO KEY UPDATE SKIP LOCKED);
  RETURN QUERY WITH claimed AS (
      UPDATE session SET owner = node_id WHERE key = ANY (found_keys) AND active AND coalesce(owner, node_id) = node_id
      RETURNING key, updated_at, number)
    SELECT key FROM claimed ORDER BY updated_at, number;
END $$;
`,
  `
-- A group of commits, at most one of each session, in one call. All of them or none; the answer is of the first kind of refusal that one of
-- them meets. Removing a node waits for everybody who holds its row, and whoever comes later does not find it any more. Rows are
-- always locked in this order: nodes by id, then sessions by key.
--
-- Its plans are made once, and always use an index: a plan that was made while a table was small read all of it for each group, until
-- autovacuum came by (3.4 ms instead of 0.05), and planning each call took as long as the work.
CREATE OR REPLACE FUNCTION commit_group(
  node_id text,
  keys text[], versions bigint[], actives boolean[], working boolean[], grants boolean[], parents text[], ats bigint[],
  lengths bigint[], titles text[], states text[],
  entry_sessions text[], entry_seqs bigint[], entry_turns text[], entry_ats bigint[], entry_facts text[],
  said_sessions text[], said_seqs bigint[],
  input_sessions text[], input_ids text[], input_digests text[], input_ats bigint[],
  taken_ids text[], taken_turns text[],
  told_sessions text[], told_recipients text[], told_turns text[], told_ats bigint[]
) RETURNS text LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  is_elsewhere boolean;
  is_stale boolean;
BEGIN
  PERFORM 1 FROM node WHERE id = node_id FOR KEY SHARE;
  IF NOT FOUND THEN RETURN 'fenced'; END IF;
  SELECT bool_or(s.owner <> node_id), bool_or(c.version <> coalesce(s.version, 0)) INTO is_elsewhere, is_stale
  FROM unnest(keys, versions) c (key, version)
  LEFT JOIN (SELECT key, owner, version FROM session WHERE key = ANY (keys) ORDER BY key FOR NO KEY UPDATE) s ON s.key = c.key;
  IF is_elsewhere THEN RETURN 'elsewhere'; END IF;
  IF is_stale THEN RETURN 'stale'; END IF;
  IF cardinality(input_ids) > 0 THEN
    IF EXISTS (SELECT 1 FROM input i WHERE i.id = ANY (input_ids)) THEN RETURN 'duplicate'; END IF;
  END IF;

  UPDATE session s SET owner = CASE WHEN c.active THEN node_id END, writer = node_id, version = c.version + 1, active = c.active, works = c.works, granted = c.granted,
    parent = c.parent, updated_at = c.at, entries = c.length, state = c.state,
    title = CASE s.title WHEN '' THEN c.title ELSE s.title END
  FROM unnest(keys, versions, actives, working, grants, parents, ats, lengths, titles, states)
    c (key, version, active, works, granted, parent, at, length, title, state)
  WHERE s.key = c.key AND s.key = ANY (keys);
  IF 0 = ANY (versions) THEN
    INSERT INTO session (key, owner, writer, version, active, works, granted, parent, created_at, updated_at, entries, title, state)
    SELECT c.key, CASE WHEN c.active THEN node_id END, node_id, 1, c.active, c.works, c.granted, c.parent, c.at, c.at, c.length, c.title, c.state
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
    INSERT INTO input (session, id, digest, at, status, turn)
    SELECT i.session, i.id, i.digest, i.at,
      CASE WHEN t.id IS NULL THEN 'waiting' WHEN t.turn IS NULL THEN 'withdrawn' ELSE 'taken' END, t.turn
    FROM unnest(input_sessions, input_ids, input_digests, input_ats) i (session, id, digest, at)
    LEFT JOIN unnest(taken_ids, taken_turns) t (id, turn) ON t.id = i.id ORDER BY i.id;
  END IF;
  IF NOT taken_ids <@ input_ids THEN
    UPDATE input i SET turn = t.turn, status = CASE WHEN t.turn IS NULL THEN 'withdrawn' ELSE 'taken' END
    FROM unnest(taken_ids, taken_turns) t (id, turn)
    WHERE i.id = t.id AND i.id = ANY (taken_ids) AND i.id <> ALL (input_ids);
  END IF;
  IF cardinality(told_turns) > 0 THEN
    INSERT INTO announcement (session, recipient, turn, at)
    SELECT t.session, t.recipient, t.turn, t.at
    FROM unnest(told_sessions, told_recipients, told_turns, told_ats) WITH ORDINALITY t (session, recipient, turn, at, place)
    ORDER BY t.place;
  END IF;
  RETURN 'done';
END $$;
`,
  `
-- No hint where nothing was freed: a node asks for that when it starts, so that the first hand-over finds its plan.
CREATE OR REPLACE FUNCTION free_sessions(node_ids text[], keys text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM session WHERE active AND owner = ANY (node_ids) AND (keys IS NULL OR key = ANY (keys)) ORDER BY key FOR NO KEY UPDATE;
  UPDATE session SET owner = NULL, writer = CASE WHEN keys IS NULL THEN writer ELSE '' END
  WHERE active AND owner = ANY (node_ids) AND (keys IS NULL OR key = ANY (keys));
  IF FOUND OR keys IS NULL THEN PERFORM pg_notify(node_channel(), ''); END IF;
END $$;
`,
];
