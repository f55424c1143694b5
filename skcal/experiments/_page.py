"""A report as blocks, written as Markdown beside its pictures, and as one HTML page."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from typing import NamedTuple


class Heading(NamedTuple):
    """A heading; level 1 is the title."""

    text: str
    level: int = 2


class Text(NamedTuple):
    """A paragraph."""

    text: str


class Grid(NamedTuple):
    """A table; cells in ``bold`` (row, column) stand out."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    bold: frozenset[tuple[int, int]] = frozenset()


class Picture(NamedTuple):
    """A PNG file."""

    name: str
    content: bytes
    caption: str


Block = Heading | Text | Grid | Picture


def markdown(blocks: Sequence[Block]) -> str:
    """Return Markdown; pictures are files beside it."""
    parts = []
    for block in blocks:
        match block:
            case Heading(text, level):
                parts.append(f"{'#' * level} {text}")
            case Text(text):
                parts.append(text)
            case Picture(name, _, caption):
                parts.append(f"![{caption}]({name})")
            case Grid(header, rows, bold):
                lines = [_line(header), _line(["---"] * len(header))]
                lines += [
                    _line([f"**{c}**" if (i, j) in bold else c for j, c in enumerate(row)])
                    for i, row in enumerate(rows)
                ]
                parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #e4e4e4;
         white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: 13px; }
"""


def page(blocks: Sequence[Block]) -> str:
    """Return one HTML page that needs no other file."""
    title = next((b.text for b in blocks if isinstance(b, Heading)), "Report")
    parts = []
    for block in blocks:
        match block:
            case Heading(text, level):
                parts.append(f"<h{level}>{html.escape(text)}</h{level}>")
            case Text(text):
                parts.append(f"<p>{html.escape(text)}</p>")
            case Picture(_, content, caption):
                data = base64.b64encode(content).decode("ascii")
                told = html.escape(caption)
                parts.append(
                    f'<figure><img alt="{told}" src="data:image/png;base64,{data}">'
                    f"<figcaption>{told}</figcaption></figure>"
                )
            case Grid(header, rows, bold):
                head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
                body = "".join(
                    "<tr>"
                    + "".join(
                        f"<td><b>{html.escape(c)}</b></td>"
                        if (i, j) in bold
                        else f"<td>{html.escape(c)}</td>"
                        for j, c in enumerate(row)
                    )
                    + "</tr>"
                    for i, row in enumerate(rows)
                )
                parts.append(f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>')
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )
