"""Running the suite without pytest, on the caller's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from threadmark.checkpoint.base import steps_supported
from threadmark.checkpoint.capabilities import CAPABILITIES, Capabilities, Colour, capabilities_of, own_method
from threadmark.checkpoint.conformance.calls import Caller, on_loop
from threadmark.checkpoint.conformance.explain import explained
from threadmark.checkpoint.conformance.factory import Registered, opened, registered
from threadmark.checkpoint.conformance.kit import config
from threadmark.checkpoint.conformance.payloads import PAYLOADS, HexSerializer
from threadmark.checkpoint.conformance.report import Report, Result
from threadmark.errors import ColourError

if TYPE_CHECKING:
    from threadmark.checkpoint.conformance.plan import Check

__all__ = ["validate"]

_ABSENT = (NotImplementedError, ColourError)
PATIENCE: Final = 120.0
"""Seconds after which a check is taken to hang for ever."""


async def validate(
    target: Any,
    *,
    capabilities: Collection[str] | None = None,
    progress: Callable[[Result], None] | None = None,
    payloads: Collection[str] = PAYLOADS,
    patience: float = PATIENCE,
) -> Report:
    """Run every check that fits what a saver offers, and report.

    Args:
        target: What ``checkpointer_test`` made of a factory, or a plain factory, or a saver class.
        capabilities: Run only the checks of these; ValueError for a name that is none.
        progress: Called with each result as it comes.
        payloads: ``own``, ``hex`` or both: the saver's serializer as it is, and over hexadecimal text.
        patience: Seconds after which a check has failed because it hangs.

    Awaited methods run on the running event loop, blocking ones in another thread, which may wait for it.
    """
    if not __debug__:
        raise RuntimeError("the checks are assert statements, which python -O leaves out; run without -O")
    from threadmark.checkpoint.conformance.plan import checks_for  # late: pytest wants to rewrite the checks first

    _known(capabilities)
    suite = registered(target)
    async with opened(suite.lifespan or (lambda: None)):
        report = await _found(suite)
        wanted = None if capabilities is None else set(capabilities)
        for check in checks_for(report.capabilities, wanted, tuple(payloads)):
            if check.capability not in suite.skip_capabilities:
                result = await _result(suite, check, patience)
                report.results.append(result)
                if progress is not None:
                    progress(result)
    return report


def _known(names: Collection[str] | None) -> None:
    known = [each.name for each in CAPABILITIES]
    unknown = sorted(set(names or ()) - set(known))
    if unknown:
        raise ValueError(f"unknown capability {', '.join(unknown)}; known are {', '.join(known)}")


async def _found(suite: Registered) -> Report:
    """A report without results: what the saver offers, once colours that only raise are taken off."""
    async with opened(suite.factory) as saver:
        capabilities = capabilities_of(saver)
        notes: list[str] = []
        for colour in capabilities.colours:
            if capabilities.has("get_tuple", colour):
                capabilities = await _probed(saver, capabilities, colour, notes)
        gaps = {colour: capabilities.missing(colour) for colour in capabilities.colours}
        notes += [f"{colour}: {', '.join(missing)} is missing" for colour, missing in gaps.items() if missing]
        unused = [name for name in ("put_step", "open_writer") if own_method(type(saver), name)]
        if unused and not steps_supported(saver):
            notes.append(
                f"{' and '.join(unused)} not used: graphs take put_step and open_writer together, from the class whose "
                f"put and put_writes are in force"
            )
    return Report(suite.name, capabilities, notes=notes)


async def _probed(saver: Any, capabilities: Capabilities, colour: Colour, notes: list[str]) -> Capabilities:
    """Without ``colour`` if its methods are there only to say that they are not."""
    call = Caller(colour, on_loop(asyncio.get_running_loop()))
    try:
        await _in_thread(lambda: call(saver, "get_tuple", config("nobody")))
    except _ABSENT as error:
        if len(capabilities.colours) > 1:
            notes.append(f"{colour}: not offered ({str(error).splitlines()[0][:160]})")
            return capabilities.without(colour)
    except Exception:
        pass  # the checks will say more about it
    return capabilities


async def _result(suite: Registered, check: Check, patience: float) -> Result:
    error: str | None = None
    try:
        async with asyncio.timeout(patience), opened(suite.factory) as saver:
            if check.payload == "hex":
                saver.serde = HexSerializer(saver.serde)
            call = Caller(check.colour, on_loop(asyncio.get_running_loop()))
            await _in_thread(lambda: check.run(saver, call))
    except TimeoutError:
        error = f"hangs: it had not ended after {patience:g} seconds"
    except Exception as problem:
        error = explained(problem)
    return Result(check.capability, check.name, check.colour, check.payload, error)


async def _in_thread(work: Callable[[], Any]) -> None:
    """Run blocking work in a thread that keeps no process alive, since the work may hang."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if not done.done():
            done.set_exception(error) if error is not None else done.set_result(None)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as problem:
            error = problem
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name="conformance-check", daemon=True).start()
    await done
