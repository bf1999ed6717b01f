"""A strict fake of Azure Cosmos DB for NoSQL: ``python -m tests.services.cosmos_fake PORT [RANGES [CERTIFICATE]]``.

It speaks the part of the REST protocol that the SDK uses for the saver, and refuses everything else with an error,
never with a guess. ``POST /_fake`` arranges for trouble, ``GET /_fake`` tells what was asked since the last time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
import sys
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.services.cosmos_sql import NotUnderstood, Statement, parsed
from tests.services.cosmos_store import BATCH_LIMIT, Container, Refused, query_price, size_of

KEY = base64.b64encode(b"the key of the fake account").decode()
TOKEN = "a token of the fake directory"
PAGE = 40
"""Items on a page; few, so that continuation is really used."""
PAGE_BYTES = 4 * 1024 * 1024
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Fake:
    """One account."""

    def __init__(self, port: int, ranges: int = 1, scheme: str = "http") -> None:
        self.url = f"{scheme}://127.0.0.1:{port}/"
        self.ranges = ranges
        self.databases: dict[str, dict[str, Container]] = {}
        self.lsn = 0
        self.asked: Counter[str] = Counter()
        self.units = 0.0
        self.trouble: list[dict[str, Any]] = []
        self.regions, self.level = ["here"], "Session"

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded], client_max_size=64 << 20)
        colls = "/dbs/{db}/colls/{coll}"
        routes: tuple[tuple[str, str, Handler], ...] = (
            ("POST", "/dbs", self.make_database),
            ("GET", "/dbs/{db}", self.database),
            ("DELETE", "/dbs/{db}", self.drop_database),
            ("POST", "/dbs/{db}/colls", self.make_container),
            ("GET", colls, self.container),
            ("DELETE", colls, self.drop_container),
            ("GET", f"{colls}/pkranges", self.pkranges),
            ("POST", f"{colls}/docs", self.docs),
            ("GET", f"{colls}/docs/{{id}}", self.read),
            ("PUT", f"{colls}/docs/{{id}}", self.replace),
            ("DELETE", f"{colls}/docs/{{id}}", self.delete),
            ("POST", f"{colls}/operations/partitionkeydelete", self.drop_partition),
        )
        for method, path, handler in routes:
            app.router.add_route(method, path + "{end:/?}", handler)  # the SDK ends some paths with a stroke
        app.router.add_get("/", self.account)
        app.router.add_post("/_fake", self.arrange)
        app.router.add_get("/_fake", self.told)
        return app

    # -- around every request ----------------------------------------------------------------------------------------

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/_fake":
            return await handler(request)
        headers = {"x-ms-request-charge": "0", "x-ms-activity-id": "fake"}
        try:
            self._authorised(request)
            kind = _kind(request)
            self.asked[kind] += 1
            trouble = self._next_trouble(kind)
            if trouble is not None and "status" in trouble:
                headers |= {"x-ms-retry-after-ms": str(trouble.get("retry_after_ms", 1))}
                raise Refused(trouble["status"], "arranged by the test", trouble.get("sub_status", 0))
            response = await handler(request)
            if trouble is not None and trouble.get("drop"):  # done, but nobody hears of it
                assert request.transport is not None
                request.transport.abort()
            return response
        except Refused as refused:
            headers["x-ms-substatus"] = str(refused.sub_status)
            body: dict[str, Any] = {"code": str(refused.status), "message": str(refused)}
            return web.json_response(body, status=refused.status, headers=headers)
        except web.HTTPException as error:  # a route that there is not
            return web.json_response(
                {"code": "NotImplemented", "message": f"the fake has no {request.method} {request.path}: {error}"},
                status=501,
                headers=headers,
            )

    def _authorised(self, request: web.Request) -> None:
        parts = dict(part.partition("=")[::2] for part in unquote(request.headers.get("Authorization", "")).split("&"))
        if parts.get("type") == "aad" and parts.get("sig") == TOKEN:
            return
        names = request.path.strip("/").split("/") if request.path != "/" else []
        kind = names[-1] if len(names) % 2 else (names[-2] if names else "")
        link = "/".join(names[:-1] if len(names) % 2 else names)
        if names[-1:] == ["partitionkeydelete"]:
            kind, link = "colls", "/".join(names[:4])
        text = f"{request.method.lower()}\n{kind}\n{link}\n{request.headers.get('x-ms-date', '').lower()}\n\n"
        wanted = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
        if parts.get("type") != "master" or not hmac.compare_digest(parts.get("sig", ""), wanted):
            raise Refused(401, f"the signature does not fit the request {text!r}")

    def _next_trouble(self, kind: str) -> dict[str, Any] | None:
        for trouble in self.trouble:
            if trouble["on"] == kind:
                if trouble.get("after", 0) > 0:
                    trouble["after"] -= 1
                    continue
                trouble["times"] = trouble.get("times", 1) - 1
                if trouble["times"] <= 0:
                    self.trouble.remove(trouble)
                return trouble
        return None

    async def arrange(self, request: web.Request) -> web.Response:
        """``{"on": kind, "status": 429, "times": 3, "after": 0}`` or ``{"on": kind, "drop": true}``.

        ``{"regions": [...], "level": "Session"}`` is how the account says it is from now on.
        """
        asked = await request.json()
        if "on" in asked:
            self.trouble.append(asked)
        else:
            self.regions, self.level = asked["regions"], asked["level"]
        return web.json_response({})

    async def told(self, request: web.Request) -> web.Response:
        """How many requests of each kind, their units, and the bytes of all items."""
        stored = sum(
            size_of(item)
            for database in self.databases.values()
            for container in database.values()
            for partition in container.partitions.values()
            for item in partition.items.values()
        )
        found = {"asked": dict(self.asked), "units": round(self.units, 2), "stored": stored}
        self.asked, self.units = Counter(), 0.0
        return web.json_response(found)

    # -- account, databases, containers ------------------------------------------------------------------------------

    async def account(self, request: web.Request) -> web.Response:
        places = [{"name": name, "databaseAccountEndpoint": self.url} for name in self.regions]
        return web.json_response(
            {
                "id": "fake",
                "_self": "",
                "_rid": "fake",
                "writableLocations": places,
                "readableLocations": places,
                "enableMultipleWriteLocations": len(places) > 1,
                "userConsistencyPolicy": {"defaultConsistencyLevel": self.level},
            }
        )

    async def make_database(self, request: web.Request) -> web.Response:
        name = (await request.json())["id"]
        if name in self.databases:
            raise Refused(409, f"there is a database {name!r} already")
        self.databases[name] = {}
        return web.json_response({"id": name, "_rid": name, "_self": f"dbs/{name}/"}, status=201)

    def _database(self, request: web.Request) -> dict[str, Container]:
        found = self.databases.get(request.match_info["db"])
        if found is None:
            raise Refused(404, "no such database", 1003)
        return found

    async def database(self, request: web.Request) -> web.Response:
        self._database(request)
        name = request.match_info["db"]
        return web.json_response({"id": name, "_rid": name, "_self": f"dbs/{name}/"})

    async def drop_database(self, request: web.Request) -> web.Response:
        self._database(request)
        del self.databases[request.match_info["db"]]
        return web.Response(status=204)

    async def make_container(self, request: web.Request) -> web.Response:
        found, given = self._database(request), await request.json()
        known = {"id", "partitionKey", "indexingPolicy", "defaultTtl"}
        if not given.keys() <= known or given["partitionKey"]["kind"] not in ("Hash", "MultiHash"):
            raise Refused(400, f"a container that the fake does not know: {sorted(given)}")
        if given["id"] in found:
            raise Refused(409, f"there is a container {given['id']!r} already")
        rid = f"{request.match_info['db']}.{given['id']}"
        found[given["id"]] = Container({**given, "_rid": rid, "_self": f"colls/{rid}/", "_etag": '"1"', "_ts": 1})
        return web.json_response(found[given["id"]].properties, status=201)

    def _container(self, request: web.Request) -> Container:
        found = self._database(request).get(request.match_info["coll"])
        if found is None:
            raise Refused(404, "no such container", 1003)
        return found

    async def container(self, request: web.Request) -> web.Response:
        return self._answer(self._container(request).properties, 1.0)

    async def drop_container(self, request: web.Request) -> web.Response:
        self._container(request)
        del self._database(request)[request.match_info["coll"]]
        return web.Response(status=204)

    async def pkranges(self, request: web.Request) -> web.Response:
        self._container(request)
        ends = ["", *(f"{number * 0xFF // self.ranges:02X}" for number in range(1, self.ranges)), "FF"]
        ranges = [
            {"id": str(number), "_rid": str(number), "minInclusive": ends[number], "maxExclusive": ends[number + 1]}
            for number in range(self.ranges)
        ]
        if request.headers.get("If-None-Match") == '"ranges"':
            return web.Response(status=304, headers={"ETag": '"ranges"'})
        found = {"_rid": "ranges", "PartitionKeyRanges": ranges, "_count": len(ranges)}
        return web.json_response(found, headers={"ETag": '"ranges"', "x-ms-request-charge": "1"})

    # -- items -------------------------------------------------------------------------------------------------------

    def _answer(self, found: Any, units: float, status: int = 200, **headers: str) -> web.Response:
        self.units += units
        self.lsn += 1
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers |= {"x-ms-request-charge": f"{units:.2f}", "x-ms-session-token": f"0:-1#{self.lsn}"}
        if isinstance(found, dict) and "_etag" in found:
            headers["ETag"] = found["_etag"]
        return web.json_response(found, status=status, headers=headers)

    async def docs(self, request: web.Request) -> web.Response:
        container, kind = self._container(request), _kind(request)
        if kind == "query plan":
            return self._plan(await request.json())
        if kind == "query":
            return self._query(container, request, await request.json())
        if int(request.headers.get("Content-Length", "0")) > BATCH_LIMIT:
            raise Refused(413, "a request has at most 2 MB")
        key = _key(request)
        if kind == "batch":
            results, units, _ = container.batch(key, await request.json())
            if request.headers.get("Prefer") == "return=minimal":
                for result in results:
                    result.pop("resourceBody", None)
            done = all(result["statusCode"] < 400 for result in results)
            return self._answer(results, units, 200 if done else 207)
        upsert = request.headers.get("x-ms-documentdb-is-upsert", "").lower() == "true"
        item, units = container.create(key, await request.json(), upsert=upsert)
        return self._answer(item, units, 201)

    async def read(self, request: web.Request) -> web.Response:
        item, units = self._container(request).read(_key(request), request.match_info["id"])
        return self._answer(item, units)

    async def replace(self, request: web.Request) -> web.Response:
        container, match = self._container(request), request.headers.get("If-Match")
        item, units = container.replace(_key(request), request.match_info["id"], await request.json(), match)
        return self._answer(item, units)

    async def delete(self, request: web.Request) -> web.Response:
        match = request.headers.get("If-Match")
        units = self._container(request).delete(_key(request), request.match_info["id"], match)
        self.units += units
        return web.Response(status=204, headers={"x-ms-request-charge": f"{units:.2f}"})

    async def drop_partition(self, request: web.Request) -> web.Response:
        self._container(request).drop_partition(_key(request))
        return self._answer({}, 1.0)

    # -- queries -----------------------------------------------------------------------------------------------------

    def _plan(self, asked: Any) -> web.Response:
        statement = _statement(asked)
        if statement.order is not None:
            raise Refused(400, "the fake merges no ORDER BY of several partitions")
        info: dict[str, Any] = {
            "distinctType": "None", "top": None, "offset": None, "limit": None, "orderBy": [], "orderByExpressions": [],
            "groupByExpressions": [], "groupByAliases": [], "aggregates": [], "groupByAliasToAggregateType": {},
            "rewrittenQuery": "", "hasSelectValue": statement.value, "hasNonStreamingOrderBy": False,
        }  # fmt: skip
        whole = {"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}
        return self._answer({"partitionedQueryExecutionInfoVersion": 2, "queryInfo": info, "queryRanges": [whole]}, 1.0)

    def _query(self, container: Container, request: web.Request, asked: Any) -> web.Response:
        statement, items = _statement(asked), self._in_scope(container, request)
        if statement.order is not None and not _indexed(container, statement.order):
            raise Refused(400, f"ORDER BY needs an index on /{statement.order}/?")
        found = [item for item in items if statement.shows(item)]
        found.sort(key=lambda item: str(item["_rid"]))
        if (order := statement.order) is not None:
            found.sort(key=lambda item: item[order], reverse=statement.descending)
        token = request.headers.get("x-ms-continuation")
        if token:
            found = [item for item in found if _is_after(item, statement, *json.loads(token))]
        size = int(request.headers.get("x-ms-max-item-count", PAGE))
        page = _page(found, PAGE if size < 1 else min(size, PAGE))
        more: dict[str, Any] = {}
        if len(page) < len(found):
            more["x_ms_continuation"] = json.dumps([page[-1].get(order or ""), page[-1]["_rid"]])
        results = [statement.project(item) for item in page]
        answer = {"_rid": "fake", "Documents": results, "_count": len(results)}
        return self._answer(answer, query_price([size_of(item) for item in page]), **more)

    def _in_scope(self, container: Container, request: web.Request) -> list[dict[str, Any]]:
        """Items of the partition that the header names, of a range, or of all if that was asked for."""
        if "x-ms-documentdb-partitionkey" in request.headers:
            return list(container.alive(container.partition(_key(request))))
        allowed = request.headers.get("x-ms-documentdb-query-enablecrosspartition", "").lower() == "true"
        if not allowed:
            raise Refused(400, "a query over several partitions must say so")
        wanted = request.headers.get("x-ms-documentdb-partitionkeyrangeid")
        if wanted is None and self.ranges > 1:
            raise Refused(400, "a query over several ranges needs a plan", 1004)
        return [
            item
            for key, partition in container.partitions.items()
            if wanted is None or str(zlib.crc32(key.encode()) % self.ranges) == wanted
            for item in container.alive(partition)
        ]


def _kind(request: web.Request) -> str:
    """What a request is about, as tests name it."""
    headers = request.headers
    if request.path.rstrip("/").endswith("/docs") and request.method == "POST":
        if headers.get("x-ms-cosmos-is-query-plan-request", "").lower() == "true":
            return "query plan"
        if headers.get("Content-Type", "").startswith("application/query+json"):
            return "query"
        if headers.get("x-ms-cosmos-is-batch-request", "").lower() == "true":
            return "batch"
        return "create"
    if "/docs/" in request.path:
        return {"GET": "read", "PUT": "replace", "DELETE": "delete"}.get(request.method, "other")
    return "other"


def _key(request: web.Request) -> str:
    """The partition key of a request, as JSON."""
    given = request.headers.get("x-ms-documentdb-partitionkey")
    if given is None:
        raise Refused(400, "the header names no partition key")
    return json.dumps(json.loads(given))


def _statement(asked: Any) -> Statement:
    try:
        return parsed(asked["query"], {each["name"]: each["value"] for each in asked.get("parameters", ())})
    except NotUnderstood as error:
        raise Refused(400, f"SQL that the fake does not understand: {error}") from error


def _indexed(container: Container, path: str) -> bool:
    policy = container.properties.get("indexingPolicy")
    if policy is None or path in ("id", "_ts"):
        return True
    return any(each["path"] in (f"/{path}/?", f"/{path}/*") for each in policy.get("includedPaths", ()))


def _is_after(item: dict[str, Any], statement: Statement, value: Any, rid: str) -> bool:
    """Whether an item comes behind the one at which the page before ended."""
    if statement.order is None or item[statement.order] == value:
        return bool(item["_rid"] > rid)
    return bool((item[statement.order] < value) is statement.descending)


def _page(found: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    page, total = list[dict[str, Any]](), 0
    for item in found[:size]:
        total += size_of(item)
        if page and total > PAGE_BYTES:
            break
        page.append(item)
    return page


def main(port: str, ranges: str = "1", certificate: str | None = None) -> None:
    """Serve until the process ends; with TLS if there is a file with a certificate and its key."""
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    web.run_app(
        Fake(int(port), int(ranges), "http" if context is None else "https").app(),
        ssl_context=context,
        host="127.0.0.1",
        port=int(port),
        print=lambda text: None,
        access_log=None,
        loop=asyncio.new_event_loop(),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
