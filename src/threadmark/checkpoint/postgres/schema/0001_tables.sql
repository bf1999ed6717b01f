-- Format 1. docs/explanation/storage-layout.md says what the bodies hold. {schema} is the schema's name, quoted.

-- One row: the format of these tables. A schema with other tables and without it is not ours and is never written.
CREATE TABLE {schema}.threadmark (format integer NOT NULL);

-- Keys are made by the writer and never given out twice, so that a stale memory of a deleted thread cannot meet a new one.
CREATE TABLE {schema}.thread (
    key bigint PRIMARY KEY,
    thread_id text COLLATE "C" NOT NULL UNIQUE,
    salt bytea NOT NULL
);

-- Names are text that sorts by its bytes. PostgreSQL's text cannot hold the character 0: it is written as two
-- characters 1, and the character 1 as 1 and 2, which keeps the order.
CREATE TABLE {schema}.checkpoint (
    thread bigint NOT NULL,
    ns text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    parent text COLLATE "C",
    source text COLLATE "C",
    step bigint,
    run_id text COLLATE "C",
    ts text COLLATE "C" NOT NULL,
    parents text COLLATE "C",
    flags integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (thread, ns, id)
);

CREATE INDEX checkpoint_run ON {schema}.checkpoint (run_id) WHERE run_id IS NOT NULL;

-- What one task wrote. No foreign key: writes may arrive before their checkpoint.
CREATE TABLE {schema}.task (
    thread bigint NOT NULL,
    ns text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (thread, ns, id, task_id)
);

CREATE TABLE {schema}.value (
    thread bigint NOT NULL,
    id bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (thread, id)
);

CREATE TABLE {schema}.segment (
    thread bigint NOT NULL,
    key bytea NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (thread, key)
);

-- What pays to be compressed is compressed already.
ALTER TABLE {schema}.checkpoint ALTER body SET STORAGE EXTERNAL;
ALTER TABLE {schema}.task ALTER body SET STORAGE EXTERNAL;
ALTER TABLE {schema}.value ALTER body SET STORAGE EXTERNAL;
ALTER TABLE {schema}.segment ALTER data SET STORAGE EXTERNAL;

-- For people and their tools.
CREATE VIEW {schema}.checkpoints AS
    SELECT thread.thread_id AS thread_id, ns AS checkpoint_ns, checkpoint.id AS checkpoint_id,
           CASE WHEN flags & 2 = 0 THEN parent END AS parent_checkpoint_id,
           source, step, run_id, ts
    FROM {schema}.checkpoint JOIN {schema}.thread ON thread.key = checkpoint.thread
    WHERE flags & 1 = 0;

-- One writer of a thread at a time, to the end of its transaction; also for a thread that is not there yet.
CREATE FUNCTION {schema}.hold(_thread_id text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended(_thread_id, 1416129867))
$$;

-- A transaction of one thread in one call: false, and nothing is changed, unless all is as the writer believes.
-- _salt is null for a thread that is believed to be there. With _held the writer has the thread and has looked itself.
CREATE FUNCTION {schema}.store(
    _held boolean, _thread_id text, _key bigint, _salt bytea,
    _head_ns text[], _head_id text[],
    _base_ns text[], _base_id text[], _base_body bytea[],
    _segment_key bytea[], _segment_data bytea[],
    _value_id bigint[], _value_body bytea[],
    _task_ns text[], _task_at text[], _task_id text[], _task_path text[], _task_body bytea[],
    _ns text[], _id text[], _parent text[], _source text[], _step bigint[], _run_id text[], _ts text[],
    _parents text[], _flags bigint[], _body bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _stored bigint;
BEGIN
    IF NOT _held THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(_thread_id, 1416129867));  -- as hold() does, at less cost
        SELECT key INTO _stored FROM {schema}.thread WHERE thread_id = _thread_id;
        IF (CASE WHEN _salt IS NULL THEN _stored IS DISTINCT FROM _key ELSE _stored IS NOT NULL END) THEN
            RETURN false;
        END IF;
        IF EXISTS (
            SELECT FROM unnest(_head_ns, _head_id) AS expected(ns, id)
            WHERE expected.id IS DISTINCT FROM (
                SELECT c.id FROM {schema}.checkpoint c
                WHERE c.thread = _key AND c.ns = expected.ns AND c.flags & 1 = 0 ORDER BY c.id DESC LIMIT 1
            )
        ) OR EXISTS (
            SELECT FROM unnest(_base_ns, _base_id, _base_body) AS expected(ns, id, body)
            WHERE expected.body IS DISTINCT FROM (
                SELECT c.body FROM {schema}.checkpoint c
                WHERE c.thread = _key AND c.ns = expected.ns AND c.id = expected.id LIMIT 1
            )
        ) OR EXISTS (
            SELECT FROM unnest(_task_ns, _task_at, _task_id) AS expected(ns, id, task_id)
            WHERE (
                SELECT true FROM {schema}.task t
                WHERE t.thread = _key AND t.ns = expected.ns AND t.id = expected.id AND t.task_id = expected.task_id
                LIMIT 1
            )
        ) THEN
            RETURN false;
        END IF;
        IF _salt IS NOT NULL THEN
            INSERT INTO {schema}.thread (key, thread_id, salt) VALUES (_key, _thread_id, _salt);
        END IF;
    END IF;
    IF cardinality(_segment_key) > 0 THEN
        INSERT INTO {schema}.segment (thread, key, data)
            SELECT _key, given.key, given.data FROM unnest(_segment_key, _segment_data) AS given(key, data)
            ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(_value_id) > 0 THEN
        INSERT INTO {schema}.value (thread, id, body)
            SELECT _key, given.id, given.body FROM unnest(_value_id, _value_body) AS given(id, body);
    END IF;
    IF cardinality(_task_id) = 1 THEN  -- as a rule; no function is scanned for one row
        INSERT INTO {schema}.task AS old (thread, ns, id, task_id, path, body)
            VALUES (_key, _task_ns[1], _task_at[1], _task_id[1], _task_path[1], _task_body[1])
            ON CONFLICT (thread, ns, id, task_id) DO UPDATE SET path = excluded.path, body = excluded.body;
    ELSIF cardinality(_task_id) > 1 THEN
        INSERT INTO {schema}.task AS old (thread, ns, id, task_id, path, body)
            SELECT _key, given.* FROM unnest(_task_ns, _task_at, _task_id, _task_path, _task_body) AS given
            ON CONFLICT (thread, ns, id, task_id) DO UPDATE SET path = excluded.path, body = excluded.body;
    END IF;
    IF cardinality(_id) = 1 THEN
        INSERT INTO {schema}.checkpoint AS old
            (thread, ns, id, parent, source, step, run_id, ts, parents, flags, body)
            VALUES (_key, _ns[1], _id[1], _parent[1], _source[1], _step[1], _run_id[1], _ts[1], _parents[1], _flags[1],
                _body[1])
            ON CONFLICT (thread, ns, id) DO UPDATE SET
                parent = excluded.parent, source = excluded.source, step = excluded.step, run_id = excluded.run_id,
                ts = excluded.ts, parents = excluded.parents, flags = excluded.flags, body = excluded.body;
    ELSIF cardinality(_id) > 1 THEN
        INSERT INTO {schema}.checkpoint AS old
            (thread, ns, id, parent, source, step, run_id, ts, parents, flags, body)
            SELECT _key, given.*
            FROM unnest(_ns, _id, _parent, _source, _step, _run_id, _ts, _parents, _flags, _body) AS given
            ON CONFLICT (thread, ns, id) DO UPDATE SET
                parent = excluded.parent, source = excluded.source, step = excluded.step, run_id = excluded.run_id,
                ts = excluded.ts, parents = excluded.parents, flags = excluded.flags, body = excluded.body;
    END IF;
    RETURN true;
END
$$;
