"""Calls that meet: what is found afterwards is what some order of them leaves, and every answer is whole."""

from __future__ import annotations

from functools import partial
from typing import Any

from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config, content, filled

WRITERS = 6


def succeeded(results: list[Any]) -> list[Any]:
    """The results of calls that met; the error of one is raised here."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


class RaceChecks:
    """What holds when several threads, or tasks of one event loop, use a saver at once."""

    capability = "put"

    def test_writers_of_one_id(self, saver: Any, call: Any) -> None:
        made = [checkpoint({"a": f"{n}" * 500, "b": n}, {"a": n + 1, "b": n + 1}, id="same") for n in range(WRITERS)]
        succeeded(
            call.together(
                [
                    lambda c, one=one: c(saver, "put", config(), one, {"b": one["channel_values"]["b"]},
                                         one["channel_versions"])
                    for one in made
                ]
            )
        )  # fmt: skip
        (found,) = call(saver, "list", config())
        assert found.checkpoint in made
        assert found.metadata == {"b": found.checkpoint["channel_values"]["b"]}

    def test_writers_of_one_thread(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        root = grown.put({"a": "root"})
        made = [checkpoint({"a": f"{n}" * 500}, {"a": f"{9 + n:032}"}) for n in range(WRITERS)]
        results = succeeded(call.together([partial(_put, saver, root, one) for one in made]))
        assert [call(saver, "get", at)["channel_values"] for at in results] == [one["channel_values"] for one in made]
        assert len(call(saver, "list", config())) == WRITERS + 1

    def test_writers_of_several_threads(self, saver: Any, call: Any) -> None:
        succeeded(call.together([lambda c, n=n: filled(saver, c, f"t{n}", count=3) for n in range(WRITERS)]))
        for number in range(WRITERS):
            assert len(content(saver, call, f"t{number}")) == 3

    def test_the_same_writes_by_several(self, saver: Any, call: Any) -> None:
        at = Grown(saver, call).put({"a": 1})
        writes = [("a", 1), ("b", "x" * 3000), ("__interrupt__", ["q"])]
        succeeded(call.together([lambda c: c(saver, "put_writes", at, writes, "task", "~p") for _ in range(WRITERS)]))
        found = call(saver, "get_tuple", at).pending_writes
        assert found == [("task", "__interrupt__", ["q"]), ("task", "a", 1), ("task", "b", "x" * 3000)]

    def test_writes_of_several_tasks(self, saver: Any, call: Any) -> None:
        at = Grown(saver, call).put({"a": 1})
        succeeded(
            call.together(
                [lambda c, n=n: c(saver, "put_writes", at, [("a", n), ("a", n)], f"{n}", "~p") for n in range(WRITERS)]
            )
        )
        found = call(saver, "get_tuple", at).pending_writes
        assert found == [(f"{n}", "a", n) for n in range(WRITERS) for _ in range(2)]

    def test_delete_while_listing(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call, count=30)
        filled(saver, call, "other", count=2)
        items = call.stepwise(saver, "list", config())
        first = next(items)
        assert first.config == grown.config
        call(saver, "delete_thread", "t")
        for item in items:
            assert len(item.checkpoint["channel_values"]["rows"]) == item.metadata["step"] + 2
        assert call(saver, "list", config()) == []
        assert len(call(saver, "list", None)) == 2

    def test_put_while_listing(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call, count=10)
        items = call.stepwise(saver, "list", config())
        seen = [next(items)]
        for number in range(3):
            grown.put({"rows": list(range(number)), "same": ""})
        seen += items
        ids = [item.config["configurable"]["checkpoint_id"] for item in seen]
        assert ids == sorted(set(ids), reverse=True)
        older = [at["configurable"]["checkpoint_id"] for at in grown.configs[:10]]
        assert set(older) <= set(ids)

    def test_delete_while_putting(self, saver: Any, call: Any) -> None:
        for number in range(5):
            at = filled(saver, call, count=2).config
            made = checkpoint({"rows": ["new"], "same": "y" * 3000}, {"rows": f"{number + 9:032}", "same": "9"})
            put = partial(_put, saver, at, made)
            succeeded(call.together([lambda c: c(saver, "delete_thread", "t"), put]))
            assert [item.checkpoint for item in call(saver, "list", config())] in ([], [made])
            call(saver, "delete_thread", "t")


def _put(saver: Any, at: Any, made: Any, call: Any) -> Any:
    return call(saver, "put", at, made, {}, made["channel_versions"])


class PruneRaceChecks:
    """``prune`` while others write."""

    capability = "prune"

    def test_prune_while_putting(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call, count=2)
        rows = grown.values()["rows"]

        def write(c: Any) -> None:
            grown.call = c
            for number in range(8):
                grown.put({"rows": [*rows, number], "same": "x" * 3000}, changed=["rows"])
                c(saver, "put_writes", grown.config, [("rows", number)], "task", "~p")

        def prune(c: Any) -> None:
            for _ in range(4):
                c(saver, "prune", ["t"])

        succeeded(call.together([write, prune]))
        for item in call(saver, "list", config()):
            assert item.checkpoint["channel_values"]["same"] == "x" * 3000
        assert grown.values() == {"rows": [*rows, 7], "same": "x" * 3000}
        assert call(saver, "get_tuple", config()).pending_writes == [("task", "rows", 7)]


class CopyRaceChecks:
    """``copy_thread`` while others write."""

    capability = "copy_thread"

    def test_copy_while_putting(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call, count=3)

        def write(c: Any) -> None:
            grown.call = c
            for number in range(5):
                grown.put({"rows": [number], "same": "x" * 3000}, changed=["rows"])

        succeeded(call.together([write, lambda c: c(saver, "copy_thread", "t", "copy")]))
        copied = content(saver, call, "copy")
        assert copied == content(saver, call, "t")[-len(copied) :]
        assert len(copied) >= 3
