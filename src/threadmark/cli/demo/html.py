"""The report as one HTML file: no script, no other file, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from threadmark.cli.demo.census import Census
from threadmark.cli.demo.packages import Package
from threadmark.cli.demo.picture import COLOURS, picture
from threadmark.cli.sizes import plural, size

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2530; --paper: #fbfaf7; --line: #dcd8cf; --soft: #f1eee7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e2dc; --paper: #171a1e; --line: #343941; --soft: #20242a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 40px 40px 64px; background: var(--paper); color: var(--ink);
       font: 16px/1.5 ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
h1 { margin: 0 0 4px; font-size: 34px; line-height: 1.2; letter-spacing: -0.01em; }
h2 { margin: 48px 0 12px; font-size: 20px; }
p.lead { margin: 0 0 28px; opacity: 0.75; }
dl { display: flex; flex-wrap: wrap; gap: 12px; margin: 0 0 36px; }
dl div { flex: 1 1 150px; padding: 14px 18px; background: var(--soft);
         border: 1px solid var(--line); border-radius: 8px; }
dt { font-size: 13px; opacity: 0.7; }
dd { margin: 0; font-size: 27px; font-weight: 650; font-variant-numeric: tabular-nums; }
figure { margin: 0; }
svg { display: block; width: 100%; height: auto; }
div.wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; opacity: 0.7; }
th, td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th.r, td.r { text-align: right; white-space: nowrap; }
td i { display: inline-block; width: 10px; height: 10px; margin-right: 7px; border-radius: 2px; }
td.needs { max-width: 340px; font-size: 13px; opacity: 0.75; }
footer { margin-top: 32px; font-size: 14px; opacity: 0.7; }
"""


def page(census: Census) -> str:
    """The whole page."""
    title = f"The packages of Python {escape(census.python)}"
    most = census.needed[0].name if census.needed else "none"
    figures = {
        "packages": f"{len(census.packages):,}",
        "on disk": size(census.bytes),
        "files": f"{census.files:,}",
        "families of licences": str(len(census.shares)),
        "most needed": most,
    }
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p class="lead">Measured package by package, each in a task of its own, by a durable graph.</p>
<dl>{"".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in figures.items())}</dl>
<figure>
{picture(census)}
</figure>
<h2>{plural(len(census.packages), "package")}, largest first</h2>
<div class="wide"><table>
<thead><tr><th>package</th><th>version</th><th>in</th><th class="r">size</th><th class="r">files</th>
<th>licence</th><th>requires</th></tr></thead>
<tbody>
{"".join(_rows(census))}</tbody>
</table></div>
<footer>Sizes are those of the files that are there. A requirement counts when the package it names is
installed.</footer>
</body>
</html>
"""


def _rows(census: Census) -> Iterator[str]:
    for package in census.packages:
        yield f"<tr>{''.join(_cells(package))}</tr>\n"


def _cells(p: Package) -> Iterator[str]:
    yield f"<td>{escape(p.name)}</td><td>{escape(p.version)}</td><td>{escape(p.place)}</td>"
    yield f'<td class="r">{size(p.bytes)}</td><td class="r">{p.files:,}</td>'
    yield f'<td><i style="background:{COLOURS[p.family]}"></i>{escape(p.licence or p.family)}</td>'
    yield f'<td class="needs">{escape(", ".join(p.requires))}</td>'
