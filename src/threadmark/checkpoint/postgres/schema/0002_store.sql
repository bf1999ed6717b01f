-- The same function again, cheaper where a step has one head that is its base too, and one task, as nearly all have.
-- Null, and nothing is done, in a transaction that sees only what was there when it began, or that may not write.
CREATE OR REPLACE FUNCTION {schema}.store(
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
    _lock text;
    _newest record;
    _stored bigint;
    _tasks integer := cardinality(_task_id);
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed'
        OR current_setting('transaction_read_only') <> 'off' THEN
        RETURN NULL;
    END IF;
    IF NOT _held THEN
        _lock := pg_advisory_xact_lock(hashtextextended(_thread_id, 1416129867));  -- as hold() does, at less cost
        IF _base_ns = _head_ns AND _base_id = _head_id AND cardinality(_base_ns) = 1 THEN
            -- A checkpoint of this key is there only as long as the thread is.
            SELECT c.id, c.body INTO _newest FROM {schema}.checkpoint c
            WHERE c.thread = _key AND c.ns = _head_ns[1] AND c.flags & 1 = 0 ORDER BY c.id DESC LIMIT 1;
            IF _newest.id IS DISTINCT FROM _head_id[1] OR _newest.body IS DISTINCT FROM _base_body[1] THEN
                RETURN false;
            END IF;
        ELSE
            SELECT key INTO _stored FROM {schema}.thread WHERE thread_id = _thread_id;
            IF _stored IS DISTINCT FROM (CASE WHEN _salt IS NULL THEN _key END) THEN
                RETURN false;
            END IF;
            PERFORM FROM unnest(_head_ns, _head_id) AS expected(ns, id)
            WHERE expected.id IS DISTINCT FROM (
                SELECT c.id FROM {schema}.checkpoint c
                WHERE c.thread = _key AND c.ns = expected.ns AND c.flags & 1 = 0 ORDER BY c.id DESC LIMIT 1
            );
            IF FOUND THEN
                RETURN false;
            END IF;
            PERFORM FROM unnest(_base_ns, _base_id, _base_body) AS expected(ns, id, body)
            WHERE expected.body IS DISTINCT FROM (
                SELECT c.body FROM {schema}.checkpoint c
                WHERE c.thread = _key AND c.ns = expected.ns AND c.id = expected.id LIMIT 1
            );
            IF FOUND THEN
                RETURN false;
            END IF;
        END IF;
        IF _tasks > 1 THEN
            PERFORM FROM unnest(_task_ns, _task_at, _task_id) AS expected(ns, id, task_id)
            WHERE (
                SELECT true FROM {schema}.task t
                WHERE t.thread = _key AND t.ns = expected.ns AND t.id = expected.id AND t.task_id = expected.task_id
                LIMIT 1
            );
            IF FOUND THEN
                RETURN false;
            END IF;
        ELSIF _tasks = 1 THEN
            INSERT INTO {schema}.task (thread, ns, id, task_id, path, body)
                VALUES (_key, _task_ns[1], _task_at[1], _task_id[1], _task_path[1], _task_body[1])
                ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                RETURN false;
            END IF;
            _tasks := 0;
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
    IF cardinality(_value_id) = 1 THEN  -- as a rule; no function is scanned for one row
        INSERT INTO {schema}.value (thread, id, body) VALUES (_key, _value_id[1], _value_body[1]);
    ELSIF cardinality(_value_id) > 1 THEN
        INSERT INTO {schema}.value (thread, id, body)
            SELECT _key, given.id, given.body FROM unnest(_value_id, _value_body) AS given(id, body);
    END IF;
    IF _tasks > 0 THEN
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
