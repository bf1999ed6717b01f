"""The promises of a store, kept by each kind: items, searching, namespaces, expiry and likeness, in both colours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.conftest import Call
from threadmark.errors import ColourError, ThreadmarkError
from threadmark.store.base import (
    BaseStore,
    GetOp,
    InvalidFilterError,
    InvalidItemError,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
    StoreError,
)
from threadmark.store.memory import InMemoryStore
from threadmark.store.sqlite import SqliteStore


class Clock:
    """A clock that a test moves; in minutes."""

    now = 0.0

    def __call__(self) -> float:
        return self.now * 60


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Any]:
    """Makes empty stores of one kind."""
    with ExitStack() as opened:

        def sqlite(**more: Any) -> SqliteStore:
            conn = opened.enter_context(closing(sqlite3.connect(":memory:", check_same_thread=False)))
            return opened.enter_context(SqliteStore(conn, clock=clock, **more))

        yield sqlite if request.param == "sqlite" else lambda **more: InMemoryStore(clock=clock, **more)


@pytest.fixture
def store(make: Any) -> BaseStore:
    return make()


@pytest.fixture
def fruits(call: Call, store: BaseStore) -> BaseStore:
    for number, (namespace, value) in enumerate(
        [
            (("eu", "fruit"), {"name": "apple", "price": 3, "origin": {"land": "it", "bio": True}}),
            (("eu", "fruit"), {"name": "pear", "price": 5.5}),
            (("us", "fruit"), {"name": "plum", "price": "free"}),
            (("eu", "nut"), {"name": "almond", "price": None}),
        ]
    ):
        call(store, "put", namespace, f"k{number}", value)
    return store


def names(items: list[SearchItem]) -> list[str]:
    return [item.value["name"] for item in items]


# -- one item --------------------------------------------------------------------------------------------------------


def test_what_is_put_is_found_at_its_address_only(call: Call, store: BaseStore) -> None:
    call(store, "put", ("users", "ann"), "likes", {"food": ["pasta"]})
    item = call(store, "get", ("users", "ann"), "likes")
    assert (item.namespace, item.key, item.value) == (("users", "ann"), "likes", {"food": ["pasta"]})
    assert call(store, "get", ("users",), "likes") is None
    assert call(store, "get", ("users", "ann"), "other") is None


def test_a_second_put_replaces_the_value_and_keeps_the_first_time(call: Call, store: BaseStore) -> None:
    call(store, "put", ("a",), "k", {"v": 1})
    first = call(store, "get", ("a",), "k")
    call(store, "put", ("a",), "k", {"w": 2})
    second = call(store, "get", ("a",), "k")
    assert second.value == {"w": 2}
    assert second.created_at == first.created_at <= first.updated_at <= second.updated_at


def test_a_deleted_item_is_gone_and_deleting_twice_is_fine(call: Call, store: BaseStore) -> None:
    call(store, "put", ("a",), "k", {"v": 1})
    call(store, "delete", ("a",), "k")
    call(store, "delete", ("a",), "k")
    assert call(store, "get", ("a",), "k") is None
    assert call(store, "list_namespaces") == []


def test_the_store_shares_no_values_with_its_callers(call: Call, store: BaseStore) -> None:
    value = {"list": [1]}
    call(store, "put", ("a",), "k", value)
    value["list"].append(2)
    call(store, "get", ("a",), "k").value["list"].append(3)
    call(store, "search", ("a",))[0].value["list"].append(4)
    assert call(store, "get", ("a",), "k").value == {"list": [1]}


def test_an_item_says_what_it_is() -> None:
    when = "2026-01-02T03:04:05+00:00"
    item = Item(value={"v": 1}, key="k", namespace=("a", "b"), created_at=when, updated_at=when)
    plain = {"namespace": ["a", "b"], "key": "k", "value": {"v": 1}, "created_at": when, "updated_at": when}
    assert item.dict() == plain
    assert item == Item(value={"v": 1}, key="k", namespace=("a", "b"), created_at=when, updated_at=when)
    assert len({item, Item(value={"v": 2}, key="k", namespace=("a", "b"), created_at=when, updated_at=when)}) == 2
    assert repr(item).startswith("Item(namespace=['a', 'b'], key='k'")
    assert SearchItem(("a",), "k", {}, when, when, score=0.5).dict()["score"] == 0.5


# -- addresses that are none -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", [(), ("a", ""), ("a.b",), ("a", 5), "users", None, ("langgraph", "x")])
def test_a_namespace_that_is_none_is_refused(call: Call, store: BaseStore, namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError):
        call(store, "put", namespace, "k", {"v": 1})
    assert call(store, "list_namespaces") == []


@pytest.mark.parametrize(("key", "value"), [(5, {"v": 1}), ("k", [1]), ("k", {1: 2}), (None, {})])
def test_a_key_or_value_that_is_none_is_refused(call: Call, store: BaseStore, key: Any, value: Any) -> None:
    with pytest.raises(InvalidItemError):
        call(store, "put", ("a",), key, value)


def test_every_error_is_one_of_ours() -> None:
    assert issubclass(StoreError, ThreadmarkError)
    assert {InvalidNamespaceError.__base__, InvalidFilterError.__base__, InvalidItemError.__base__} == {StoreError}


# -- searching -------------------------------------------------------------------------------------------------------


def test_a_search_finds_what_lies_under_a_prefix(call: Call, fruits: BaseStore) -> None:
    assert names(call(fruits, "search", ("eu",))) == ["apple", "pear", "almond"]
    assert names(call(fruits, "search", ("eu", "nut"))) == ["almond"]
    assert len(call(fruits, "search", ())) == 4
    assert call(fruits, "search", ("e",)) == []


def test_pages_follow_one_another(call: Call, fruits: BaseStore) -> None:
    pages = [names(call(fruits, "search", ("eu",), limit=2, offset=offset)) for offset in (0, 2, 4)]
    assert pages == [["apple", "pear"], ["almond"], []]


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({"name": "apple"}, ["apple"]),
        ({"name": {"$eq": "pear"}}, ["pear"]),
        ({"name": {"$ne": "apple"}}, ["pear", "plum", "almond"]),
        ({"price": {"$gt": 3}}, ["pear"]),
        ({"price": {"$gte": 3}}, ["apple", "pear"]),
        ({"price": {"$lt": 5}}, ["apple"]),
        ({"price": {"$lte": 5.5, "$gt": 3}}, ["pear"]),
        ({"price": {"$lt": "g"}}, ["plum"]),
        ({"price": None}, ["almond"]),
        ({"origin": {"land": "it"}}, ["apple"]),
        ({"origin": {"land": {"$ne": "fr"}, "bio": True}}, ["apple"]),
        ({"name": "apple", "price": 4}, []),
        ({"colour": "red"}, []),
    ],
    ids=str,
)
def test_filters(call: Call, fruits: BaseStore, filter: Any, found: list[str]) -> None:
    assert sorted(names(call(fruits, "search", (), filter=filter))) == sorted(found)


def test_an_unknown_operator_is_refused_by_name(call: Call, fruits: BaseStore) -> None:
    with pytest.raises(InvalidFilterError, match=r"\$like"):
        call(fruits, "search", (), filter={"name": {"$like": "a%"}})


# -- namespaces ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, [("eu", "fruit"), ("eu", "nut"), ("us", "fruit")]),
        ({"prefix": ("eu",)}, [("eu", "fruit"), ("eu", "nut")]),
        ({"suffix": ("fruit",)}, [("eu", "fruit"), ("us", "fruit")]),
        ({"prefix": ("eu",), "suffix": ("fruit",)}, [("eu", "fruit")]),
        ({"prefix": ("*", "nut")}, [("eu", "nut")]),
        ({"suffix": ("us", "*")}, [("us", "fruit")]),
        ({"prefix": ("eu", "fruit", "more")}, []),
        ({"max_depth": 1}, [("eu",), ("us",)]),
        ({"limit": 1, "offset": 1}, [("eu", "nut")]),
    ],
    ids=str,
)
def test_listing_namespaces(call: Call, fruits: BaseStore, asked: Any, found: Any) -> None:
    assert call(fruits, "list_namespaces", **asked) == found


def test_an_unknown_kind_of_condition_is_refused(call: Call, fruits: BaseStore) -> None:
    condition: Any = MatchCondition("infix", ("eu",))  # type: ignore[arg-type]
    with pytest.raises(InvalidFilterError, match="infix"):
        call(fruits, "batch", [ListNamespacesOp((condition,))])


# -- several at once -------------------------------------------------------------------------------------------------


def test_a_batch_reads_what_was_there_before_it(call: Call, store: BaseStore) -> None:
    call(store, "put", ("a",), "old", {"v": 0})
    results = call(
        store,
        "batch",
        [
            PutOp(("a",), "new", {"v": 1}),
            GetOp(("a",), "new"),
            PutOp(("a",), "new", {"v": 2}),
            SearchOp(("a",)),
            PutOp(("a",), "old", None),
            GetOp(("a",), "old"),
        ],
    )
    assert results[:3] == [None, None, None]
    assert [item.key for item in results[3]] == ["old"]
    assert results[5].value == {"v": 0}
    assert [item.value for item in call(store, "search", ("a",))] == [{"v": 2}]


def test_what_is_no_operation_is_refused_before_anything_is_done(call: Call, store: BaseStore) -> None:
    with pytest.raises(StoreError, match="no operation"):
        call(store, "batch", [PutOp(("a",), "k", {}), "get"])
    assert call(store, "get", ("a",), "k") is None


# -- expiry ----------------------------------------------------------------------------------------------------------


def test_an_item_lives_as_long_as_it_was_given(call: Call, store: BaseStore, clock: Clock) -> None:
    call(store, "put", ("a",), "short", {"v": 1}, ttl=10)
    call(store, "put", ("b",), "ever", {"v": 2})
    clock.now = 9.9
    assert call(store, "get", ("a",), "short", refresh_ttl=False) is not None
    clock.now = 10
    assert call(store, "get", ("a",), "short") is None
    assert [item.key for item in call(store, "search", ())] == ["ever"]
    assert call(store, "list_namespaces") == [("b",)]


def test_reading_starts_the_time_anew_unless_told_not_to(call: Call, store: BaseStore, clock: Clock) -> None:
    for key in ("got", "found", "peeked"):
        call(store, "put", (key,), key, {"v": 1}, ttl=10)
    clock.now = 8
    call(store, "get", ("got",), "got")
    call(store, "search", ("found",))
    call(store, "search", ("peeked",), refresh_ttl=False)
    clock.now = 12
    assert {item.key for item in call(store, "search", (), refresh_ttl=False)} == {"got", "found"}


def test_a_store_may_be_set_to_forget(call: Call, make: Any, clock: Clock) -> None:
    store = make(ttl={"default_ttl": 10, "refresh_on_read": False})
    call(store, "put", ("a",), "default", {"v": 1})
    call(store, "put", ("a",), "ever", {"v": 1}, ttl=None)
    clock.now = 9
    call(store, "get", ("a",), "default")
    clock.now = 10
    assert call(store, "sweep_ttl") == 1
    assert [item.key for item in call(store, "search", ())] == ["ever"]


def test_expired_items_that_nobody_reads_do_not_pile_up(call: Call, store: BaseStore, clock: Clock) -> None:
    call(store, "batch", [PutOp(("a",), str(number), {"v": number}, ttl=1) for number in range(300)])
    clock.now = 2
    call(store, "batch", [PutOp(("b",), str(number), {"v": number}) for number in range(300)])
    assert call(store, "sweep_ttl") == 0


class Plain(BaseStore):
    """A store whose items do not expire."""

    def batch(self, ops: Any) -> Any:
        return [None for _ in ops]

    async def abatch(self, ops: Any) -> Any:
        return self.batch(ops)


def test_a_time_to_live_is_refused_where_items_do_not_expire(call: Call) -> None:
    call(Plain(), "put", ("a",), "k", {"v": 1})
    with pytest.raises(NotImplementedError, match="Plain"):
        call(Plain(), "put", ("a",), "k", {"v": 1}, ttl=5)


# -- likeness --------------------------------------------------------------------------------------------------------

WORDS = ("cat", "dog", "fish")


def vectors(texts: Any) -> list[list[float]]:
    return [[float(text.count(word)) for word in WORDS] for text in texts]


async def vectors_async(texts: Any) -> list[list[float]]:
    return vectors(texts)


@pytest.fixture
def animals(call: Call, make: Any) -> BaseStore:
    store = make(index={"dims": 3, "embed": vectors, "fields": ["text", "tags[*]"]})
    call(store, "put", ("a",), "cats", {"text": "cat cat dog", "n": 1})
    call(store, "put", ("a",), "dogs", {"text": "dog", "n": 2})
    call(store, "put", ("a",), "tags", {"text": "dog dog cat", "tags": ["fish", "cat"], "n": 3})
    call(store, "put", ("a",), "dark", {"text": "cat", "n": 4}, index=False)
    return store


def test_the_likest_comes_first_and_the_unindexed_last(call: Call, animals: BaseStore) -> None:
    found = call(animals, "search", ("a",), query="cat")
    assert [item.key for item in found] == ["tags", "cats", "dogs", "dark"]
    assert [found[0].score, found[2].score, found[3].score] == [pytest.approx(1.0), pytest.approx(0.0), None]


def test_likeness_and_filters_work_together(call: Call, animals: BaseStore) -> None:
    found = call(animals, "search", ("a",), query="dog", filter={"n": {"$lt": 3}}, limit=1)
    assert [item.key for item in found] == ["dogs"]


def test_without_a_query_or_an_index_there_are_no_scores(call: Call, make: Any, animals: BaseStore) -> None:
    assert {item.score for item in call(animals, "search", ("a",))} == {None}
    plain = make()
    call(plain, "put", ("a",), "k", {"text": "cat"})
    assert call(plain, "search", ("a",), query="cat")[0].score is None


def test_an_item_may_name_its_own_paths(call: Call, animals: BaseStore) -> None:
    call(animals, "put", ("a",), "own", {"text": "dog", "title": "fish"}, index=["title"])
    assert call(animals, "search", ("a",), query="fish")[0].key in {"own", "tags"}
    assert call(animals, "search", ("a",), query="dog", filter={"title": "fish"})[0].score == pytest.approx(0.0)


def test_a_new_value_is_found_by_its_new_text(call: Call, animals: BaseStore) -> None:
    call(animals, "put", ("a",), "cats", {"text": "fish"})
    assert call(animals, "search", ("a",), query="fish", limit=2)[0].score == pytest.approx(1.0)
    assert {item.key for item in call(animals, "search", ("a",), query="fish", limit=2)} == {"cats", "tags"}


def test_a_vector_of_another_length_is_refused(call: Call, make: Any) -> None:
    store = make(index={"dims": 2, "embed": vectors})
    with pytest.raises(StoreError, match="3 numbers"):
        call(store, "put", ("a",), "k", {"text": "cat"})


def test_an_async_embed_function_serves_async_callers(call: Call, make: Any) -> None:
    store = make(index={"dims": 3, "embed": vectors_async})
    if call.colour == "async":
        call(store, "put", ("a",), "k", {"text": "cat"})
        assert call(store, "search", ("a",), query="cat")[0].score == pytest.approx(1.0)
    else:
        with pytest.raises(ColourError, match="'a'"):
            call(store, "put", ("a",), "k", {"text": "cat"})


@pytest.mark.parametrize("wrong", [None, 5, {"embed": vectors}])
def test_what_makes_no_vectors_is_refused(make: Any, wrong: Any) -> None:
    with pytest.raises(StoreError):
        make(index={"dims": 3, "embed": wrong})
