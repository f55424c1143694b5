"""Networks with several heads, each trained with other class weights."""

from __future__ import annotations

import sys
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skcal.neural._disagreement import disagreement
from skcal.neural._fold_ensemble import FoldEnsemble
from skcal.neural._heads import (
    Averaging,
    check_output_layer,
    heads_of,
    logits_of_heads,
    replace_output_layer,
)
from skcal.neural._inherit import with_parameters_of
from skcal.neural._presets import PRESETS
from skcal.neural._rows import Rows
from skcal.neural.losses._multi_head import multi_head_rows, partition_classes, weigh_groups
from skcal.neural.mlp import NeSCalMLP
from skcal.neural.nescal import NeSCalClassifier

# The paper has two heads, and four.
_MOST_HEADS = 4
# Whose lines a warning does not point at.
_NOT_THE_USER = {"skcal", "sklearn", "joblib"}

_CONSTRAINTS: dict[str, list[Any]] = {
    "n_heads": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "weighting": [StrOptions({"partition", "none"})],
    "head_weight": [Interval(Real, 0, None, closed="neither"), None],
    "mean_loss": ["boolean"],
    "averaging": [StrOptions({"proba", "logit"})],
}


def _level_of_the_user() -> int:
    """Return how far up, for a warning of the caller, is the line that called ``fit``.

    It may have come through a second ``fit``, a search or a pipeline.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).split(".")[0] in _NOT_THE_USER:
        level, frame = level + 1, frame.f_back
    return level


class _MultiHead(NeSCalClassifier):
    """What both networks with several heads do."""

    n_heads: Any
    weighting: str
    head_weight: float | None
    mean_loss: bool
    averaging: Averaging
    head: str

    # -- training ------------------------------------------------------------------------

    def _describe(self, rows: Rows) -> None:
        super()._describe(rows)
        n_classes = len(self.classes_)
        n_heads = min(_MOST_HEADS, n_classes) if self.n_heads == "auto" else self.n_heads
        if n_classes < n_heads and not getattr(self, "fold_histories_", []):  # once, not per fold
            warnings.warn(
                f"There are fewer classes ({n_classes}) than heads (n_heads={n_heads}); "
                "heads without classes of their own are trained with plain weights.",
                UserWarning,
                stacklevel=_level_of_the_user(),
            )
        groups = [np.empty(0, dtype=np.int64)] * n_heads
        if self.weighting == "partition":
            # One seed for all folds, so that the same heads lean the same way.
            groups = partition_classes(n_classes, n_heads, self._split_seed)
        self.class_groups_ = [self.classes_[group] for group in groups]
        self.class_weights_ = weigh_groups(groups, n_classes, self.head_weight)

    def _finish_module(self) -> None:
        replace_output_layer(
            self.module_, self.head, len(self.classes_), len(self.class_groups_), self.averaging
        )

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Look whether the heads are the module's output layer."""
        super().on_train_begin(net, X=X, y=y, **kwargs)
        self.module_.eval()
        check_output_layer(self.module_, X.X[:2].to(self.device))

    def _row_losses(self, y_pred: Tensor, y_true: Tensor, weight: Tensor) -> Tensor:
        weights = torch.from_numpy(self.class_weights_).to(y_pred)
        return multi_head_rows(
            y_pred, y_true, weight, weights, self.criterion_, mean_loss=self.mean_loss
        )

    def _pool(self, y_pred: Tensor) -> Tensor:
        return y_pred if y_pred.ndim < 3 else heads_of(self.module_).average(y_pred)

    # -- prediction ----------------------------------------------------------------------

    def predict_proba(self, X: Any, per_head: bool = False) -> NDArray[np.floating]:
        """Return class probabilities.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
        per_head : bool, default=False
            Whether to return what each head says, rather than their average. The probabilities
            of a head lean towards its own classes, and are not calibrated by ``calibrate``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples, n_heads, n_classes)
            Columns in the order of ``classes_``.
        """
        if not per_head:
            return super().predict_proba(X)
        proba = [softmax(logits, axis=2) for logits in self._head_logits(X)]
        return np.mean(proba, axis=0).astype(self._fitted_dtype)

    def disagreement(self, X: Any) -> NDArray[np.float64]:
        r"""Return how far the heads are from saying the same: an uncertainty score.

        The entropy of the heads' mean probability less their mean entropy, after the class
        weights have been divided out: heads that have learned the same probabilities do not
        disagree, although they were trained to lean towards different classes.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), float64
            In nats, between 0 and the logarithm of the number of heads (of all folds together).
        """
        check_is_fitted(self)
        lean = np.log(self.class_weights_)
        heads = [logits - lean for logits in self._head_logits(X)]
        return disagreement(np.concatenate(heads, axis=1))

    def _head_logits(self, X: Any) -> list[NDArray[np.float64]]:
        """Return the logits of every head (n, n_heads, n_classes), of the network of each fold."""
        inputs = self._inputs(X)
        networks = (
            self.module_.networks if isinstance(self.module_, FoldEnsemble) else [self.module_]
        )
        found = []
        for network in networks:
            logits = logits_of_heads(network, inputs, device=self.device).double().cpu().numpy()
            found.append(logits if self._shift is None else logits + self._shift)
        return found


@with_parameters_of(NeSCalClassifier)
class MultiHeadClassifier(_MultiHead):
    r"""Train any torch classification module with several heads, Multi-Head Multi-Loss.

    Its output layer is replaced by H linear heads on the same representation. Each is trained
    with class weights of its own, and their mean as it is:

    .. math:: L = \frac1{H+1} \Big( \sum_h \frac{\sum_i w_{h y_i} \ell(z_{hi}, y_i)}
              {\sum_i w_{h y_i}} + \frac1B \sum_i \ell(\bar z_i, y_i) \Big).

    Parameters
    ----------
    module : torch.nn.Module class or instance, optional
        As of :class:`NeSCalClassifier`: it returns logits of shape (n, n_classes).
    n_heads : int or "auto", default="auto"
        The number H of heads. "auto" is 4, or the number of classes if they are fewer.
    weighting : {"partition", "none"}, default="partition"
        Share the classes out among the heads, each of which weighs its own more; or give all
        classes the same weight in all heads.
    head_weight : float, optional
        Weight of a head's own classes; that of all others is its inverse. ``n_heads`` by
        default, as published.
    mean_loss : bool, default=True
        Whether the mean of the heads' logits has a term in the loss, as in the authors' code.
    averaging : {"proba", "logit"}, default="proba"
        How heads answer together: by the mean of their probabilities, as published, or of
        their logits; see the notes.
    head : str, default="auto"
        Name of the module's output layer; "auto" is the last linear layer that it defines
        with one output per class.
    smoothing : float, default=0.0
        Weight of Neighborhood Smoothing, of the heads' average.
    **kwargs
        Other parameters of :class:`NeSCalClassifier`.

    Attributes
    ----------
    class_weights_ : ndarray of shape (n_heads, n_classes)
        The weights :math:`w`.
    class_groups_ : list of ndarray
        Labels of each head's own classes.
    module_ : torch.nn.Module
        The trained network, its output layer replaced by heads.

    See Also
    --------
    MultiHeadMLP : The same for tables.
    DeepEnsembleClassifier : Networks that share nothing.

    Notes
    -----
    **Averaging.** Where the data know the probabilities :math:`\eta` and the heads learn what
    their losses ask for, head h says :math:`w_{hk} \eta_k / \sum_j w_{hj} \eta_j`. Each class is
    strong in one head, so that the weights cancel in the mean of logits, which is :math:`\eta`
    exactly. The mean of probabilities is less confident than :math:`\eta` and may even have
    another largest class: part of what the method gains on over-confident networks is this.
    Compare after temperature scaling. With fewer classes than heads there is a warning: some
    heads have no classes of their own, and plain weights.

    The penalties of :mod:`skcal.neural.losses` and the smoothing are on the heads' average.

    References
    ----------
    A. Galdran, J. Verjans, G. Carneiro and M. González Ballester, "Multi-Head Multi-Loss Model
    Calibration", MICCAI 2023, arXiv:2303.01099.

    Examples
    --------
    >>> from skcal.datasets import make_calibration_data
    >>> from skcal.neural import MLP, MultiHeadClassifier
    >>> X, y, _ = make_calibration_data(400, n_classes=4, random_state=0)
    >>> model = MultiHeadClassifier(MLP, n_heads=2, max_epochs=5, random_state=0).fit(X, y)
    >>> model.predict_proba(X[:3], per_head=True).shape
    (3, 2, 4)
    >>> model.disagreement(X).shape
    (400,)
    """

    _parameter_constraints = (
        NeSCalClassifier._parameter_constraints | _CONSTRAINTS | {"head": [str]}
    )

    def __init__(
        self,
        module: Any = None,
        *,
        n_heads: Any = "auto",
        weighting: str = "partition",
        head_weight: float | None = None,
        mean_loss: bool = True,
        averaging: Averaging = "proba",
        head: str = "auto",
        smoothing: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, smoothing=smoothing, **kwargs)
        self.n_heads = n_heads
        self.weighting = weighting
        self.head_weight = head_weight
        self.mean_loss = mean_loss
        self.averaging = averaging
        self.head = head


@with_parameters_of(NeSCalMLP, without={"n_members"})
class MultiHeadMLP(_MultiHead, NeSCalMLP):
    r"""A network for tables with several heads, trained by Multi-Head Multi-Loss.

    One network, not an ensemble: the body of :class:`NeSCalMLP` with ``n_members=1``, and H
    linear heads, each trained with class weights of its own, their mean as it is:

    .. math:: L = \frac1{H+1} \Big( \sum_h \frac{\sum_i w_{h y_i} \ell(z_{hi}, y_i)}
              {\sum_i w_{h y_i}} + \frac1B \sum_i \ell(\bar z_i, y_i) \Big).

    Parameters
    ----------
    n_heads : int or "auto", default="auto"
        The number H of heads. "auto" is 4, or the number of classes if they are fewer.
    weighting : {"partition", "none"}, default="partition"
        Share the classes out among the heads, each of which weighs its own more; or give all
        classes the same weight in all heads.
    head_weight : float, optional
        Weight of a head's own classes; that of all others is its inverse. ``n_heads`` by
        default, as published.
    mean_loss : bool, default=True
        Whether the mean of the heads' logits has a term in the loss, as in the authors' code.
    averaging : {"proba", "logit"}, default="proba"
        How heads answer together: by the mean of their probabilities, as published, or of
        their logits; see the notes.
    smoothing : float, default=0.0
        Weight of Neighborhood Smoothing, of the heads' average.
    **kwargs
        Other parameters of :class:`NeSCalMLP`, but for ``n_members``.

    Attributes
    ----------
    class_weights_ : ndarray of shape (n_heads, n_classes)
        The weights :math:`w`.
    class_groups_ : list of ndarray
        Labels of each head's own classes.
    module_ : torch.nn.Module
        The trained network, its output layer replaced by heads.

    See Also
    --------
    MultiHeadClassifier : The same for any torch module.
    DeepEnsembleClassifier : Networks that share nothing.

    Notes
    -----
    **Averaging.** Where the data know the probabilities :math:`\eta` and the heads learn what
    their losses ask for, head h says :math:`w_{hk} \eta_k / \sum_j w_{hj} \eta_j`. Each class is
    strong in one head, so that the weights cancel in the mean of logits, which is :math:`\eta`
    exactly. The mean of probabilities is less confident than :math:`\eta` and may even have
    another largest class: part of what the method gains on over-confident networks is this.
    Compare after temperature scaling. With fewer classes than heads there is a warning: some
    heads have no classes of their own, and plain weights.

    The default and the fast preset have the network and the learning rate of "fast" among those
    of :class:`NeSCalMLP`; "strong" trains five of them over folds, and calibrates.

    The penalties of :mod:`skcal.neural.losses` and the smoothing are on the heads' average.

    References
    ----------
    A. Galdran, J. Verjans, G. Carneiro and M. González Ballester, "Multi-Head Multi-Loss Model
    Calibration", MICCAI 2023, arXiv:2303.01099.

    Examples
    --------
    >>> from skcal import MultiHeadMLP
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = MultiHeadMLP(n_heads=3, max_epochs=20, random_state=0).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    >>> [group.tolist() for group in model.class_groups_]
    [[2], [1], [0]]
    """

    head = "head"
    _parameter_constraints = NeSCalMLP._parameter_constraints | _CONSTRAINTS

    def __init__(
        self,
        *,
        n_heads: Any = "auto",
        weighting: str = "partition",
        head_weight: float | None = None,
        mean_loss: bool = True,
        averaging: Averaging = "proba",
        smoothing: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(smoothing=smoothing, **kwargs)
        self.n_heads = n_heads
        self.weighting = weighting
        self.head_weight = head_weight
        self.mean_loss = mean_loss
        self.averaging = averaging

    def _get_param_names(self) -> list[str]:
        # As in NeSCalMLP: a clone shall be refused as well.
        names = super()._get_param_names()
        return [name for name in names if name != "n_members" or self.n_members != "auto"]

    def _validate_own_params(self) -> None:
        if self.n_members != "auto":
            raise ValueError(
                "MultiHeadMLP is one network with several heads, and has no n_members; train an "
                "ensemble by NeSCalMLP, or several of these by DeepEnsembleClassifier."
            )
        super()._validate_own_params()

    def _settle(self, rows: Rows) -> None:
        super()._settle(rows)
        single = ("n_members", "hidden_sizes", "lr")
        self._by_size |= {name: PRESETS["fast"][name] for name in single}
