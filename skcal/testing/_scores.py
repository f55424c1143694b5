"""Checks of the scores' types and spellings, and of those that must be refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import sklearn.metrics
from scipy import sparse
from scipy.special import log_softmax, softmax

from skcal.testing._tools import (
    draw,
    draw_proba,
    fit,
    log_loss,
    refused,
    require,
    require_close,
    require_equal,
    require_simplex,
    torch_if_any,
)


def check_spellings_of_two_classes(calibrator: Any) -> None:
    """Probabilities of shape (n,), (n, 1) and (n, 2) agree, in ``fit`` and after it."""
    proba, y = draw_proba(300, 2)
    p = proba[:, 1]
    spellings = [p, p[:, None], np.column_stack([1 - p, p])]
    expected = fit(calibrator, p, y).predict_proba(p)
    require_simplex(expected, 300, 2)
    for scores in spellings:
        fitted = fit(calibrator, scores, y)
        for other in spellings:
            what = f"scores of shape {scores.shape} in fit and {other.shape} after it"
            require_close(fitted.predict_proba(other), expected, what, atol=1e-12)
    # A single column is the second class: more of it means more of that class.
    require(np.corrcoef(expected[:, 1], p)[0, 1] > 0.8, "one column is not the second class")


def check_spellings_of_two_logits(calibrator: Any) -> None:
    """Log-odds of shape (n,) and (n, 1) and logits of shape (n, 2) agree."""
    logits, y = draw(300, 2)
    odds = logits[:, 1] - logits[:, 0]
    expected = fit(calibrator, odds, y, kind="logits").predict_proba(odds)
    for scores in (odds[:, None], np.column_stack([-odds / 2, odds / 2]), logits, logits + 100):
        answer = fit(calibrator, scores, y, kind="logits").predict_proba(scores)
        what = f"logits of shape {scores.shape} and log-odds of shape (n,) disagree"
        require_close(answer, expected, what, atol=1e-11)


def check_logits_agree_with_their_softmax(calibrator: Any) -> None:
    """Logits, log-probabilities and probabilities that say the same give the same."""
    for k in (2, 5):
        logits, y = draw(400, k)
        expected = fit(calibrator, logits, y, kind="logits").predict_proba(logits)
        log_proba, proba = log_softmax(logits, axis=1), softmax(logits, axis=1)
        as_log = fit(calibrator, log_proba, y, kind="logits").predict_proba(log_proba)
        require_close(as_log, expected, f"log-probabilities of {k} classes", atol=1e-9)
        answer = fit(calibrator, proba, y).predict_proba(proba)
        require_close(answer, expected, f"probabilities of {k} classes", atol=1e-9)


def check_scores_are_what_is_declared(calibrator: Any) -> None:
    """Logits that could be probabilities are logits if ``input`` says so."""
    logits, y = draw(400, 3, temperature=0.1)
    small = softmax(logits, axis=1)
    expected = fit(calibrator, small + 5, y, kind="logits").predict_proba(small + 5)
    answer = fit(calibrator, small, y, kind="logits").predict_proba(small)
    # Logits of about 5 lose digits; taken for probabilities they would be far off.
    require_close(answer, expected, "logits in [0, 1] are taken for probabilities", atol=1e-4)


def check_logits_of_any_size(calibrator: Any) -> None:
    """Logits 1e5 times too small or too large are mended as well as others."""
    logits, y = draw(1000, 3)
    plain = fit(calibrator, logits, y, kind="logits").predict_proba(logits)
    for scale in (1e-5, 1e-2, 1e2, 1e5):
        fitted = fit(calibrator, scale * logits, y, kind="logits")
        answer = fitted.predict_proba(scale * logits)
        require_simplex(answer, 1000, 3)
        require_simplex(fitted.predict_proba(1e4 * scale * logits), 1000, 3)  # far outside
        lost = log_loss(y, answer) - log_loss(y, plain)
        require(lost < 0.03, f"logits times {scale:g} cost {lost:.3f} nats more")


def check_containers_of_scores(calibrator: Any) -> None:
    """Scores may be lists, tables with any index, tensors, and arrays of any layout."""
    import pandas as pd

    proba, y = draw_proba(400, 3)
    expected = fit(calibrator, proba, y).predict_proba(proba)
    containers: dict[str, Any] = {
        "a list": proba.tolist(),
        "a DataFrame": pd.DataFrame(proba, index=range(400, 0, -1)),
        "an array in Fortran order": np.asfortranarray(proba),
        "every second column of an array": np.repeat(proba, 2, axis=1)[:, ::2],
        "long doubles": proba.astype(np.longdouble),
    }
    torch = torch_if_any()
    if torch is not None:
        containers["a tensor"] = torch.tensor(proba)
        containers["a tensor with a gradient"] = torch.tensor(proba, requires_grad=True)
    labels = pd.Series(y, index=range(5, 405))  # another index: rows go by position
    for name, scores in containers.items():
        answer = fit(calibrator, scores, labels).predict_proba(scores)
        require_simplex(answer, 400, 3)
        require_close(answer, expected, f"scores as {name} change the answer", atol=1e-12)


def check_float32_and_float16(calibrator: Any) -> None:
    """Scores in fewer digits teach the same, and are answered in float64."""
    for kind, temperature in (("proba", 1.0), ("proba", 3.0)):
        proba, y = draw_proba(400, 3, temperature=temperature)
        expected = fit(calibrator, proba, y, kind=kind).predict_proba(proba)
        narrow: dict[str, tuple[Any, float]] = {
            "float32": (proba.astype(np.float32), 1e-5),
            "float16": (proba.astype(np.float16), 5e-3),
        }
        torch = torch_if_any()
        if torch is not None:
            narrow["a float32 tensor"] = (torch.tensor(proba).float(), 1e-5)
        for name, (scores, tolerance) in narrow.items():
            answer = fit(calibrator, scores, y, kind=kind).predict_proba(scores)
            require_simplex(answer, 400, 3)
            off = np.abs(answer - expected).mean()
            require(off < tolerance, f"{name} changes the answer by {off:.2g} on average")


def check_float32_rows_of_100_classes(calibrator: Any) -> None:
    """Rows that float32 rounds are accepted, and the answer is probabilities to others."""
    proba, y = draw_proba(600, 100)
    scores = proba.astype(np.float32)
    answer = fit(calibrator, scores, y).predict_proba(scores)
    require_simplex(answer, 600, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sklearn.metrics.log_loss(y, answer)


def check_rows_that_miss_one_are_refused(calibrator: Any) -> None:
    """Rows of float64 that sum to 1.001 are refused by number, and not read as logits."""
    proba, y = draw_proba(50, 3)
    off = proba.copy()
    off[7] *= 1.001
    with refused("a row that sums to 1.001, in fit,", r"\b7\b", r"1\.001"):
        fit(calibrator, off, y)
    fitted = fit(calibrator, proba, y)
    with refused("a row that sums to 1.001, in predict_proba,", r"\b7\b", r"1\.001"):
        fitted.predict_proba(off)


def check_rows_that_miss_one_by_rounding_are_rescaled(calibrator: Any) -> None:
    """Rows of float32 and float16 may miss 1 by what the type can lose, and are rescaled."""
    for dtype, miss in ((np.float32, 1e-4), (np.float16, 5e-3)):
        proba, y = draw_proba(300, 3)
        off = (proba * (1 + miss)).astype(dtype)
        rescaled = off / off.sum(axis=1, keepdims=True, dtype=np.float64)
        expected = fit(calibrator, rescaled, y).predict_proba(rescaled)
        answer = fit(calibrator, off, y).predict_proba(off)
        what = f"{dtype.__name__} rows that sum to {1 + miss} are not merely rescaled"
        # Far less than the miss; what is left is where an optimiser stops.
        require_close(answer, expected, what, atol=1e-7)


def check_one_row_off_leaves_the_others(calibrator: Any) -> None:
    """One row that misses 1 by rounding does not change how the others are read."""
    proba, y = draw_proba(50, 3)
    scores = proba.astype(np.float32)
    fitted = fit(calibrator, scores, y)
    before = fitted.predict_proba(scores)
    scores[7] *= np.float32(1.0005)
    after = fitted.predict_proba(scores)
    others = np.arange(50) != 7
    require_equal(after[others], before[others], "one row off changes the others")
    row = scores[7:8].astype(np.float64)
    rescaled = fitted.predict_proba(row / row.sum())
    require_close(after[7:8], rescaled, "a row off by rounding is not rescaled", atol=1e-9)


def check_scores_that_are_not_finite_are_refused(calibrator: Any) -> None:
    """NaN and infinity are refused by row number, in ``fit`` and after it."""
    proba, y = draw_proba(50, 3)
    kinds = ["proba", "logits"] if "input" in calibrator.get_params(deep=False) else ["proba"]
    for kind in kinds:
        fitted = fit(calibrator, proba, y, kind=kind)
        for value in (np.nan, np.inf, -np.inf):
            for dtype in (np.float64, np.float32):
                bad = proba.astype(dtype)
                bad[31, 1] = value
                with refused(f"{value} among {kind}, in fit,", r"\b31\b"):
                    fit(calibrator, bad, y, kind=kind)
                with refused(f"{value} among {kind}, in predict_proba,", r"\b31\b"):
                    fitted.predict_proba(bad)


def check_logits_given_as_probabilities_are_refused(calibrator: Any) -> None:
    """Values outside [0, 1] are refused by row number, also where the row sums to one."""
    proba, y = draw_proba(50, 3)
    fitted = fit(calibrator, proba, y)
    for row in ([-0.2, 0.6, 0.6], [1.5, -0.3, -0.2], [3.0, 1.0, -4.0]):
        bad = proba.copy()
        bad[3] = row
        with refused(f"a row {row}, in fit,", r"\b3\b"):
            fit(calibrator, bad, y)
        with refused(f"a row {row}, in predict_proba,", r"\b3\b"):
            fitted.predict_proba(bad)


def check_shapes_that_are_no_scores_are_refused(calibrator: Any) -> None:
    """Sparse and three-dimensional scores, none, text, and other lengths are refused."""
    proba, y = draw_proba(50, 3)
    with refused("a sparse matrix", "toarray", error=TypeError):
        fit(calibrator, sparse.csr_matrix(proba), y)
    with refused("scores of shape (50, 3, 1)", r"\(50, 3, 1\)"):
        fit(calibrator, proba[:, :, None], y)
    with refused("no rows"):
        fit(calibrator, proba[:0], y[:0])
    with refused("49 labels for 50 rows"):
        fit(calibrator, proba, y[:-1])
    with refused("text"):
        fit(calibrator, [["a", "b"], ["c", "d"]], [0, 1])
