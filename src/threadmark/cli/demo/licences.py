"""What a package says about its licence, brought to few families."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

FAMILIES: Final = ("MIT", "BSD", "Apache", "Python", "MPL", "GPL", "other", "not stated")
"""All families, in the order in which ties are shown."""

# The first pattern that is found nearest the beginning decides, so that "MIT OR Apache-2.0" counts as MIT.
_FAMILY: Final = {
    "MIT": r"\bMIT\b|\bexpat\b",
    "BSD": r"BSD|\bISC\b",
    "Apache": r"Apache",
    "Python": r"\bPSF|Python Software Foundation|\bCNRI\b|Python-2\.0",
    "MPL": r"\bMPL\b|Mozilla Public",
    "GPL": r"\b[AL]?GPL|General Public License",
}
# How the texts themselves begin, for packages whose metadata says nothing.
_TEXTS: Final = {
    "MIT": r"\bMIT License\b|Permission is hereby granted, free of charge",
    "BSD-3-Clause": r"Neither the name of",
    "BSD-2-Clause": r"Redistribution and use in source and binary forms",
    "ISC": r"Permission to use, copy, modify, and/?or? distribute this software",
    "Apache-2.0": r"Apache License",
    "PSF-2.0": r"PYTHON SOFTWARE FOUNDATION LICENSE",
    "MPL-2.0": r"Mozilla Public License",
    "LGPL": r"GNU LESSER GENERAL PUBLIC LICENSE",
    "GPL": r"GNU GENERAL PUBLIC LICENSE",
}
_LONGEST: Final = 60
"""Characters; a longer ``License`` field holds the text of a licence, not its name."""


def family(licence: str) -> str:
    """The family of a licence by its name or expression; ``other`` if it is none that we know."""
    if not licence:
        return "not stated"
    found = [(match.start(), name) for name, words in _FAMILY.items() if (match := re.search(words, licence, re.I))]
    return min(found)[1] if found else "other"


def stated(expression: str, classifiers: Sequence[str], field: str) -> str:
    """The licence that metadata names: an SPDX expression, else trove classifiers, else a short ``License`` field."""
    if expression.strip():
        return expression.strip()
    trove = [line.split(" :: ")[-1] for line in classifiers if line.startswith("License ::")]
    named = [_tidy(name) for name in trove if not name.endswith("pproved")]
    short = field.strip() if len(field.strip()) <= _LONGEST and "\n" not in field.strip() else ""
    if short.upper() in ("UNKNOWN", "NONE"):
        short = ""
    return " AND ".join(dict.fromkeys(named)) or short or recognised(field)


def recognised(text: str) -> str:
    """The name of a licence by the words of its text; empty if it is none that we know."""
    return next((name for name, words in _TEXTS.items() if re.search(words, text)), "")


def _tidy(trove: str) -> str:
    """The short name in brackets, where a classifier ends in one; no "License" behind three letters."""
    short = re.search(r"\(([^)]+)\)$", trove)
    return short[1] if short else re.sub(r"^(MIT|BSD|ISC) License$", r"\1", trove)
