"""Synthetic tables whose true class probabilities are known."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.utils import check_random_state

from skcal._options import check_whole

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
Seed = int | RandomState | None

_N_WAVES = 50  # cosines per class: enough for a smooth surface with many bends
_N_REFERENCE = 10_000  # rows on which a function is standardised: 1 % error of its scale
_BEND = 2.0  # standard deviation, in radians, of a cosine's phase over the rows


def make_calibration_data(
    n_samples: int = 1000,
    *,
    n_features: int = 10,
    n_classes: int = 2,
    n_informative: int = 5,
    scale: float = 2.0,
    label_noise: float = 0.0,
    class_weights: ArrayLike | None = None,
    random_state: Seed = None,
    row_state: Seed = None,
) -> tuple[FloatArray, IntArray, FloatArray]:
    r"""Draw a classification table together with its true probabilities.

    The features are independent standard normal numbers. A smooth random function of the
    first ``n_informative`` columns gives one logit per class, the logits give the
    probabilities, and each label is drawn from its row's probabilities. So the calibration
    error, the irreducible log-loss and the best possible accuracy are all known.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_features : int, default=10
        Number of columns.
    n_classes : int, default=2
        Number of classes K, at least 2.
    n_informative : int, default=5
        Number m of columns that matter, at most ``n_features``: the first ones. The others
        are noise, independent of the label.
    scale : float, default=2.0
        Standard deviation s of each class's logit over the rows. 0 makes every row uniform,
        large values make the classes nearly separable.
    label_noise : float, default=0.0
        Share, between 0 and 1, of the probability that is spread evenly over the classes.
    class_weights : array-like of shape (n_classes,), optional
        Wanted shares of the classes before label noise: positive, scaled to sum to one. They
        are met to about one percentage point. Without them the offsets are zero and the
        shares near 1 / K.
    random_state : int, RandomState or None, default=None
        Decides everything: the function, the rows and the labels. None draws fresh entropy;
        NumPy's global state is neither read nor changed.
    row_state : int, RandomState or None, default=None
        Decides the rows and the labels in place of ``random_state``. The same integer
        ``random_state`` with another ``row_state`` gives new independent rows of the same
        function: a test set.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), float64
    y : ndarray of shape (n_samples,), intp
        Labels 0, ..., K - 1.
    proba : ndarray of shape (n_samples, n_classes), float64
        True conditional probabilities, p(y = k | x) in column k.

    Raises
    ------
    ValueError
        If an argument is outside its range, or ``class_weights`` cannot be met because a very
        large ``scale`` leaves the offsets no effect.

    Notes
    -----
    With z the informative columns, K the number of classes and R = 50,

    .. math::

        g_k(z) &= a_k \cdot z / \sqrt{m}
                  + \sqrt{2 / R} \sum_{r=1}^{R} c_{kr} \cos(w_r \cdot z + b_r) \\
        f_k(z) &= s \, (g_k(z) - \mu_k) / \sigma_k + \beta_k \\
        p_k(z) &= (1 - \epsilon) \, \mathrm{softmax}(f(z))_k + \epsilon / K

    a and c are standard normal, b is uniform on [0, 2π) and w is normal with variance 4 / m:
    a random plane plus random Fourier features [1]_. :math:`\mu_k` and :math:`\sigma_k` are
    the mean and standard deviation of :math:`g_k` over 10,000 reference rows drawn with the
    function. The offsets β are 0 or solve mean softmax(f) = ``class_weights`` on these rows.

    The function depends on ``random_state``, ``n_informative``, ``n_classes``, ``scale``,
    ``label_noise`` and ``class_weights`` alone. With equal integer seeds the first rows of a
    longer table are those of a shorter one, so take a test set by ``row_state`` or by
    splitting, never by a second call with another ``n_samples``.

    References
    ----------
    .. [1] A. Rahimi and B. Recht. Random features for large-scale kernel machines. Advances
       in Neural Information Processing Systems 20, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.datasets import make_calibration_data
    >>> X, y, proba = make_calibration_data(500, n_classes=3, random_state=0)
    >>> X.shape, y.shape, proba.shape
    ((500, 10), (500,), (500, 3))
    >>> bool(np.allclose(proba.sum(axis=1), 1))
    True

    New rows of the same function:

    >>> X_test, y_test, proba_test = make_calibration_data(
    ...     2000, n_classes=3, random_state=0, row_state=1)
    """
    check_whole(n_samples, "n_samples")
    check_whole(n_features, "n_features")
    check_whole(n_classes, "n_classes", 2)
    check_whole(n_informative, "n_informative")
    if n_informative > n_features:
        raise ValueError(
            f"n_informative must be at most n_features; got n_informative={n_informative} "
            f"and n_features={n_features}."
        )
    _check_number("scale", scale, 0.0, np.inf)
    _check_number("label_noise", label_noise, 0.0, 1.0)
    shares = _check_shares(class_weights, n_classes)

    # Separate streams, so that no argument but the seeds decides where a stream starts.
    function_seed, *row_seeds = _child_seeds(random_state, 3)
    if row_state is not None:
        # Past the first three, so that equal integers do not share a stream.
        row_seeds = _child_seeds(row_state, 5)[3:]
    logits = _draw_logits(RandomState(function_seed), n_informative, n_classes, scale, shares)

    X = RandomState(row_seeds[0]).standard_normal((n_samples, n_features))
    proba = softmax(logits(X[:, :n_informative]), axis=1)
    proba = (1.0 - label_noise) * proba + label_noise / n_classes
    steps = np.cumsum(proba, axis=1)[:, :-1]
    draws = RandomState(row_seeds[1]).random_sample(n_samples)
    # The last step is left out: rounding could put it below a draw.
    y = (draws[:, None] >= steps).sum(axis=1)
    return X, y, proba


def _draw_logits(
    rng: RandomState, n_informative: int, n_classes: int, scale: float, shares: FloatArray | None
) -> Callable[[FloatArray], FloatArray]:
    """Return a random function from informative columns (n, m) to logits (n, K)."""
    plane = rng.standard_normal((n_informative, n_classes)) / np.sqrt(n_informative)
    waves = rng.standard_normal((n_informative, _N_WAVES)) * _BEND / np.sqrt(n_informative)
    phases = rng.uniform(0.0, 2.0 * np.pi, _N_WAVES)
    heights = rng.standard_normal((_N_WAVES, n_classes)) * np.sqrt(2.0 / _N_WAVES)
    reference = rng.standard_normal((_N_REFERENCE, n_informative))

    def raw(z: FloatArray) -> FloatArray:
        return z @ plane + np.cos(z @ waves + phases) @ heights

    scores = raw(reference)
    mean, deviation = scores.mean(axis=0), scores.std(axis=0)
    offsets = np.zeros(n_classes)
    if shares is not None:
        offsets = _solve_offsets(scale * (scores - mean) / deviation, shares)
    return lambda z: scale * (raw(z) - mean) / deviation + offsets


def _solve_offsets(logits: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the offsets with which the mean of the softmax equals the wanted shares.

    Each step raises the concave function shares·β - mean log-sum-exp(logits + β), whose
    maximum is the solution (iterative proportional fitting).
    """
    offsets = np.log(shares)
    for _ in range(500):
        # In logarithms, because a class may be far from every row at first.
        reached = logsumexp(log_softmax(logits + offsets, axis=1), axis=0) - np.log(len(logits))
        if np.abs(reached - np.log(shares)).max() < 1e-3:
            return offsets
        offsets += np.log(shares) - reached
    raise ValueError("class_weights could not be met: labels are all but certain; lower scale.")


def _child_seeds(seed: Seed, n: int) -> list[int]:
    """Return seeds of independent streams; None means fresh entropy, not the global state."""
    rng = RandomState() if seed is None else check_random_state(seed)
    return [int(child) for child in rng.randint(2**32, size=n, dtype=np.uint32)]


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    # NaN fails the comparison, infinity the second test.
    if not (isinstance(value, Real) and low <= float(value) <= high and np.isfinite(float(value))):
        limits = f"at least {low:g}" if np.isinf(high) else f"between {low:g} and {high:g}"
        raise ValueError(f"{name} must be a finite number {limits}; got {value!r}.")


def _check_shares(class_weights: ArrayLike | None, n_classes: int) -> FloatArray | None:
    if class_weights is None:
        return None
    shares = np.asarray(class_weights, dtype=np.float64)
    if shares.shape != (n_classes,) or not (np.isfinite(shares) & (shares > 0)).all():
        raise ValueError(
            f"class_weights must hold one positive number for each of the {n_classes} classes; "
            f"got {class_weights!r}."
        )
    return shares / shares.sum()
