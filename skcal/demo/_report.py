"""The comparison as a text table, a picture and a page."""

from __future__ import annotations

import base64
import html
import io
import math
import os
import platform
from importlib.metadata import version
from pathlib import Path

from skcal.demo._compare import METRICS, RAW, SCALED, Comparison

_FORMS = {RAW: "raw", SCALED: "temperature-scaled"}
_BINS = 10


def text_table(result: Comparison) -> str:
    """Return the comparison as one aligned table, with intervals.

    Parameters
    ----------
    result : Comparison

    Returns
    -------
    str
    """
    rows = [["Method", "", *METRICS, "fit s"], *_cells(result)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(lines)


def summary(result: Comparison) -> list[str]:
    """Return the sentences that say how the table is to be read.

    Parameters
    ----------
    result : Comparison

    Returns
    -------
    list of str
    """
    train, calibration, test = result.sizes
    seeds = len(result.seeds)
    sentences = [
        f"{train} training, {calibration} calibration and {test} test rows; mean over {seeds} "
        f"seed{'s' if seeds > 1 else ''} (split and initialisation)"
        + (
            " ± half-width of the 95 % interval, corrected for overlapping splits."
            if seeds > 1
            else "; no interval from one."
        )
    ]
    for form, name in _FORMS.items():
        mean, half = result.difference(("NeSCal", form), ("Cross-entropy", form), "NLL")
        verdict = (
            "no interval from one seed"
            if math.isnan(half)
            else "not told apart from zero"
            if abs(mean) <= half
            else "lower"
            if mean < 0
            else "higher"
        )
        sentences.append(
            f"NeSCal less cross-entropy, {name}: NLL {mean:+.4f}"
            + ("" if math.isnan(half) else f" ± {half:.4f}")
            + f", paired by seed: {verdict}."
        )
    sentences.append(
        "Judge by NLL (log-loss, nats; lower is better); ECE alone can be low for a useless model."
    )
    return sentences


def write_report(
    result: Comparison, out: str | Path, *, title: str, notes: list[str]
) -> list[Path]:
    """Write ``reliability.png`` and a self-contained ``report.html``.

    Parameters
    ----------
    result : Comparison
    out : str or Path
        Folder to write to; it is made if need be.
    title : str
        What the table is.
    notes : list of str
        Remarks shown on the page.

    Returns
    -------
    list of Path
        The files written.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    picture = _picture(result)
    page = _page(result, picture, title, notes).encode()
    written = []
    for name, content in (("reliability.png", picture), ("report.html", page)):
        # Whole or not at all: a reader never meets half a file.
        partial = folder / f".{name}.partial"
        partial.write_bytes(content)
        os.replace(partial, folder / name)
        written.append(folder / name)
    return written


def _cells(result: Comparison) -> list[list[str]]:
    rows = []
    for method, form in result.scores:
        cells = [method if form == RAW else "", _FORMS[form]]
        for metric in METRICS:
            mean, half = result.interval((method, form), metric)
            cells.append(f"{mean:.4f}" + ("" if math.isnan(half) else f" ± {half:.4f}"))
        cells.append(f"{result.interval((method, form), 'seconds')[0]:.2f}")
        rows.append(cells)
    return rows


def _picture(result: Comparison) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from skcal.plots import ReliabilityDisplay

    methods = list(dict.fromkeys(method for method, _ in result.scores))
    # No pyplot: the demo must not disturb a user's figures or backend.
    figure = Figure(figsize=(4.6 * len(methods), 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, method in zip(figure.subplots(1, len(methods)), methods, strict=True):
        for form, name in _FORMS.items():
            display = ReliabilityDisplay.from_predictions(
                result.y_test,
                result.predictions[method, form],
                labels=result.classes,
                n_bins=_BINS,
                name=name,
                ax=axes,
            )
        display.ax_.set_title(method)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return buffer.getvalue()


def _page(result: Comparison, picture: bytes, title: str, notes: list[str]) -> str:
    header = "".join(f"<th>{html.escape(cell)}</th>" for cell in ("Method", "", *METRICS, "fit s"))
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _cells(result)
    )
    remarks = "".join(f"<li>{html.escape(line)}</li>" for line in [*summary(result), *notes])
    packages = ", ".join(f"{name} {version(name)}" for name in ("skcal", "scikit-learn", "torch"))
    image = base64.b64encode(picture).decode()
    return _PAGE.format(
        title=html.escape(title),
        header=header,
        body=body,
        remarks=remarks,
        image=image,
        seeds=", ".join(str(seed) for seed in result.seeds),
        packages=html.escape(packages),
        python=platform.python_version(),
        seconds=result.seconds,
    )


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>skcal demo: {title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto;
  padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .35rem .8rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #8884; }}
th:nth-child(-n+2), td:nth-child(-n+2) {{ text-align: left; }}
img {{ max-width: 100%; height: auto; background: white; border-radius: 4px; }}
footer {{ color: #888; font-size: .85rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
<div class="wide"><table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>
<ul>{remarks}</ul>
<h2>Reliability</h2>
<p>Test rows of the first seed. A calibrated model lies on the diagonal; bars are 95 %
intervals, and the lower panels show how many rows each point stands for.</p>
<img alt="Reliability diagrams, raw and temperature-scaled" src="data:image/png;base64,{image}">
<footer><p>Seeds {seeds}. Python {python}, {packages}. {seconds:.0f} seconds.</p></footer>
</body>
</html>
"""
