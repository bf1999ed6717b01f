"""Random histories: edits of every kind, forks, prunes, copies, cold starts; each version of each branch reads back."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from threadmark.checkpoint.base import WRITES_IDX_MAP
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver

LINES = st.integers(0, 60).flatmap(lambda n: st.sampled_from([f"line {n} ", f"row number {n}: nothing new. "]))
PLACES = [("t", ""), ("t", "child"), ("u", "")]


class Histories(RuleBasedStateMachine):
    """Savers on one store, and what they should hold: {(thread, ns): {id: (values, writes)}}."""

    known = Bundle("known")

    def open(self) -> list[Any]:
        """Two savers on one store, each with a memory of its own."""
        raise NotImplementedError

    @initialize(counted=st.booleans())
    def start(self, counted: bool) -> None:
        self.counted, self.version, self.ticks = counted, 0, 0
        self.model: dict[tuple[str, str], dict[str, tuple[dict[str, Any], dict[Any, Any]]]] = {}
        self.savers = self.open()

    def next_version(self) -> Any:
        """Whole numbers meet on branches: each branch counts from its parent. Texts do not."""
        self.version += 1
        return self.version % 7 if self.counted else f"{self.version:032}.0"

    def saver(self, which: int) -> Any:
        return self.savers[which % len(self.savers)]

    @rule(target=known, place=st.sampled_from(PLACES), which=st.integers(0, 1), line=LINES, count=st.integers(0, 300))
    def first(self, place: tuple[str, str], which: int, line: str, count: int) -> Any:
        values = {"rows": [line * 2 + str(n) for n in range(count)], "n": count}
        return self.put(place, None, values, list(values), which)

    @rule(
        target=known,
        at=known,
        which=st.integers(0, 1),
        how=st.sampled_from(["append", "prepend", "edit", "insert", "trim", "replace", "clear", "nest", "none"]),
        line=LINES,
        place=st.integers(0, 10_000),
        step=st.booleans(),
    )
    def edited(self, at: Any, which: int, how: str, line: str, place: int, step: bool) -> Any:
        (where, id) = at
        values, _ = self.model.get(where, {}).get(id, ({"rows": [line], "n": 0}, {}))
        rows = list(values.get("rows", [])) if isinstance(values.get("rows"), list) else [line]
        spot = place % (len(rows) + 1)
        match how:
            case "append":
                rows += [line * 9]
            case "prepend":
                rows = [line * 9, *rows]
            case "edit" if rows:
                rows[spot % len(rows)] = line + " edited"
            case "insert":
                rows.insert(spot, line * 30)
            case "trim":
                rows = rows[-20:]
            case "replace":
                rows = [line * 3] * (place % 200)
            case "clear":
                return self.put(where, id, {"n": place}, ["rows", "n"], which)
        changed = {**values, "rows": {"deep": {"log": rows}} if how == "nest" else rows, "n": place}
        moved = ["n"] if how == "none" else ["rows", "n"]
        if how == "none":
            changed["rows"] = values.get("rows", rows)
            moved = ["n"] if "rows" in values else ["rows", "n"]
        return self.put(where, id, changed, moved, which, step=step)

    def put(
        self, where: tuple[str, str], parent: str | None, values: dict[str, Any], moved: list[str], which: int,
        *, step: bool = False,
    ) -> Any:  # fmt: skip
        thread_id, ns = where
        before = self.model.get(where, {}).get(parent or "", ({}, {}))
        versions = dict(self.versions.get((where, parent), {})) if before[0] else {}
        version = self.next_version()
        moved = [*moved, *(channel for channel in values if channel not in versions)]
        versions |= dict.fromkeys(moved, version)
        self.ticks += 1
        made = checkpoint(values, versions, id=f"{self.ticks:08}")
        new = {channel: versions[channel] for channel in moved}
        asked = config(thread_id, parent, ns)
        tasks = [("task", "~p", [("rows", values.get("rows"))])] if step and parent else []
        self.saver(which).put_step(asked, made, {"step": self.ticks}, new, tasks)
        if tasks:
            self.note_writes(where, parent or "", "task", tasks[0][2])
        writes = self.model.setdefault(where, {}).get(made["id"], ({}, {}))[1] | self.early.pop((where, made["id"]), {})
        self.model[where][made["id"]] = (values, writes)
        self.versions[where, made["id"]] = versions
        return (where, made["id"])

    @property
    def versions(self) -> dict[Any, Any]:
        return self.__dict__.setdefault("_versions", {})

    @property
    def early(self) -> dict[Any, Any]:
        return self.__dict__.setdefault("_early", {})

    def note_writes(self, where: tuple[str, str], id: str, task: str, writes: list[Any]) -> None:
        stored = self.model.get(where, {}).get(id)
        kept = stored[1] if stored is not None else self.early.setdefault((where, id), {})
        for place, (channel, value) in enumerate(writes):
            key = (task, WRITES_IDX_MAP.get(channel, place))
            if key[1] < 0 or key not in kept:
                kept[key] = (task, channel, value)

    @rule(at=known, which=st.integers(0, 1), line=LINES, count=st.integers(0, 120), special=st.booleans())
    def wrote(self, at: Any, which: int, line: str, count: int, special: bool) -> None:
        (where, id) = at
        writes: list[Any] = [("rows", [line * 5] * count), ("n", count)]
        if special:
            writes.append(("__interrupt__", line))
        self.saver(which).put_writes(config(where[0], id, where[1]), writes, f"task {count % 3}", "~p")
        self.note_writes(where, id, f"task {count % 3}", writes)

    @rule(place=st.sampled_from(PLACES), which=st.integers(0, 1))
    def pruned(self, place: tuple[str, str], which: int) -> None:
        self.saver(which).prune([place[0]])
        for where, stored in self.model.items():
            if where[0] == place[0] and stored:
                newest = max(stored)
                self.model[where] = {newest: stored[newest]}
                for other, id in list(self.early):
                    if other == where and id < newest:
                        del self.early[other, id]

    @rule(which=st.integers(0, 1), thread_id=st.sampled_from(["t", "u"]))
    def deleted(self, which: int, thread_id: str) -> None:
        self.saver(which).delete_thread(thread_id)
        for where in [where for where in self.model if where[0] == thread_id]:
            del self.model[where]
        for key in [key for key in self.early if key[0][0] == thread_id]:
            del self.early[key]

    @rule(target=known, which=st.integers(0, 1))
    def copied(self, which: int) -> Any:
        if not any(where[0] == "t" and stored for where, stored in self.model.items()):
            return multiple()
        self.deleted(which, "u")
        self.saver(which).copy_thread("t", "u")
        for where in [where for where in self.model if where[0] == "t"]:
            copy = ("u", where[1])
            self.model[copy] = {id: (values, dict(writes)) for id, (values, writes) in self.model[where].items()}
            self.versions.update({(copy, id): self.versions[where, id] for id in self.model[copy]})
        for (where, id), writes in list(self.early.items()):
            if where[0] == "t":
                self.early[("u", where[1]), id] = dict(writes)
        return multiple(*((where, id) for where in self.model if where[0] == "u" for id in self.model[where]))

    @rule(which=st.integers(0, 1))
    def forgot(self, which: int) -> None:
        self.saver(which)._caches.clear()

    @invariant()
    def newest_reads(self) -> None:
        for where, stored in getattr(self, "model", {}).items():
            found = self.saver(self.ticks).get_tuple(config(where[0], ns=where[1]))
            assert (found.config["configurable"]["checkpoint_id"] if found else "") == max(stored, default="")

    def teardown(self) -> None:
        for saver in [*getattr(self, "savers", ()), *(self.open() if hasattr(self, "savers") else ())]:
            for where, stored in self.model.items():
                found = {f.checkpoint["id"]: f for f in saver.list(config(where[0], ns=where[1]))}
                assert found.keys() == stored.keys()
                for id, (values, writes) in stored.items():
                    assert found[id].checkpoint["channel_values"] == values
                    assert found[id].pending_writes == [writes[key] for key in sorted(writes)]


class InMemory(Histories):
    def open(self) -> list[Any]:
        self.__dict__.setdefault("_saver", InMemorySaver())
        return [self._saver]  # type: ignore[attr-defined]


class OnDisk(Histories):
    serde: Any = None

    def open(self) -> list[Any]:
        folder = self.__dict__.setdefault("_folder", tempfile.mkdtemp())
        path = str(Path(folder) / "threads.db")
        savers = [SqliteSaver.from_conn_string(path, synchronous="OFF", serde=self.serde) for _ in range(2)]
        savers[1]._caches = Caches(scale=0.001)
        self.__dict__.setdefault("_opened", []).extend(savers)
        return savers

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            for saver in self.__dict__.get("_opened", ()):
                saver.close()
            if "_folder" in self.__dict__:
                shutil.rmtree(self._folder)  # type: ignore[attr-defined]


class Encrypted(OnDisk):
    serde = EncryptedSerializer.from_keys({"k": b"k" * 32})


QUICK = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
TestInMemory = InMemory.TestCase
TestOnDisk = OnDisk.TestCase
TestEncrypted = Encrypted.TestCase
TestInMemory.settings = TestOnDisk.settings = TestEncrypted.settings = QUICK
