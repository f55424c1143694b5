"""Checks of what calibration is for, and of scores that are hard on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.metrics import roc_auc_score

from skcal.calibration import IdentityCalibration
from skcal.testing._tools import (
    FloatArray,
    draw_proba,
    fit,
    log_loss,
    require,
    require_close,
    require_equal,
    require_simplex,
)


def check_overconfident_scores_are_mended(calibrator: Any) -> None:
    """Logits three times too large are brought within 0.02 nats of the truth."""
    for k in (2, 3):
        proba, y = draw_proba(5000, k, temperature=3.0)
        fresh, fresh_y = draw_proba(5000, k, temperature=3.0, seed=1)
        best = log_loss(fresh_y, softmax(np.log(fresh) / 3, axis=1))
        loss = log_loss(fresh_y, fit(calibrator, proba, y).predict_proba(fresh))
        require(
            loss < best + 0.02,
            f"over-confident scores of {k} classes: log-loss {loss:.3f}; the true "
            f"probabilities have {best:.3f}, the scores {log_loss(fresh_y, fresh):.3f}",
        )


def check_calibrated_scores_keep_their_loss(calibrator: Any) -> None:
    """Scores that are calibrated already do not lose by it on new rows."""
    for k in (2, 3):
        proba, y = draw_proba(20_000, k)
        fresh, fresh_y = draw_proba(5000, k, seed=1)
        before = log_loss(fresh_y, fresh)
        after = log_loss(fresh_y, fit(calibrator, proba, y).predict_proba(fresh))
        require(
            after < before + 0.005,
            f"calibrated scores of {k} classes: log-loss {before:.4f} becomes {after:.4f}",
        )


def check_calibrated_scores_stay_as_they_are(calibrator: Any) -> None:
    """Scores that are calibrated already move by less than 0.015 on average."""
    for k in (2, 3):
        proba, y = draw_proba(20_000, k)
        fresh, _ = draw_proba(5000, k, seed=1)
        moved = np.abs(fit(calibrator, proba, y).predict_proba(fresh) - fresh).mean()
        require(moved < 0.015, f"calibrated scores of {k} classes move by {moved:.3f} on average")


def check_own_rows_are_not_made_worse(calibrator: Any) -> None:
    """On its own rows the log-loss is not above that of no calibration."""
    for k in (2, 3, 10):
        for n in (12, 100, 1000):
            for temperature in (0.3, 1.0, 3.0):
                how = f"{n} rows of {k} classes, T={temperature}"
                _require_not_worse(calibrator, how, n, k, temperature=temperature)


def check_saturated_scores_do_not_diverge(calibrator: Any) -> None:
    """Scores like those of naive Bayes, near 0 and 1 and often wrong, are not made worse."""
    for k in (2, 3, 10):
        for spread in (20.0, 200.0, 2000.0):
            proba, y = draw_proba(500, k, spread=spread, temperature=spread / 2)
            fresh, fresh_y = draw_proba(1000, k, spread=spread, temperature=spread / 2, seed=1)
            before, after = _identity(proba, y, fresh), fit(calibrator, proba, y)
            answer = after.predict_proba(fresh)
            how = f"saturated scores of {k} classes, spread {spread:g}"
            require_simplex(answer, 1000, k)
            _require_not_worse(calibrator, how, 500, k, spread=spread, temperature=spread / 2)
            was, now = log_loss(fresh_y, before), log_loss(fresh_y, answer)
            require(now < 1.05 * was, f"{how}: log-loss {was:.3f} becomes {now:.3f} on new rows")
            was, now = _accuracy(fresh_y, before), _accuracy(fresh_y, answer)
            require(now > was - 0.1, f"{how}: accuracy {was:.2f} becomes {now:.2f}")


def check_ranking_of_two_classes_is_kept(calibrator: Any) -> None:
    """Ranking of two classes: the area under the ROC curve falls by no more than 0.01."""
    rng = np.random.default_rng(0)
    separable = np.repeat([0, 1], 20)
    p = np.where(separable == 1, rng.uniform(0.6, 0.95, 40), rng.uniform(0.05, 0.4, 40))
    fresh, fresh_y = draw_proba(2000, 2, seed=1)
    ordinary, ordinary_y = draw_proba(300, 2, temperature=2.0)
    for how, scores, y in (("40 separable", p, separable), ("300", ordinary, ordinary_y)):
        answer = fit(calibrator, scores, y).predict_proba(fresh)
        before, after = roc_auc_score(fresh_y, fresh[:, 1]), roc_auc_score(fresh_y, answer[:, 1])
        require(after >= before - 0.01, f"fitted on {how} rows: AUC {before:.3f} -> {after:.3f}")


def check_one_hot_rows(calibrator: Any) -> None:
    """Rows of zeros and a one, a fifth of them wrong, in any type: log-loss near the best."""
    for k in (2, 3):
        rng = np.random.default_rng(0)
        said = rng.integers(0, k, 500)
        y = np.where(rng.random(500) < 0.2, (said + rng.integers(1, k, 500)) % k, said)
        # Each row can only say how often such rows are right.
        right = (said == y).mean()
        best = -right * np.log(right) - (1 - right) * np.log((1 - right) / (k - 1))
        for dtype in (np.float64, np.float32, np.float16, int):
            scores = np.eye(k, dtype=dtype)[said]
            proba = fit(calibrator, scores, y).predict_proba(scores)
            require_simplex(proba, 500, k)
            loss = log_loss(y, proba)
            require(
                loss < best + 0.1,
                f"one-hot {dtype.__name__} rows of {k} classes: log-loss {loss:.3f}; {best:.3f} "
                "is possible",
            )


def check_votes_with_zeros(calibrator: Any) -> None:
    """Shares of 40 votes: a zero says less than a fortieth, not an impossibility."""

    def vote(seed: int) -> tuple[FloatArray, Any]:
        rng = np.random.default_rng(seed)
        proba, y = draw_proba(3000, 3, seed=seed)
        return np.array([rng.multinomial(40, row) / 40 for row in proba]), y

    votes, y = vote(0)
    fresh, fresh_y = vote(1)
    answer = fit(calibrator, votes, y).predict_proba(fresh)
    require_simplex(answer, 3000, 3)
    loss, smoothed = log_loss(fresh_y, answer), (fresh + 1 / 80) / (1 + 3 / 80)
    best = log_loss(fresh_y, smoothed)
    require(loss < best + 0.02, f"votes: log-loss {loss:.3f}; smoothed by hand {best:.3f}")


def check_separable_rows(calibrator: Any) -> None:
    """After rows without an error, no later error costs infinitely much."""
    for scores, y in _separable():
        proba = fit(calibrator, scores, y).predict_proba(scores)
        require_simplex(proba, *scores.shape)
        worst = -np.log(proba.min())
        require(worst < 30, f"after {len(y)} separable rows an error would cost {worst:.1f} nats")


def check_separable_rows_keep_their_class(calibrator: Any) -> None:
    """Rows without an error keep the class that they have."""
    for scores, y in _separable():
        proba = fit(calibrator, scores, y).predict_proba(scores)
        require_equal(proba.argmax(axis=1), y, "separable rows change their class")


def _separable() -> Iterator[tuple[FloatArray, Any]]:
    rng = np.random.default_rng(0)
    for k, n in ((2, 40), (3, 60)):
        y = rng.permutation(np.arange(n) % k)
        yield np.eye(k)[y], y
        for margin in (2.0, 12.0):
            yield softmax(margin * np.eye(k)[y] + rng.random((n, k)), axis=1), y


def check_zeros_and_ones_unseen_in_fit(calibrator: Any) -> None:
    """Certain rows and rows far outside those of ``fit`` get a finite answer."""
    for k in (2, 3):
        proba, y = draw_proba(100, k)
        fitted = fit(calibrator, proba, y)
        require_simplex(fitted.predict_proba(np.eye(k)), k, k)
        far = softmax(600 * np.eye(k), axis=1)
        require_simplex(fitted.predict_proba(far), k, k)


def check_scores_that_say_nothing(calibrator: Any) -> None:
    """Uniform rows of balanced classes stay uniform."""
    y = np.repeat([0, 1, 2], 50)
    fitted = fit(calibrator, np.full((150, 3), 1 / 3), y)
    answer = fitted.predict_proba(np.full((1, 3), 1 / 3))
    require_close(answer, np.full((1, 3), 1 / 3), "uniform rows do not stay uniform", atol=0.01)
    require_simplex(fitted.predict_proba(np.array([[0.6, 0.3, 0.1]])), 1, 3)


def check_permuted_classes(calibrator: Any) -> None:
    """Permuting the columns permutes the answer: no class is special."""
    for k in (2, 4):
        for spread in (2.0, 40.0):
            proba, y = draw_proba(400, k, spread=spread, temperature=20.0)
            order = np.random.default_rng(1).permutation(k) if k > 2 else np.array([1, 0])
            before = fit(calibrator, proba, y).predict_proba(proba)
            columns = proba[:, order]
            after = fit(calibrator, columns, y, classes=order).predict_proba(columns)
            what = f"permuting {k} classes changes the answer"
            require_close(after, before[:, order], what, rtol=1e-6, atol=1e-9)


def _require_not_worse(calibrator: Any, how: str, n: int, k: int, **drawn: float) -> None:
    proba, y = draw_proba(n, k, **drawn)
    before = log_loss(y, _identity(proba, y, proba))
    after = log_loss(y, fit(calibrator, proba, y).predict_proba(proba))
    require(after <= before + 1e-9, f"{how}: log-loss {before:.6f} becomes {after:.6f} on them")


def _identity(proba: FloatArray, y: Any, rows: FloatArray) -> FloatArray:
    # Not the rows themselves: exact zeros would cost it infinitely much.
    return IdentityCalibration().fit(proba, y).predict_proba(rows)


def _accuracy(y: Any, proba: FloatArray) -> float:
    return float((proba.argmax(axis=1) == y).mean())
