"""Calibration by the labels of the rows around: KCal."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._local.base import LocalCalibrator
from skcal.calibration._local.kernel_vote import Vote, search_vote
from skcal.calibration._local.projection import (
    Kind,
    Projection,
    principal_components,
    train_projection,
)
from skcal.calibration._local.standard import column_scale, standardized


class KernelCalibration(LocalCalibrator):
    r"""Calibrate by the labels of the rows around (kernel calibration, KCal).

    Rows of ``fit`` vote on the class of a row, each weighed by a Gaussian kernel of its distance
    in a projection that is learned for that. As published the votes take the classifier's
    place; they may also correct it.

    Parameters
    ----------
    projection : {"skip_elu", "linear", "pca"} or None, default="skip_elu"
        Where distances are taken. "skip_elu", published, and "linear" are trained so that the
        rows around a row tell its class; "pca" is the principal components, None the columns
        themselves. Columns are standardised first.
    base : {"auto", "kernel", "model"}, default="auto"
        What the votes do. "kernel", published: they are the answer, and the classifier's scores
        are not in it but as columns. "model", ours: the classifier's probabilities, multiplied
        by the votes for each class and divided by the votes that they themselves expected.
        "auto" takes the one of lower cross-validated log-loss.
    n_components : int, default=32
        Dimensions of the projection; of "linear" and "pca" at most the number of columns.
    with_scores : bool, default=True
        Whether the logarithms of the scores are columns beside the features. Embeddings hold
        them anyway; of a table they would be lost.
    bandwidth : float or "cv", default="cv"
        h. "cv" is the least log-loss of rows left out one by one.
    prior : float or "cv", default="cv"
        a: as many rows, lying where the row lies, vote for the base rates ("kernel") or leave
        the classifier as it is ("model"). 0 is the published form. "cv" is chosen together
        with h.
    n_steps : int, default=500
        Steps of Adam that train the projection.
    lr : float, default=0.01
        Its learning rate; it falls to zero over the second half of the steps.
    batch_size : int, default=64
        Rows per step.
    background_per_class : int, default=20
        Rows of each class among which a step looks for neighbours.
    max_rows : int, default=20000
        Rows that vote, drawn at random if there are more; the projection is trained on all.
        Memory, files and the time of an answer grow with it.
    fallback : bool, default=True
        Stay with temperature scaling unless the local map has a log-loss that is lower on
        held-out rows by more than a standard error; by more of them if several bases were
        tried.
    cv : int, default=3
        Folds of that comparison, and of the choice of ``base``; of 20,000 rows at most.
    random_state : int, RandomState instance or None, default=None
        Seeds the projection, and which rows vote where there are many.
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
        Whether the local map is in use; False if it fell back on the temperature.
    reason_ : str
        Why, in a sentence.
    settings_ : dict
        "base": what the votes do.
    cv_results_ : dict
        "settings", and "gain", the log-loss in nats that each takes off the temperature's on
        held-out rows; if there was anything to choose.
    column_mean_, column_scale_ : ndarray of shape (n_columns [+ n_classes],)
        What standardises the columns, those of the scores last.
    matrix_ : ndarray of shape (n_columns [+ n_classes], n_components) or None
        The linear part of the projection.
    skip_ : ndarray of shape (n_components, n_components) or None
        The other part.
    points_ : ndarray of shape (n_rows, n_components)
        The rows that vote.
    point_codes_, point_weights_ : ndarray of shape (n_rows,)
        The columns of their classes, and their weights.
    point_proba_ : ndarray of shape (n_rows, n_classes) or None
        Their temperature-scaled probabilities; None with base "kernel".
    rates_ : ndarray of shape (n_classes,)
        Base rates of the labels, or mean probabilities with base "model".
    bandwidth_, prior_ : float
        The values in use.
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
        1: there is nothing that could fail to converge.
    converged_ : bool
        True.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration; rows vote on
        themselves here.

    See Also
    --------
    VQDirichletCalibration : Regions composed of codewords.
    ProximityCalibration : How far the neighbours are, instead of what they are.

    Notes
    -----
    With :math:`K_j = \exp(-\overline{(u - u_j)^2} / h)`, the mean taken over the dimensions of
    the projection, the answers are

    .. math:: q_k \propto \sum_j w_j K_j [y_j = k] + a \pi_k \quad \text{("kernel")}, \qquad
              q_k \propto p_k \frac{\sum_j w_j K_j [y_j = k] + a \pi_k}
              {\sum_j w_j K_j p_{jk} + a \pi_k} \quad \text{("model")}.

    Far from all rows the first ends at the base rates and the second at temperature scaling;
    with a = 0 at the nearest row's label. As a grows, the second is temperature scaling.

    The paper trains the projection on the classifier's training rows by plain gradient descent
    for hundreds of thousands of steps, with h = 1, then finds h by 20 folds on the calibration
    rows. Here there are no training rows: a short training by Adam and the search for h share
    the calibration rows, which makes h somewhat small. The comparison with temperature scaling
    does not: its held-out rows were seen by neither. A row that is left out is left out by its
    number: a copy of it stays.

    h is sought on a grid of bandwidths, then by golden section, with 1,000 rows left out one by
    one at most. A row of weight two equals a row repeated with ``projection`` None or "pca";
    training draws rows, and does not.

    References
    ----------
    Z. Lin, S. Trivedi and J. Sun, "Taking a Step Back with KCal: Multi-Class Kernel-Based
    Calibration for Deep Neural Networks", ICLR, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import KernelCalibration
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 2))  # where each row lies
    >>> y = rng.random(500) < np.where(Z[:, 0] * Z[:, 1] > 0, 0.9, 0.1)
    >>> p = np.full(500, 0.5)  # a classifier that sees nothing of that
    >>> local = KernelCalibration(projection=None, random_state=0).fit(p, y, features=Z)
    >>> local.is_local_
    True
    >>> local.predict([0.5, 0.5], features=[[1.0, 1.0], [1.0, -1.0]])
    array([ True, False])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalCalibrator._parameter_constraints,
        "projection": [StrOptions({"skip_elu", "linear", "pca"}), None],
        "base": [StrOptions({"auto", "kernel", "model"})],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "with_scores": ["boolean"],
        "bandwidth": [StrOptions({"cv"}), Interval(Real, 0, None, closed="neither")],
        "prior": [StrOptions({"cv"}), Interval(Real, 0, None, closed="left")],
        "n_steps": [Interval(Integral, 0, None, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "background_per_class": [Interval(Integral, 1, None, closed="left")],
        "max_rows": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        projection: Kind | None = "skip_elu",
        *,
        base: Literal["auto", "kernel", "model"] = "auto",
        n_components: int = 32,
        with_scores: bool = True,
        bandwidth: Any = "cv",
        prior: Any = "cv",
        n_steps: int = 500,
        lr: float = 0.01,
        batch_size: int = 64,
        background_per_class: int = 20,
        max_rows: int = 20_000,
        fallback: bool = True,
        cv: int = 3,
        random_state: Any = None,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(fallback=fallback, cv=cv, random_state=random_state, input=input, eps=eps)
        self.projection = projection
        self.base = base
        self.n_components = n_components
        self.with_scores = with_scores
        self.bandwidth = bandwidth
        self.prior = prior
        self.n_steps = n_steps
        self.lr = lr
        self.batch_size = batch_size
        self.background_per_class = background_per_class
        self.max_rows = max_rows

    # -- the map -------------------------------------------------------------------------

    def _candidates(self, features: FloatArray, n_classes: int) -> list[dict[str, Any]]:
        bases = ("model", "kernel") if self.base == "auto" else (self.base,)
        return [{"base": base} for base in bases]

    def _fit_local(
        self, log_proba: FloatArray, codes: IntArray, weights: FloatArray, features: FloatArray
    ) -> None:
        table = self._table(log_proba, features)
        self.column_mean_, self.column_scale_ = column_scale(table, weights)
        columns = standardized(table, self.column_mean_, self.column_scale_)
        self.matrix_, self.skip_ = self._project(columns, codes, weights)
        proba, n_classes = np.exp(log_proba), log_proba.shape[1]
        if self.settings_["base"] == "model":
            self.rates_ = np.average(proba, axis=0, weights=weights)
        else:  # a class without a row is not impossible
            mass = np.bincount(codes, weights, minlength=n_classes) + 1.0
            self.rates_ = mass / mass.sum()
        rows = np.arange(len(codes))
        if len(rows) > self.max_rows:
            draw = np.random.default_rng(self._seed)
            rows = np.sort(draw.choice(rows, self.max_rows, replace=False))
        self.points_ = Projection(self.matrix_, self.skip_).points(columns[rows])
        self.point_codes_, self.point_weights_ = codes[rows], weights[rows]
        self.point_proba_ = proba[rows] if self.settings_["base"] == "model" else None
        self.bandwidth_, self.prior_ = search_vote(
            self._vote(),
            log_proba[rows],
            bandwidth=None if self.bandwidth == "cv" else float(self.bandwidth),
            prior=None if self.prior == "cv" else float(self.prior),
            seed=self._seed,
        )

    def _transform_local(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        table = self._table(log_proba, features)
        columns = standardized(table, self.column_mean_, self.column_scale_)
        points = Projection(self.matrix_, self.skip_).points(columns)
        vote = self._vote()
        return vote.scores(vote.sums(points, self.bandwidth_), self.prior_, log_proba)

    def _project(self, columns: FloatArray, codes: IntArray, weights: FloatArray) -> Projection:
        if self.projection is None:
            return Projection(None, None)
        width = columns.shape[1]
        if self.projection == "pca":
            return principal_components(columns, weights, min(self.n_components, width))
        return train_projection(
            self.projection,
            columns,
            codes,
            weights,
            # More than there are columns would not make a linear map any richer.
            n_components=self.n_components
            if self.projection == "skip_elu"
            else min(self.n_components, width),
            n_steps=self.n_steps,
            lr=self.lr,
            batch_size=self.batch_size,
            background_per_class=self.background_per_class,
            seed=self._seed,
        )

    def _table(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        """Return the columns between which distances are taken."""
        if not self.with_scores:
            return features
        return np.hstack([features, log_proba - log_proba.mean(axis=1, keepdims=True)])

    def _vote(self) -> Vote:
        return Vote(
            self.points_, self.point_codes_, self.point_weights_, self.rates_, self.point_proba_
        )
