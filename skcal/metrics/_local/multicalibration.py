"""The multicalibration error: the worst of many overlapping segments, weighed by its noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcal._options import check_whole
from skcal._validation import FloatArray, IntArray, check_predictions
from skcal.metrics._bins import rank_order
from skcal.metrics._events import Kind, check_kind, comparisons
from skcal.metrics._local.segments import partitions

if TYPE_CHECKING:
    from pandas import DataFrame

_ALL = "all rows"
# Least variance of an event: that of a sure prediction would be zero, and one error infinite.
_LEAST_VARIANCE = 1e-12
# How many standard deviations are clearly more than chance.
_CLEAR = 5.0


# Arrays have no single truth value, so a generated __eq__ would only raise.
@dataclass(frozen=True, eq=False)
class SegmentCalibration:
    """Cumulative calibration errors of segments, each against its own noise.

    Attributes
    ----------
    error : float
        The multicalibration error, in probability.
    detectable : float
        Five standard deviations of the error of all rows: about the least error that rows of
        this number can tell from chance. For "class-wise", the largest of the classes.
    segment : list of str
        The segments; the first one is all rows. For "class-wise" they are repeated for each
        class.
    cumulative_error : ndarray of shape (n_segments,), float64
        Range of the cumulative differences within each segment, in probability.
    standard_deviation : ndarray of shape (n_segments,), float64
        Standard deviation of the sum of the differences, if the probabilities were right.
    sigma : ndarray of shape (n_segments,), float64
        The first divided by the second.
    count : ndarray of shape (n_segments,), int
        Number of rows with a weight above zero.
    class_label : list
        The class looked at in each entry; None but for "class-wise".
    kind : {"top-label", "class-wise", "positive"}
        Which probability is held against which event.
    """

    error: float
    detectable: float
    segment: list[str]
    cumulative_error: FloatArray
    standard_deviation: FloatArray
    sigma: FloatArray
    count: IntArray
    class_label: list[Any]
    kind: Kind

    @property
    def worst(self) -> str:
        """The segment that is most standard deviations away."""
        return self.segment[int(np.argmax(self.sigma))]

    def to_frame(self) -> DataFrame:
        """Return a table with one row for each segment, and class if "class-wise"."""
        import pandas as pd

        columns = ["segment", "class_label", "cumulative_error", "standard_deviation"]
        columns += ["sigma", "count"]
        if self.kind != "class-wise":
            columns.remove("class_label")
        return pd.DataFrame({name: getattr(self, name) for name in columns})


def multicalibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    segments: Any,
    max_depth: int = 2,
    min_count: int = 10,
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> SegmentCalibration:
    r"""Return the multicalibration error over segments of the rows, in probability.

    In each segment S the rows are put in order of the predicted probability :math:`c_i`, and
    the differences to the events :math:`e_i` are summed up:

    .. math:: R_S = \max_{0 \le j \le m} D_j - \min_{0 \le j \le m} D_j, \qquad
        D_j = \frac{1}{W_S} \sum_{i \le j} w_i (e_i - c_i), \qquad
        \sigma_S = \frac{1}{W_S} \sqrt{\sum_{i \in S} w_i^2 c_i (1 - c_i)} .

    The error is the largest :math:`R_S / \sigma_S` of all segments, times :math:`\sigma` of
    all rows. It has no bins.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        Predicted probabilities; a single column is the probability of the second class.
    segments : DataFrame, array-like, mapping or list of masks
        - A DataFrame, two-dimensional array or single column of categories (cut numbers into
          ranges first): every value of a column is a segment, and every combination of values
          of up to `max_depth` columns. Missing values are a value of their own.
        - A mapping of names to boolean masks of shape (n_samples,), or a list of masks, which
          may overlap.

        All rows together always are a segment too.
    max_depth : int, default=2
        Largest number of columns to combine; for masks it has no meaning.
    min_count : int, default=10
        Segments with fewer rows are left out.
    kind : {"top-label", "class-wise", "positive"}, default="top-label"
        Which probability is held against which event, as in
        :func:`expected_calibration_error`. The paper's is "positive". For "class-wise" the
        error is the largest of the classes.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights. They are not counts here: doubling all of them changes nothing,
        as it should where they correct how rows were drawn.
    labels : array-like of shape (n_classes,), optional
        The class of each column of `y_proba`, in column order. Needed only where `y_true`
        does not show every class and its labels are not column numbers.

    Returns
    -------
    SegmentCalibration
        The error and the segments behind it; ``to_frame()`` gives a table.

    Raises
    ------
    ValueError
        If the segments do not fit the rows or are fractions, or an option is out of range.

    See Also
    --------
    group_calibration_error : Binned errors of groups that do not overlap.
    cumulative_calibration_error : The error of all rows.

    Notes
    -----
    It is biased upwards, the more so the more segments there are. With 10,000 rows whose
    labels were drawn from their probabilities (uniform on [0, 1]), the error was 0.010, 0.012
    and 0.014 on average with 6, 36 and 171 segments at random; the largest ratio was 2.3,
    2.8 and 3.3, and above 3.3, 3.5 and 4.3 in one of 20 data sets. None of several hundred
    reached `detectable`; an error below it is no evidence.

    Rows whose probabilities agree to 12 decimals have no order among them and count as one
    step. The variance of a sure prediction is taken as 1e-12 instead of zero, so that a
    single wrong one among them makes the error very large, not infinite; both are choices of
    ours, as is the default depth.

    References
    ----------
    .. [1] I. Guy, D. Haimovich, F. Linder, N. Okati, L. Perini, N. Tax and M. Tygert,
       "Measuring multi-calibration", arXiv:2506.11251, 2025.
    .. [2] I. Arrieta-Ibarra, P. Gujral, J. Tannen, M. Tygert and C. Xu, "Metrics of
       Calibration for Probabilistic Predictions", Journal of Machine Learning Research, 2022.

    Examples
    --------
    >>> from skcal.metrics import multicalibration_error
    >>> y_true = [1, 1, 1, 0] * 50 + [0, 0, 0, 1] * 50
    >>> region = ["north"] * 200 + ["south"] * 200
    >>> result = multicalibration_error(y_true, [0.5] * 400, segments=region, kind="positive")
    >>> result.segment, result.sigma.round(1)
    (['all rows', 'north', 'south'], array([0. , 7.1, 7.1]))
    >>> round(result.error, 3), round(result.detectable, 3)
    (0.177, 0.125)
    """
    codes, proba, weights, classes = check_predictions(y_true, y_proba, sample_weight, labels)
    check_kind(kind, proba.shape[1])
    check_whole(max_depth, "max_depth")
    check_whole(min_count, "min_count")
    counted = weights > 0
    chosen = _large_segments(segments, counted, max_depth, min_count)
    names = [name for _, _, found, _ in chosen for name in found]
    tables = []
    for confidence, event in comparisons(kind, codes, proba):
        ordered, order = rank_order(confidence)
        ordered, order = ordered[counted[order]], order[counted[order]]
        terms = ordered, event[order], weights[order]
        parts = [_cumulative(*terms, part[order])[kept] for part, kept, _, _ in chosen]
        tables.append(np.vstack(parts))
    values = np.stack(tables)  # kinds of events, segments, (range, standard deviation)
    sigma = values[..., 0] / values[..., 1]
    everywhere = values[:, 0, 1]
    n_tables = len(tables)
    class_label = classes.tolist() if kind == "class-wise" else [None]
    return SegmentCalibration(
        error=float((sigma.max(axis=1) * everywhere).max()),
        detectable=float(_CLEAR * everywhere.max()),
        segment=names * n_tables,
        cumulative_error=values[..., 0].ravel(),
        standard_deviation=values[..., 1].ravel(),
        sigma=sigma.ravel(),
        count=np.tile(np.concatenate([count for *_, count in chosen]), n_tables),
        class_label=[label for label in class_label for _ in names],
        kind=kind,
    )


def _large_segments(
    segments: Any, counted: NDArray[np.bool_], max_depth: int, min_count: int
) -> list[tuple[IntArray, IntArray, list[str], IntArray]]:
    """Return partitions of the rows: numbers, and those, names and counts of large segments."""
    n_rows = len(counted)
    # All rows are never too few.
    everything = np.zeros(n_rows, dtype=np.intp)
    chosen = [(everything, np.array([0]), [_ALL], np.array([counted.sum()]))]
    for part, names in partitions(segments, n_rows, max_depth):
        count = np.bincount(part[counted] + 1, minlength=len(names) + 1)[1:]
        kept = np.flatnonzero(count >= min_count)
        if len(kept):
            chosen.append((part, kept, [names[g] for g in kept], count[kept]))
    return chosen


def _cumulative(
    confidence: FloatArray, event: FloatArray, weights: FloatArray, segment: IntArray
) -> FloatArray:
    """Return the range and the standard deviation (n_segments, 2) of all segments.

    The rows come in order of their confidence; those in segment -1 are left out.
    """
    inside = np.flatnonzero(segment >= 0)
    rows = inside[np.argsort(segment[inside], kind="stable")]
    number, c, w = segment[rows], confidence[rows], weights[rows]
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    last = np.append((np.diff(number) != 0) | (np.diff(c) > 0), True)
    running = np.cumsum(w * (event[rows] - c))
    before = np.concatenate([[0.0], running])[starts]
    running -= np.repeat(before, np.diff(np.append(starts, len(rows))))
    # Within a tie there is no step to look at; zero, where every sum starts, changes nothing.
    steps = np.where(last, running, 0.0)
    high = np.maximum(np.maximum.reduceat(steps, starts), 0.0)
    low = np.minimum(np.minimum.reduceat(steps, starts), 0.0)
    total = np.add.reduceat(w, starts)
    variance = np.maximum(c * (1 - c), _LEAST_VARIANCE)
    spread = np.sqrt(np.add.reduceat(w**2 * variance, starts))
    out = np.zeros((int(segment.max()) + 1, 2))
    out[number[starts]] = np.column_stack([(high - low) / total, spread / total])
    return out
