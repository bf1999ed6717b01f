"""What a run tells between supersteps: values, questions and breakpoints (spec 10.2)."""

from __future__ import annotations

from threadmark.engine.names import INTERRUPT
from threadmark.engine.plan import read_all
from threadmark.engine.run import Run


def tell_values(run: Run, updated: set[str] | None) -> None:
    """Tell ``values`` if something that they show has changed; ``updated`` None: at any rate."""
    shown = run.output_keys
    if updated is not None:
        if isinstance(shown, str):
            if shown not in updated:
                return
        elif updated.isdisjoint(shown):
            return
    run.told_values = True
    if "values" in run.sink.modes:
        run.sink.add(run, "values", read_all(run.state.channels, run.output_keys))


def tell_interrupts(run: Run) -> None:
    """Tell ``values`` of the questions that the run stopped at."""
    if "values" not in run.sink.modes:
        return
    values = read_all(run.state.channels, run.output_keys)
    asked = {INTERRUPT: tuple(run.interrupts)}
    run.sink.add(run, "values", {**values, **asked} if isinstance(values, dict) else asked)


def tell_breakpoint(run: Run) -> None:
    """Tell ``updates`` that the run stopped at a static breakpoint."""
    if "updates" in run.sink.modes and run.parent is None and not run.interrupts:
        run.sink.add(run, "updates", {INTERRUPT: ()})


__all__ = ["tell_breakpoint", "tell_interrupts", "tell_values"]
