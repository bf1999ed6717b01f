-- Format 1. docs/explanation/storage-layout.md says what the bodies hold.

-- One row: the format of this file. A file without it is not ours and is never written.
CREATE TABLE threadmark (format INTEGER NOT NULL);

-- Ids are never given out twice, so that a stale memory of a deleted thread cannot meet a new one.
CREATE TABLE thread (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    thread_id TEXT NOT NULL UNIQUE,
    salt BLOB NOT NULL
);

CREATE TABLE checkpoint (
    thread INTEGER NOT NULL,
    ns TEXT NOT NULL,
    id TEXT NOT NULL,
    parent TEXT,
    source TEXT,
    step INTEGER,
    run_id TEXT,
    ts TEXT NOT NULL,
    parents TEXT,
    flags INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (thread, ns, id)
) WITHOUT ROWID;

CREATE INDEX checkpoint_run ON checkpoint (run_id) WHERE run_id IS NOT NULL;

-- What one task wrote. No foreign key: writes may arrive before their checkpoint.
CREATE TABLE task (
    thread INTEGER NOT NULL,
    ns TEXT NOT NULL,
    id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    path TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (thread, ns, id, task_id)
) WITHOUT ROWID;

CREATE TABLE value (
    thread INTEGER NOT NULL,
    id INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (thread, id)
) WITHOUT ROWID;

-- Data may be long, so this is a table with rowids; the key is short.
CREATE TABLE segment (
    thread INTEGER NOT NULL,
    key BLOB NOT NULL,
    data BLOB NOT NULL
);

CREATE UNIQUE INDEX segment_key ON segment (thread, key);

-- For people and their tools.
CREATE VIEW checkpoints AS
    SELECT thread.thread_id AS thread_id, ns AS checkpoint_ns, checkpoint.id AS checkpoint_id,
           CASE WHEN flags & 2 THEN NULL ELSE parent END AS parent_checkpoint_id,
           source, step, run_id, ts
    FROM checkpoint JOIN thread ON thread.id = checkpoint.thread
    WHERE flags & 1 = 0;
