"""Every statement, made once for the schema that it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from threadmark.checkpoint.postgres.call import PARAMETERS
from threadmark.checkpoint.postgres.wire import BLOB, BLOBS, BOOL, INT, INTS, TEXT, TEXTS, Kind, Query

_COLUMNS: Final = "c.ns, c.id, c.parent, c.source, c.step, c.run_id, c.ts, c.parents, c.flags, c.body"
_CHECKPOINT: Final = (TEXT, TEXT, TEXT, TEXT, INT, TEXT, TEXT, TEXT, INT, BLOB)
_TASK_COLUMNS: Final = "t.ns, t.id, t.task_id, t.path, t.body"
_TASK: Final = (TEXT, TEXT, TEXT, TEXT, BLOB)
_OF_THREADS: Final = ("checkpoint", "task", "value", "segment")
# UNION, not UNION ALL: it stops where a damaged store runs in a circle.
_LINE_FROM: Final = """
    WITH RECURSIVE line (id, parent) AS (
        SELECT id, parent FROM {s}.checkpoint WHERE thread = @key AND ns = $2 AND id = @id
        UNION
        SELECT c.id, c.parent FROM line JOIN {s}.checkpoint c ON c.thread = @key AND c.ns = $2 AND c.id = line.parent
    ), chosen AS (SELECT id FROM line LIMIT $4)"""
_ROWS_OF_LINE: Final = (
    f"SELECT {_COLUMNS} FROM chosen l JOIN {{s}}.checkpoint c ON c.id = l.id AND c.thread = @key AND c.ns = $2"
)
_TASKS_OF_LINE: Final = (
    f"SELECT {_TASK_COLUMNS} FROM chosen l JOIN {{s}}.task t ON t.id = l.id AND t.thread = @key AND t.ns = $2"
)
# What a row names stands behind its first byte, see docs/explanation/storage-layout.md.
_BLOCKS_OF_LINE: Final = """SELECT key, data FROM {s}.segment WHERE thread = @key AND key IN (
    SELECT substring(c.body FROM 2 FOR 16) FROM chosen l
        JOIN {s}.checkpoint c ON c.id = l.id AND c.thread = @key AND c.ns = $2)"""
_LINE_PUTS: Final = (TEXT, TEXT, TEXT, INT)

_ROW: Final = f"SELECT {_COLUMNS} FROM {{s}}.checkpoint c WHERE c.thread = $1"
_OF_TASK: Final = f"SELECT {_TASK_COLUMNS} FROM {{s}}.task t WHERE t.thread = $1"
_KEY: Final = "(SELECT key FROM {s}.thread WHERE thread_id = $1)"
_NEWEST: Final = "c.flags & 1 = 0 ORDER BY c.id DESC LIMIT 1"
_NAMES: Final = "JOIN unnest($2, $3) AS n (ns, id)"

Make: TypeAlias = Callable[..., Query]
"""Makes a statement of one with ``{s}`` for the schema, the kinds of its parameters, and of its columns."""

# Statements see one state of the database, or only what was committed when each of them began.
BEGIN_READING: Final = Query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")()
BEGIN_WRITING: Final = Query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")()
COMMIT: Final = Query("COMMIT")()
ROLLBACK: Final = Query("ROLLBACK")()
# The number of this transaction, and what became of one. Older names than pg_current_xact_id, for older servers.
NUMBER: Final = Query("SELECT txid_current()", (), (INT,))()
OUTCOME: Final = Query("SELECT txid_status($1)", (INT,), (TEXT,))


def quoted(schema: str) -> str:
    """The name of a schema in a statement; ValueError for one that PostgreSQL would refuse or shorten."""
    if not schema or "\0" in schema or len(schema.encode()) > 63:
        raise ValueError(f"a schema's name has 1 to 63 bytes and no character 0, unlike {schema!r}")
    if schema.startswith("pg_"):
        raise ValueError(f"PostgreSQL keeps names that begin with pg_ for itself; do not use {schema!r}")
    return '"' + schema.replace('"', '""') + '"'


class Statements:
    """The statements of one schema."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        name = quoted(schema)

        def query(sql: str, puts: tuple[Kind, ...] = (), takes: tuple[Kind, ...] = ()) -> Query:
            return Query(sql.replace("{s}", name), puts, takes)

        self._read(query)
        self._read_everything(query)
        self._look(query)
        self._add(query)
        self._remove(query)

    def _read(self, query: Make) -> None:
        """What is asked for by its name."""
        self.thread = query("SELECT key, salt FROM {s}.thread WHERE thread_id = $1", (TEXT,), (INT, BLOB))
        self.newest = query(f"{_ROW} AND c.ns = $2 AND {_NEWEST}", (INT, TEXT), _CHECKPOINT)
        self.by_id = query(f"{_ROW} AND c.ns = $2 AND c.id = $3", (INT, TEXT, TEXT), _CHECKPOINT)
        row, of_task = (part.replace("$1", _KEY) for part in (_ROW, _OF_TASK))
        latest = f"(SELECT c.id FROM {{s}}.checkpoint c WHERE c.thread = {_KEY} AND c.ns = $2 AND {_NEWEST})"
        self.newest_of = (
            query(f"{row} AND c.ns = $2 AND {_NEWEST}", (TEXT, TEXT), _CHECKPOINT),
            query(f"{of_task} AND t.ns = $2 AND t.id = {latest}", (TEXT, TEXT), _TASK),
        )
        """Of a thread by its id: the newest row, and its tasks."""
        self.by_id_of = (
            query(f"{row} AND c.ns = $2 AND c.id = $3", (TEXT, TEXT, TEXT), _CHECKPOINT),
            query(f"{of_task} AND t.ns = $2 AND t.id = $3", (TEXT, TEXT, TEXT), _TASK),
        )
        self.by_names = query(
            f"SELECT {_COLUMNS} FROM {{s}}.checkpoint c {_NAMES} ON c.ns = n.ns AND c.id = n.id WHERE c.thread = $1",
            (INT, TEXTS, TEXTS), _CHECKPOINT,
        )  # fmt: skip
        self.keys = query(
            """SELECT t.thread_id, c.ns, c.id FROM {s}.checkpoint c JOIN {s}.thread t ON t.key = c.thread
            WHERE c.flags & 1 = 0 AND ($1 IS NULL OR t.thread_id = $1) AND ($2 IS NULL OR c.ns = $2)
                AND ($3 IS NULL OR c.id = $3) AND ($4 IS NULL OR c.id < $4)
            ORDER BY c.id DESC, t.thread_id, c.ns LIMIT $5""",
            (TEXT, TEXT, TEXT, TEXT, INT), (TEXT, TEXT, TEXT),
        )  # fmt: skip
        self.tasks = query(
            f"SELECT {_TASK_COLUMNS} FROM {{s}}.task t {_NAMES} ON t.ns = n.ns AND t.id = n.id WHERE t.thread = $1",
            (INT, TEXTS, TEXTS), _TASK,
        )  # fmt: skip
        self.task = query(f"{_OF_TASK} AND t.ns = $2 AND t.id = $3 AND t.task_id = $4", (INT, TEXT, TEXT, TEXT), _TASK)
        self.line, self.tasks_of_line = (
            query(f"{_LINE_FROM} {part}".replace("@key", "$1").replace("@id", "$3"), (INT, TEXT, TEXT, INT), takes)
            for part, takes in ((_ROWS_OF_LINE, _CHECKPOINT), (_TASKS_OF_LINE, _TASK))
        )
        line = _LINE_FROM.replace("@key", _KEY).replace("@id", f"coalesce($3, {latest})")
        self.trail = [
            query(f"{line} {part}".replace("@key", _KEY), _LINE_PUTS, takes)
            for part, takes in (
                (_ROWS_OF_LINE, _CHECKPOINT), (_TASKS_OF_LINE, _TASK), (_BLOCKS_OF_LINE, (BLOB, BLOB)),
            )
        ]  # fmt: skip
        """Of a thread by its id: the rows of a line, its tasks, and the segments that the rows name."""
        self.values = query(
            "SELECT id, body FROM {s}.value WHERE thread = $1 AND id = ANY ($2)", (INT, INTS), (INT, BLOB)
        )
        self.segments = query(
            "SELECT key, data FROM {s}.segment WHERE thread = $1 AND key = ANY ($2)", (INT, BLOBS), (BLOB, BLOB)
        )
        # Of a value that is no patch the keys stand behind three bytes. What is no key at these places names nothing.
        self.first_segments = query(
            """SELECT key, data FROM {s}.segment WHERE thread = $1 AND key IN (
                SELECT unnest($2)
                UNION SELECT substring(body FROM at FOR 16) FROM {s}.value,
                    (SELECT unnest(ARRAY[2, 18]) UNION ALL SELECT generate_series(4, 640, 16)) AS keys (at)
                    WHERE thread = $1 AND id = ANY ($3) AND get_byte(body, 0) > 0 AND at < length(body))""",
            (INT, BLOBS, INTS), (BLOB, BLOB),
        )  # fmt: skip

    def _read_everything(self, query: Make) -> None:
        """What a thread has, and what there is of threads."""
        self.every_checkpoint = query(_ROW, (INT,), _CHECKPOINT)
        self.every_task = query(_OF_TASK, (INT,), _TASK)
        self.every_value = query("SELECT id, body FROM {s}.value WHERE thread = $1", (INT,), (INT, BLOB))
        self.every_segment = query("SELECT key, data FROM {s}.segment WHERE thread = $1", (INT,), (BLOB, BLOB))
        self.value_sizes = query("SELECT id, length(body)::bigint FROM {s}.value WHERE thread = $1", (INT,), (INT, INT))
        self.segment_sizes = query(
            "SELECT key, length(data)::bigint FROM {s}.segment WHERE thread = $1", (INT,), (BLOB, INT)
        )
        self.runs = query(
            """SELECT DISTINCT t.thread_id FROM {s}.checkpoint c JOIN {s}.thread t ON t.key = c.thread
            WHERE c.run_id = ANY ($1)""",
            (TEXTS,), (TEXT,),
        )  # fmt: skip
        self.threads = query(
            """SELECT t.thread_id, found.* FROM (
                SELECT thread, count(*), max(id) AS last, (array_agg(ts ORDER BY id DESC))[1], array_agg(DISTINCT ns)
                FROM {s}.checkpoint WHERE flags & 1 = 0 GROUP BY thread
            ) found JOIN {s}.thread t ON t.key = found.thread ORDER BY found.last DESC""",
            (), (TEXT, INT, INT, TEXT, TEXT, TEXTS),
        )  # fmt: skip
        self.thread_ids = query("SELECT thread_id FROM {s}.thread ORDER BY thread_id", (), (TEXT,))

    def _look(self, query: Make) -> None:
        """What a writer asks for at once."""
        self.hold = query("SELECT {s}.hold($1)", (TEXT,))
        self.heads = query(
            f"""SELECT c.* FROM unnest($2) AS n (ns) CROSS JOIN LATERAL (
                SELECT {_COLUMNS} FROM {{s}}.checkpoint c WHERE c.thread = {_KEY} AND c.ns = n.ns AND {_NEWEST}
            ) c""",
            (TEXT, TEXTS), _CHECKPOINT,
        )  # fmt: skip
        self.bodies = query(
            f"""SELECT c.ns, c.id, c.body FROM {{s}}.checkpoint c {_NAMES} ON c.ns = n.ns AND c.id = n.id
            WHERE c.thread = {_KEY}""",
            (TEXT, TEXTS, TEXTS), (TEXT, TEXT, BLOB),
        )  # fmt: skip
        self.named_tasks = query(
            f"""SELECT {_TASK_COLUMNS} FROM {{s}}.task t JOIN unnest($2, $3, $4) AS n (ns, id, task_id)
                ON t.ns = n.ns AND t.id = n.id AND t.task_id = n.task_id WHERE t.thread = {_KEY}""",
            (TEXT, TEXTS, TEXTS, TEXTS), _TASK,
        )  # fmt: skip

    def _add(self, query: Make) -> None:
        """What a writer adds."""
        self.make_thread = query("INSERT INTO {s}.thread (key, thread_id, salt) VALUES ($2, $1, $3)", (TEXT, INT, BLOB))
        places = ", ".join(f"${at + 1}" for at in range(len(PARAMETERS)))
        self.store = query(f"SELECT {{s}}.store({places})", PARAMETERS, (BOOL,))
        self.flag = query(
            "UPDATE {s}.checkpoint SET flags = $4::bigint WHERE thread = $1 AND ns = $2 AND id = $3",
            (INT, TEXT, TEXT, INT),
        )

    def _remove(self, query: Make) -> None:
        """What goes."""
        self.drops = [
            query(
                f"DELETE FROM {{s}}.{table} c USING unnest($2, $3) AS n (ns, id) "
                "WHERE c.thread = $1 AND c.ns = n.ns AND c.id = n.id",
                (INT, TEXTS, TEXTS),
            )
            for table in ("checkpoint", "task")
        ]
        self.drop_task = query(
            "DELETE FROM {s}.task WHERE thread = $1 AND ns = $2 AND id = $3 AND task_id = $4", (INT, TEXT, TEXT, TEXT)
        )
        self.sweep_values = query(
            """DELETE FROM {s}.value v
            WHERE thread = $1 AND NOT EXISTS (SELECT FROM unnest($2) k (id) WHERE k.id = v.id)""",
            (INT, INTS),
        )
        self.sweep_segments = query(
            """DELETE FROM {s}.segment v
            WHERE thread = $1 AND NOT EXISTS (SELECT FROM unnest($2) k (key) WHERE k.key = v.key)""",
            (INT, BLOBS),
        )
        self.drop_all = [
            query(f"DELETE FROM {{s}}.{table} WHERE {column} = $1", (INT,))
            for table, column in (*((each, "thread") for each in _OF_THREADS), ("thread", "key"))
        ]
