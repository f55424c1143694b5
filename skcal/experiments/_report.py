"""The report of a run: tables and pictures, each generated from its cells."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skcal.experiments._analysis import (
    Change,
    change,
    frame_of,
    holm,
    means,
    ranks,
    stress_frame,
    unseen_frame,
)
from skcal.experiments._config import Config, ConfigError, check_config
from skcal.experiments._methods import BASE, recipe_of
from skcal.experiments._page import Block, Grid, Heading, Picture, Text, markdown, page
from skcal.experiments._pictures import draw_changes, draw_costs, draw_ranks, draw_reliability
from skcal.experiments._store import Store

_SCORES = {
    "brier": "Brier score",
    "classwise_ece": "class-wise calibration error",
    "accuracy": "accuracy",
}


def write_report(
    run: str | os.PathLike[str], out: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Write what a run found as ``report.md``, its pictures, and one page ``report.html``.

    Parameters
    ----------
    run : path
        Folder of a run, finished or not.
    out : path, optional
        Where to write; the folder of the run by default.

    Returns
    -------
    list of Path

    Raises
    ------
    ConfigError
        If there is no run, or no finished cell in it.
    """
    store = Store(run)
    blocks = report_blocks(store)
    folder = Path(out or store.folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"report.md": markdown(blocks).encode(), "report.html": page(blocks).encode()}
    files |= {block.name: block.content for block in blocks if isinstance(block, Picture)}
    written = []
    for name, content in files.items():
        partial = folder / f".{name}.part"
        partial.write_bytes(content)
        partial.replace(folder / name)
        written.append(folder / name)
    return written


def report_blocks(store: Store) -> list[Block]:
    """Return the report of a run, block by block."""
    header, rows = store.header(), store.rows()
    config = check_config(header["config"])
    frame = frame_of(rows)
    if frame.empty:
        raise ConfigError(f"{store.folder} has no finished cell to report.")
    failed = [row for row in rows if "error" in row]
    blocks: list[Block] = [
        Heading(f"Benchmark: {config.name}", 1),
        Text(_about(config, frame, failed, header["versions"])),
    ]
    for regime in dict.fromkeys(frame["regime"]):
        some = frame[frame["regime"] == regime]
        here = [row for row in rows if row["cell"]["regime"] == regime]
        blocks += _regime(some, here, config, regime)
    blocks += _chosen(rows)
    if failed:
        blocks += [
            Heading("Failed cells"),
            Grid(
                ["cell", "error"],
                [
                    [json.dumps(row["cell"]), row["error"].strip().splitlines()[-1]]
                    for row in failed
                ],
            ),
        ]
    return blocks


def _about(config: Config, frame: pd.DataFrame, failed: list[Any], versions: dict[str, str]) -> str:
    tuning = config.tuning
    tuned = (
        f"Parameters were chosen on the search seeds {list(config.search_seeds)} by "
        f"{tuning.scoring}: {tuning.network_trials} trials of the network that all share, and "
        f"{tuning.method_trials} more of each method. "
        if tuning.network_trials or tuning.method_trials
        else "Nothing was tuned. "
    )
    return (
        f"{frame['data'].nunique()} tables, {frame['method'].nunique()} methods, seeds "
        f"{sorted(frame['seed'].unique().tolist())} that are reported. {tuned}"
        f"60 % of the rows train, 10 % stop the training, 10 % calibrate, 20 % are the test rows. "
        f"{len(failed)} cells failed. Log-loss in nats, lower is better. Versions: "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
        + "."
    )


def _regime(
    frame: pd.DataFrame, rows: list[dict[str, Any]], config: Config, regime: str
) -> Iterator[Block]:
    yield Heading(f"Regime: {regime}")
    methods = list(dict.fromkeys(frame["method"]))
    plain = [m for m in methods if _n_networks(config, m) == 1]
    for calibrator, title in (("none", "raw"), ("temperature", "after temperature scaling")):
        some = frame[frame["calibrator"] == calibrator]
        if some.empty:
            continue
        losses = means(some, "nll")[methods]
        yield Heading(f"Log-loss {title}", 3)
        yield _table(losses, among=plain)
        reference = _reference(methods)
        if reference is None or len(methods) < 2:
            continue
        others = [m for m in methods if m != reference]
        changes = {m: change(some, m, reference) for m in others}
        yield Heading(f"Against {reference}, {title}", 3)
        yield _pooled(changes, losses[plain])
        name = f"{regime}-{calibrator}"
        yield Picture(
            f"{name}-changes.png",
            draw_changes(changes, reference),
            f"Log-loss {title} against {reference}, table by table",
        )
        if len(plain) > 2 and len(losses) > 1:
            found = ranks(losses[plain])
            yield Picture(
                f"{name}-ranks.png",
                draw_ranks(found),
                f"Average ranks of single models over {found.n_tables} tables, {title}; a bar "
                "joins what is not told apart at 5 % (Nemenyi; Friedman's test that all are alike: "
                f"p = {found.p_value:.2g})",
            )
        yield Picture(
            f"{name}-costs.png",
            draw_costs(_costs(some, changes, reference), reference),
            f"What a fit costs, and what it brings, {title}",
        )
        yield Picture(
            f"{name}-reliability.png",
            draw_reliability(some, [reference, *others[:3]]),
            f"Reliability {title}, pooled over seeds",
        )
    yield from _calibrators(frame, methods)
    yield from _others(frame, methods)
    yield from _stressed(rows, frame, methods)
    yield Heading("Times", 3)
    some = frame[frame["calibrator"] == "none"]
    yield Text("CPU seconds of a fit, and of the answers for all test rows; means over seeds.")
    yield _table(means(some, "fit_seconds").reindex(columns=methods), digits=2, best=None)
    yield _table(means(some, "predict_seconds").reindex(columns=methods), digits=3, best=None)


def _table(
    values: pd.DataFrame, *, digits: int = 4, best: str | None = "min", among: Any = None
) -> Grid:
    """Return a grid of a row for each table; the best of a row is bold."""
    columns = list(values.columns)
    bold = set()
    if best is not None:
        some = values[columns if among is None else among]
        winners = some.idxmin(axis=1) if best == "min" else some.idxmax(axis=1)
        bold = {(i, 1 + columns.index(name)) for i, name in enumerate(winners)}
    rows = [
        [str(name), *("–" if np.isnan(v) else f"{v:.{digits}f}" for v in row)]
        for name, row in zip(values.index, values.to_numpy(), strict=True)
    ]
    return Grid(["table", *columns], rows, frozenset(bold))


def _pooled(changes: dict[str, Change], losses: pd.DataFrame) -> Grid:
    """Return what each method changes over all tables."""
    adjusted = holm([one.p_value for one in changes.values()])
    best = losses.idxmin(axis=1).value_counts()
    rows = []
    for (name, one), p in zip(changes.items(), adjusted, strict=True):
        rows.append(
            [
                name,
                f"{one.lower} / {one.tied} / {one.higher}",
                f"{one.median:+.2f} %",
                f"{one.worst:+.2f} %",
                f"{one.mean:+.2f} ± {one.half:.2f} %",
                "–" if np.isnan(one.p_value) else f"{one.p_value:.3f}",
                "–" if np.isnan(p) else f"{p:.3f}",
                str(best.get(name, 0)) if name in losses else "–",
            ]
        )
    header = [
        "method",
        "lower / tied / higher",
        "median",
        "worst",
        "mean",
        "p (Wilcoxon)",
        "p (Holm)",
        "best of single models",
    ]
    return Grid(header, rows)


def _costs(frame: pd.DataFrame, changes: dict[str, Change], reference: str) -> pd.DataFrame:
    seconds = means(frame, "fit_seconds")
    points = {reference: (1.0, 0.0)}
    for name, one in changes.items():
        if name in seconds:
            ratio = np.log(seconds[name] / seconds[reference]).mean()
            if np.isfinite(ratio):
                points[name] = (float(np.exp(ratio)), one.median)
    return pd.DataFrame(points, index=["cost", "change"]).T


def _calibrators(frame: pd.DataFrame, methods: list[str]) -> Iterator[Block]:
    """Yield what each calibrator brings to each method, in the median over tables."""
    names = [name for name in dict.fromkeys(frame["calibrator"]) if name != "none"]
    if not names or "none" not in set(frame["calibrator"]):
        return
    rows = []
    for method in methods:
        cells = []
        for name in names:
            some = frame[(frame["method"] == method) & frame["calibrator"].isin([name, "none"])]
            # The comparison is of the calibrators then.
            one = change(some.assign(method=some["calibrator"]), name, "none")
            cells.append(f"{one.median:+.2f} % ({one.lower} of {len(one.by_table)})")
        rows.append([method, *cells])
    yield Heading("Calibrators", 3)
    yield Text(
        "Median change of the log-loss against the raw answers, and on how many tables it is lower."
    )
    yield Grid(["method", *names], rows)


def _others(frame: pd.DataFrame, methods: list[str]) -> Iterator[Block]:
    some = frame[frame["calibrator"] == "temperature"]
    if some.empty:
        some = frame[frame["calibrator"] == "none"]
    for score, title in _SCORES.items():
        yield Heading(title[0].upper() + title[1:] + " after temperature scaling", 3)
        best = "max" if score == "accuracy" else "min"
        yield _table(means(some, score).reindex(columns=methods), best=best)


def _stressed(
    rows: list[dict[str, Any]], frame: pd.DataFrame, methods: list[str]
) -> Iterator[Block]:
    """Yield log-losses on damaged test rows, and how rows of an unseen class are told apart."""
    hard = stress_frame(rows)
    calibrator = "temperature" if "temperature" in set(frame["calibrator"]) else "none"
    if not hard.empty:
        yield Heading("Damaged test rows", 3)
        yield Text(
            f"Log-loss, calibrator {calibrator}, on damaged test rows against the same test rows "
            "as they are: geometric means over tables and seeds of the ratio."
        )
        some = hard[hard["calibrator"] == calibrator]
        table = some.pivot_table(
            index="stress",
            columns="method",
            values="ratio",
            aggfunc=lambda ratios: float(np.exp(np.log(ratios).mean())),
            sort=False,
        )
        yield _table(table.reindex(columns=methods), digits=3)
    unseen = unseen_frame(rows)
    if not unseen.empty:
        some = unseen[unseen["calibrator"] == calibrator]
        for score in ("confidence", "entropy"):
            yield Heading(f"Rows of an unseen class, told by {score}", 3)
            yield Text("Area under the ROC curve; 0.5 is chance.")
            yield _table(means(some, score).reindex(columns=methods), best="max")


def _chosen(rows: list[dict[str, Any]]) -> Iterator[Block]:
    tuned = [row for row in rows if row["cell"]["kind"] == "tune" and "error" not in row]
    if not tuned:
        return
    yield Heading("Parameters that were chosen")
    yield Grid(
        ["table", "regime", "method", "chosen"],
        [
            [
                row["cell"]["data"],
                row["cell"]["regime"],
                row["cell"]["method"],
                ", ".join(f"{k}={_short(v)}" for k, v in row["chosen"].items()) or "the defaults",
            ]
            for row in tuned
        ],
    )


def _reference(methods: list[str]) -> str | None:
    return BASE if BASE in methods else None


def _n_networks(config: Config, name: str) -> int:
    return recipe_of(next(m for m in config.methods if m.name == name)).n_networks


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
