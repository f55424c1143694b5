"""Multicalibration by boosting: "MCGrad"."""

from __future__ import annotations

from itertools import islice
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._fitting.folds import deal_folds
from skcal.calibration._local.base import _MOST_ROWS, LocalCalibrator, clear_gain
from skcal.calibration._local.boosted_rounds import (
    Estimator,
    Round,
    boost_rounds,
    held_out_gains,
    show_logits,
    stack_columns,
)
from skcal.calibration._local.tree_boosting import Options
from skcal.calibration._local.trees import Trees, join_trees, part_trees


class MultiCalibration(LocalCalibrator):
    r"""Calibrate in all segments at once, by boosting on features and scores (multicalibration).

    Rounds of gradient boosting begin at the scores, read the features and the scores, and so
    find the segments that are off, without being told of any. After each round the scores are
    rescaled by one factor.

    Parameters
    ----------
    estimator : {"vector_trees", "lightgbm"}, default="vector_trees"
        Who grows the trees. "vector_trees" needs nothing more: each tree serves all classes.
        "lightgbm", as published, needs ``skcal[boosting]`` in ``fit``, not afterwards; of three
        classes or more it grows one tree for each.
    n_rounds : int or "auto", default="auto"
        Rounds. "auto" chooses them by cross-validated log-loss; zero rounds are temperature
        scaling.
    max_rounds : int, default=100
        Most rounds that "auto" tries.
    patience : int, default=0
        How many rounds "auto" goes on for after one that did not lower the log-loss on held-out
        rows by 1e-4 nats.
    n_trees : int, default=10
        Trees in a round.
    learning_rate : float, default=0.1
        Share of Newton's step that a leaf takes.
    max_leaf_nodes : int, default=8
        Most leaves of a tree.
    min_samples_leaf : int, default=20
        Least sum of weights in a leaf; LightGBM counts rows.
    l2_regularization : float, default=10.0
        Added to the curvature of a leaf.
    fallback : bool, default=True
        Stay with temperature scaling unless the local map has a log-loss that is lower on
        held-out rows by more than a standard error; by more of them the more rounds were
        tried.
    cv : int, default=3
        Folds of that comparison, and of the choice of rounds; of 20,000 rows at most.
    random_state : int, RandomState instance or None, default=None
        Draws these rows, and seeds LightGBM.
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    temperature_ : float
        Of the global map, with which all begins.
    is_local_ : bool
        Whether there are rounds in use; False if it fell back on the temperature.
    reason_ : str
        Why, in a sentence.
    settings_ : dict
        "n_rounds".
    cv_results_ : dict
        "settings", and "gain", the log-loss in nats that each number of rounds takes off the
        temperature's on held-out rows; if there was anything to choose.
    scales_ : ndarray of shape (n_iter_,)
        The factor of each round; far from one, a round did too much or too little.
    n_trees_ : ndarray of shape (n_iter_,)
        Trees of each round.
    n_splits_ : ndarray of shape (sum of n_trees_,)
        Splits of each tree.
    split_columns_, split_thresholds_, split_leaves_ : ndarray of shape (sum of n_splits_,)
        One tree after the other: split s of a tree sends rows above the threshold from this
        leaf into leaf s, counted from one. Columns from ``n_columns_`` on are the logits.
    leaf_values_ : ndarray of shape (number of leaves, n_classes or 1)
        What leaves add to the logits. A single value belongs to one class: such trees take
        turns, class by class.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    n_columns_ : int
        Number of feature columns.
    column_names_ : ndarray of shape (n_columns,)
        Their names, if the features were a table with names.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        Rounds. Fewer than were chosen if none more lowered the log-loss on the rows of ``fit``.
    converged_ : bool
        True.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    skcal.metrics.multicalibration_error : What is to become small.
    VQDirichletCalibration : Regions instead of trees.

    Notes
    -----
    With the logits :math:`F_0` that the temperature leaves, round t is

    .. math:: F_t = \theta_t \Big( F_{t-1} + \sum_m \phi_{tm}(x, F_{t-1}) \Big),

    with trees :math:`\phi` boosted from :math:`F_{t-1}` on the log-loss, and :math:`\theta_t`
    the temperature of the sum, with the pull towards one of :class:`TemperatureScaling`, at
    most 50. The published method is of two classes; boosting K classes from given scores and
    rescaling them by one temperature is our derivation. The trees read the logits less the mean
    of their row. If a round raised the log-loss of its rows, its trees would be halved, and
    after eight halvings dropped: that log-loss never rises.

    Defaults are ours, and favour small data: the authors' rounds have 94 trees of 5 leaves with
    160 rows each, a learning rate of 0.0287 and an l2 of 0.0091, and five folds. A value of a
    leaf is at most four times the learning rate. Weights count as rows, but folds hold rows
    whatever their weight.

    References
    ----------
    "MCGrad: Multicalibration at Web Scale", arXiv:2509.19884.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import MultiCalibration
    >>> from skcal.metrics import multicalibration_error
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.integers(3, size=(2000, 2))
    >>> p = rng.uniform(0.1, 0.9, size=2000)
    >>> south = Z[:, 0] == 1
    >>> y = rng.random(2000) < np.where(south, p**2, p)
    >>> local = MultiCalibration(random_state=0).fit(p, y, features=Z)
    >>> local.is_local_
    True
    >>> for proba in (p, local.predict_proba(p, features=Z)):
    ...     print(f"{multicalibration_error(y, proba, segments=Z, kind='positive').error:.2f}")
    0.12
    0.02
    """

    # Only the order of features counts: nothing is squared.
    _largest_feature: ClassVar[float] = np.inf

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalCalibrator._parameter_constraints,
        "estimator": [StrOptions({"vector_trees", "lightgbm"})],
        "n_rounds": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_rounds": [Interval(Integral, 1, None, closed="left")],
        "patience": [Interval(Integral, 0, None, closed="left")],
        "n_trees": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "max_leaf_nodes": [Interval(Integral, 2, 1000, closed="both")],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "l2_regularization": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Estimator = "vector_trees",
        *,
        n_rounds: Any = "auto",
        max_rounds: int = 100,
        patience: int = 0,
        n_trees: int = 10,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 8,
        min_samples_leaf: int = 20,
        l2_regularization: float = 10.0,
        fallback: bool = True,
        cv: int = 3,
        random_state: Any = None,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(fallback=fallback, cv=cv, random_state=random_state, input=input, eps=eps)
        self.estimator = estimator
        self.n_rounds = n_rounds
        self.max_rounds = max_rounds
        self.patience = patience
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization

    # -- the map -------------------------------------------------------------------------

    def _candidates(self, features: FloatArray, n_classes: int) -> list[dict[str, Any]]:
        if self.n_rounds != "auto":
            return [{"n_rounds": self.n_rounds}]
        return [{"n_rounds": count} for count in range(self.max_rounds + 1)]

    def _options(self) -> Options:
        return Options(
            self.n_trees,
            self.learning_rate,
            self.max_leaf_nodes,
            self.min_samples_leaf,
            self.l2_regularization,
            self._seed,
        )

    def _choose(
        self,
        candidates: list[dict[str, Any]],
        log_proba: FloatArray,
        codes: IntArray,
        weights: FloatArray,
        features: FloatArray,
    ) -> None:
        rows = np.arange(len(codes))
        n_folds = min(self.cv, len(rows))
        if self.n_rounds != "auto":
            super()._choose(candidates, log_proba, codes, weights, features)
            return
        if n_folds < 2:
            self.is_local_, self.reason_ = False, "A single row tells nothing of segments."
            return
        if len(rows) > _MOST_ROWS:
            draw = np.random.default_rng(self._seed)
            rows = np.sort(draw.choice(rows, _MOST_ROWS, replace=False))
        # The rounds of a short fit are the first ones of a long one: one pass tries all numbers.
        gains = held_out_gains(
            features[rows],
            log_proba[rows],
            codes[rows],
            weights[rows],
            deal_folds(log_proba[rows], codes[rows], n_folds),
            estimator=self.estimator,
            options=self._options(),
            max_rounds=self.max_rounds,
            patience=self.patience,
        )
        total = float(weights[rows].sum())
        means = gains @ weights[rows] / total
        best = int(means.argmax())
        error = float(np.sqrt(weights[rows] @ (gains[best] - means[best]) ** 2)) / total
        self.settings_ = candidates[best]
        self.cv_results_ = {"settings": candidates[: len(means)], "gain": means}
        self.is_local_ = (
            best > 0 and bool(means[best] > clear_gain(error, len(means) - 1))
            if self.fallback
            else best > 0
        )
        one = "1 round" if best == 1 else f"{best} rounds"
        self.reason_ = (
            f"{one}: cross-validated log-loss {means[best]:.4f} nats below that of temperature "
            f"scaling (standard error {error:.4f})"
            if best > 0
            else "No round lowered the cross-validated log-loss of temperature scaling"
        ) + ("." if self.is_local_ else ": fell back on temperature scaling.")

    def _fit_local(
        self, log_proba: FloatArray, codes: IntArray, weights: FloatArray, features: FloatArray
    ) -> None:
        rounds = boost_rounds(
            features,
            log_proba,
            codes,
            weights,
            estimator=self.estimator,
            options=self._options(),
        )
        found = list(islice(rounds, self.settings_["n_rounds"]))
        self.n_iter_ = len(found)
        self.scales_ = np.array([one.scale for one in found])
        self.n_trees_ = np.array([len(one.trees.n_splits) for one in found], dtype=np.intp)
        if not found:
            self.is_local_, self.reason_ = False, "No round lowered the log-loss of these rows."
        else:
            trees = join_trees([one.trees for one in found])
            self.n_splits_, self.split_columns_, self.split_thresholds_ = trees[:3]
            self.split_leaves_, self.leaf_values_ = trees[3:]

    def _transform_local(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        if not len(self.scales_):  # no round lowered the log-loss of the rows of the fit
            return log_proba
        columns = stack_columns(features, log_proba.shape[1])
        for trees, scale in zip(
            part_trees(self._trees(), self.n_trees_), self.scales_, strict=True
        ):
            show_logits(columns, log_proba)
            log_proba = Round(trees, scale).apply(log_proba, columns)
        return log_proba

    def _trees(self) -> Trees:
        return Trees(
            self.n_splits_,
            self.split_columns_,
            self.split_thresholds_,
            self.split_leaves_,
            self.leaf_values_,
        )
