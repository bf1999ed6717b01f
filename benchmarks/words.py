"""Text of everyday words, the same for every system and every run."""

from __future__ import annotations

import random
from functools import cache

WORDS = """
the of and to in is that it was for on are as with they at be this from have or by one had not but
what all were when we there can an your which their said if do will each about how up out them then
she many some so these would other into has more her two like him see time could no make than first
been its who now people my made over did down only way find use may water long little very after
words called just where most know get through back much before go good new write our used me man too
any day same right look think also around another came come work three word must because does part
even place well such here take why things help put years different away again off went old number
great tell men say small every found still between name should home big give air line set own
""".split()  # noqa: SIM905  prose reads better than quotes


def text(size: int, seed: object) -> str:
    """About ``size`` characters; equal seeds give equal text."""
    chooser = random.Random(str(seed))
    said: list[str] = []
    length = 0
    while length < size:
        said.append(chooser.choice(WORDS))
        length += len(said[-1]) + 1
    return " ".join(said)[:size]


def message(number: int) -> dict[str, object]:
    """A message of about 300 characters. Its keys are not those that a library might convert.

    ``messages`` makes the texts beforehand: to make one takes as many interpreter steps as a superstep of ours.
    """
    return {"by": "person" if number % 2 == 0 else "helper", "at": number, "text": _said(number)}


def messages(count: int) -> list[dict[str, object]]:
    return [message(number) for number in range(count)]


@cache
def _said(number: int) -> str:
    return text(270, number)
