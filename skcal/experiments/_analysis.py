"""What the cells of a run say: differences to a reference, by table and over all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from skcal._repeats import mean_and_half_width

# Test to training rows of the splits: their scores share rows, which widens intervals.
_TEST_TO_TRAIN = 0.2 / 0.6
SCORES = ("nll", "brier", "ece", "classwise_ece", "accuracy")


def frame_of(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return measured cells as a table: a row for each cell and calibrator."""
    return pd.DataFrame(
        [
            {
                **{name: row["cell"][name] for name in ("data", "regime", "method", "seed")},
                "calibrator": calibrator,
                **{name: result[name] for name in SCORES},
                "fit_seconds": row.get("fit_seconds", np.nan),
                "predict_seconds": row.get("predict_seconds", np.nan),
                "n_train": row.get("n_train", np.nan),
                "curve": result["curve"],
            }
            for row in rows
            if row["cell"]["kind"] == "fit" and "error" not in row
            for calibrator, result in row["results"].items()
        ]
    )


def stress_frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return log-losses on damaged test rows, with their ratio to those on the rows as they are."""
    return pd.DataFrame(
        [
            {
                **{name: row["cell"][name] for name in ("data", "method", "seed")},
                "stress": stress,
                "calibrator": calibrator,
                "nll": found["nll"],
                "ratio": found["nll"] / row["results"][calibrator]["nll"],
            }
            for row in rows
            for stress, by_calibrator in row.get("stress", {}).items()
            for calibrator, found in by_calibrator.items()
        ]
    )


def unseen_frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return how well rows of a class that was not trained on are told from others."""
    return pd.DataFrame(
        [
            {
                **{name: row["cell"][name] for name in ("data", "method", "seed")},
                "calibrator": calibrator,
                **result["unseen"],
            }
            for row in rows
            for calibrator, result in row.get("results", {}).items()
            if "unseen" in result
        ]
    )


def means(frame: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return means over seeds: a row for each table, a column for each method."""
    return frame.pivot_table(
        index="data", columns="method", values=score, aggfunc="mean", sort=False
    )


class Change(NamedTuple):
    """Log-losses of a method against those of another, in percent.

    Attributes
    ----------
    by_table : DataFrame
        "change", the mean over common seeds of the log ratio, as a percentage, with the "half"
        width of its 95 % interval.
    lower, tied, higher : int
        Tables.
    median, worst : float
        In percent.
    mean, half : float
        Over tables, with the half-width of Student's 95 % interval.
    p_value : float
        Wilcoxon's signed-rank test over tables, two-sided; NaN where all are tied.
    """

    by_table: pd.DataFrame
    lower: int
    tied: int
    higher: int
    median: float
    worst: float
    mean: float
    half: float
    p_value: float


def change(frame: pd.DataFrame, method: str, reference: str, score: str = "nll") -> Change:
    """Compare a method with a reference on the tables and seeds that both have."""
    pairs = frame[frame["method"] == method].merge(
        frame[frame["method"] == reference], on=["data", "seed"], suffixes=("", "_reference")
    )
    pairs["log_ratio"] = 100 * np.log(pairs[score] / pairs[f"{score}_reference"])
    found = {
        name: mean_and_half_width(group["log_ratio"].to_numpy(), _TEST_TO_TRAIN)
        for name, group in pairs.groupby("data", sort=False)
    }
    by_table = pd.DataFrame(found, index=["change", "half"]).T
    values = by_table["change"].to_numpy() if len(by_table) else np.empty(0)
    is_tied = np.abs(values) < 1e-9
    differs = values[~is_tied]
    mean, half = mean_and_half_width(values) if len(values) else (np.nan, np.nan)
    return Change(
        by_table,
        int(np.sum(differs < 0)),
        int(np.sum(is_tied)),
        int(np.sum(differs > 0)),
        float(np.median(values)) if len(values) else np.nan,
        float(values.max()) if len(values) else np.nan,
        mean,
        half,
        float(stats.wilcoxon(differs).pvalue) if len(differs) > 1 else np.nan,
    )


def holm(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Return Holm's adjusted p-values; those that are NaN take no part."""
    p = np.asarray(p_values, dtype=float)
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    adjusted = np.full(len(p), np.nan)
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1)
    return adjusted


class Ranks(NamedTuple):
    """Average ranks of methods over tables, the best first.

    Attributes
    ----------
    methods : list of str
    average : ndarray
    critical_difference : float
        Nemenyi's, at 5 %: methods closer than that are not told apart.
    p_value : float
        Friedman's test that all are alike.
    n_tables : int
    """

    methods: list[str]
    average: NDArray[np.float64]
    critical_difference: float
    p_value: float
    n_tables: int


def ranks(table: pd.DataFrame) -> Ranks:
    """Rank the methods of a table of losses, on the tables that have all of them.

    References
    ----------
    J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR, 2006.
    """
    losses = table.dropna()
    n, k = losses.shape
    average = stats.rankdata(losses.to_numpy(), axis=1).mean(axis=0) if n else np.full(k, np.nan)
    order = np.argsort(average, kind="stable")
    quantile = stats.studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2)
    # Friedman's test is for three methods and more.
    p_value = stats.friedmanchisquare(*losses.to_numpy().T).pvalue if k > 2 and n > 1 else np.nan
    return Ranks(
        [losses.columns[i] for i in order],
        average[order],
        float(quantile * np.sqrt(k * (k + 1) / (6 * n))) if n else np.nan,
        float(p_value),
        n,
    )


def pooled_curve(curves: Sequence[Any], n_bins: int) -> NDArray[np.float64]:
    """Return confidence, frequency and weight (3, bins) of several reliability curves, pooled."""
    total = np.zeros((3, n_bins))
    for confidence, frequency, weight in curves:
        w = np.asarray(weight) / np.sum(weight)
        place = np.minimum((np.asarray(confidence) * n_bins).astype(int), n_bins - 1)
        np.add.at(total, (0, place), w * confidence)
        np.add.at(total, (1, place), w * frequency)
        np.add.at(total, (2, place), w)
    total = total[:, total[2] > 0]
    return np.stack([total[0] / total[2], total[1] / total[2], total[2] / len(curves)])
