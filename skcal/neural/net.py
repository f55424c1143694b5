"""A skorch network that is a true scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.callback import with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from skorch.utils import is_dataset

from skcal.calibrated._folds import as_input
from skcal.calibrated._scores import Scores
from skcal.neural._embedding import embed_rows
from skcal.neural._fold_ensemble import FoldEnsemble
from skcal.neural._parts import PartsNet
from skcal.neural._rows import Rows
from skcal.neural._splits import deal_out, hold_out


class NetClassifier(PartsNet):
    """Train any torch classification module behind scikit-learn's interface.

    Plain training on the module's logits, with everything that scikit-learn users expect of
    a classifier: labels of any kind, weights, seeds, early stopping on the validation
    log-loss. :class:`NeSCalClassifier` and :class:`NeSCalMLP` build on it; use them instead,
    with ``smoothing=0`` for plain training.

    Parameters
    ----------
    module : torch.nn.Module class or instance, optional
        Returns logits of shape (n, n_classes). Constructor arguments named ``n_inputs`` and
        ``n_classes`` are filled in; others are given as ``module__<name>``. An instance is
        copied. None builds a small default network.
    criterion : str or torch loss class or instance, default=torch.nn.CrossEntropyLoss
        What is trained on: a name that :func:`~skcal.neural.losses.make_loss` knows ("focal",
        "mmce", "mixup", ...), a loss of :mod:`skcal.neural.losses`, or one of torch that takes
        logits, class codes and ``reduction="none"``. Arguments are given as
        ``criterion__<name>``. Early stopping looks at the log-loss whatever it is.
    optimizer : torch optimizer class, default=torch.optim.AdamW
        Its arguments are given as ``optimizer__<name>``.
    lr : float, default=2e-3
        Learning rate.
    max_epochs : int, default=100
        Most passes over the training rows.
    batch_size : int, default=128
        Rows per step; -1 takes all.
    weight_decay : float, default=0.01
        Pull of the optimizer (AdamW's, times ``lr``) on matrices; biases are left alone.
    lr_schedule : {"constant", "cosine", "plateau"}, default="constant"
        Learning rate over the epochs: as it is, down to zero along half a cosine over
        ``max_epochs``, or multiplied by 0.3 whenever half of ``n_iter_no_change`` epochs
        brought no improvement.
    ema_decay : float in [0, 1), default=0.0
        Weight of the past in the moving average, step by step, of the network's weights. The
        average is what is validated and kept; 0 keeps the weights themselves. Statistics of
        batch normalisation are not averaged.
    max_grad_norm : float, optional
        Longest gradient, over all weights together; a longer one is shortened to it.
    early_stopping : bool, default=True
        Hold out rows, stop when their log-loss has not improved for ``n_iter_no_change``
        epochs, and keep the weights of the best epoch.
    stopping_score : {"log_loss", "scaled_log_loss"}, default="log_loss"
        What early stopping looks at: the validation log-loss, or what temperature scaling
        would leave of it.
    validation_fraction : float, default=0.15
        Share of rows held out for early stopping and calibration.
    validation_split : {"stratified", "last"}, default="stratified"
        Hold out rows at random, stratified by class (whole groups, if ``fit`` is given
        ``groups``); or the last rows, for a table in the order of time.
    n_iter_no_change : int, default=12
        Patience of early stopping, in epochs.
    n_folds : int, default=1
        More than 1 trains one network for each of so many folds, stopped on the rows of the
        fold, and answers with their mean probability; it costs as many fits.
    refit : bool, default=False
        After early stopping, train anew on all rows, those held out too, for the best number
        of epochs.
    calibrate : bool, str or calibrator, default=False
        Learn a map of the probabilities from the rows held out of training (with ``n_folds``
        from all rows, each answered by the network that was trained without it): True is
        temperature scaling, a string one of :func:`~skcal.calibration.make_calibrator`.
        The rows that stop the training are used. Class weights are divided out first, as by
        ``prior_correction``. With ``refit`` the map of the first network serves the second.
    embedding : str, default="penultimate"
        What ``embed`` returns: "penultimate" (the input of the last linear layer), or the
        name of a submodule (its output) or of a method.
    encoder : "auto", transformer or None, default="auto"
        Turns a table into numbers. "auto" is a :class:`TabularEncoder` when ``module`` is
        None; a module of your own gets its numbers as they are.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into ``sample_weight`` in training.
    prior_correction : bool, default=False
        Divide the probabilities by the class weights and renormalise, which takes them back
        to the base rates of the rows: the network trains as ``class_weight`` says, and
        answers with probabilities that can be acted on.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the network and of its probabilities.
    random_state : int, RandomState instance or None, default=None
        Seeds everything: splits, weights, batches and dropout.
    iterator_train : class, default=skcal.neural._rows.Batches
        Gives the batches of training rows; torch's ``DataLoader`` will do.
    iterator_valid : class, default=skcal.neural._rows.Batches
        Gives the batches of validation rows, and of rows to predict.
    callbacks : list of skorch callbacks, optional
        Called during training. Callbacks of scikit-learn are set by ``set_callbacks``.
    predict_nonlinearity : "auto" or callable, default="auto"
        Turns logits into probabilities; "auto" is softmax.
    warm_start : bool, default=False
        Go on from the present weights when ``fit`` is called again.
    verbose : int, default=0
        1 prints a line per epoch.
    device : str, default="cpu"
        Where the network runs; "auto" is "cuda" where there is one.
    compile : bool, default=False
        Whether to compile the module with ``torch.compile``.
    torch_load_kwargs : dict, optional
        Passed to ``torch.load`` by ``load_params``, and for a network pickled on a GPU.
    **kwargs
        Other parameters of :class:`skorch.NeuralNet`, such as ``module__*``,
        ``optimizer__*``, ``iterator_train__*``, ``callbacks__*``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    module_ : torch.nn.Module
        The trained network.
    history_ : skorch.history.History
        One record per epoch: ``train_loss``, ``criterion`` (both the weighted mean criterion),
        ``valid_loss`` (log-loss in nats of the validation rows) and ``valid_acc``.
    fold_histories_ : list of History
        One per fold, if ``n_folds`` is more than 1; ``history_``, ``n_iter_`` and
        ``best_epoch_`` are of the last fold then. With ``refit``, that of the network which
        was stopped on held-out rows.
    calibrator_ : calibrator or None
        The fitted map, if ``calibrate``.
    n_iter_ : int
        Epochs trained.
    best_epoch_ : int
        Epoch whose weights are kept, counted from 1.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if the table had string names.
    encoder_ : transformer
        The fitted encoder, if there is one.

    See Also
    --------
    NeSCalClassifier : Adds Neighborhood Smoothing.

    Examples
    --------
    >>> from skcal.datasets import make_calibration_data
    >>> from skcal.neural import NetClassifier
    >>> X, y, _ = make_calibration_data(400, random_state=0)
    >>> model = NetClassifier(max_epochs=5, random_state=0).fit(X, y)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    """

    module_: Any
    calibrator_: Any

    # -- fit -----------------------------------------------------------------------------

    @contextmanager
    def _unfitted_on_error(self) -> Iterator[None]:
        """Leave no half-trained network behind when training fails."""
        try:
            yield
        except BaseException:  # an interrupt leaves half of a fit too
            of_skorch = ("prefixes_", "cuda_dependent_attributes_", "init_context_")
            for name in [*vars(self)]:
                if name in ("_average", "_smoother") or (
                    name.endswith("_") and name not in of_skorch
                ):
                    self.__dict__.pop(name)
            self._epoch_context = None
            self.virtual_params_: dict[str, Any] = {}  # the parameters of the optimizer that was
            self.initialized_ = False
            raise

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Training table.
        y : array-like of shape (n_samples,)
            Labels of any kind: numbers, strings, booleans, categories.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative row weights. A weight of two counts a row twice in every mean, and a
            row of weight zero is left out. Only their proportions matter.
        groups : array-like of shape (n_samples,), optional
            Rows that belong together (of one customer, one patient): the rows held out of
            training are whole groups.
        X_val : DataFrame or array-like of shape (n_validation, n_features), optional
            Validation table for early stopping and calibration, instead of a share of ``X``.
        y_val : array-like of shape (n_validation,), optional
            Its labels, among those of ``y``.
        sample_weight_val : array-like of shape (n_validation,), optional
            Its row weights.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, a label or a cell is not valid, or the loss does not stay finite.
            The estimator is then left unfitted.
        """
        fresh = not (self.warm_start and self.initialized_)
        with self._unfitted_on_error():
            self._validate_own_params()
            if (X_val is None) != (y_val is None):
                raise ValueError("Pass X_val and y_val together.")
            if X_val is None and sample_weight_val is not None:
                raise ValueError("sample_weight_val belongs to X_val and y_val; pass them too.")
            rows = self._rows(X, y, sample_weight, reset=fresh, groups=groups)
            self._settle(rows)
            self._refuse_contradictions(given_validation=X_val is not None, groups=groups)
            self._seed = check_random_state(self.random_state).randint(2**31 - 4)
            if fresh or not hasattr(self, "_split_seed"):
                # A warm start holds the same rows out: others have been trained on.
                self._split_seed = self._seed
            n_folds = self._value("n_folds")
            parts = [rows]
            if X_val is not None:
                rows.valid = self._rows(
                    X_val, y_val, sample_weight_val, reset=False, training=False
                )
            elif n_folds > 1:
                parts = deal_out(rows, n_folds, self._split_seed)
            elif self.early_stopping or self._value("calibrate"):
                parts = [
                    hold_out(
                        rows,
                        self.validation_fraction,
                        self._split_seed,
                        split=self.validation_split,
                    )
                ]
            context = self._init_callback_context(
                max_subtasks=self._value("max_epochs") if self._trains_once() else None
            )
            metadata = None if sample_weight is None else {"sample_weight": sample_weight}
            self._fit_data = {"X": X, "y": y, "metadata": metadata}
            try:
                context.call_on_fit_task_begin(estimator=self, **self._fit_data)
                held_out = self._train_parts(parts, fresh=fresh)
                if self.refit and parts[0] is not rows:
                    self.fold_histories_ = [deepcopy(self.history_)]
                    self._train(rows, fresh=True, epochs=self.best_epoch_)
                if self._value("calibrate"):
                    self._fit_calibrator(held_out)
                context.call_on_fit_task_end(
                    estimator=self, reconstruction_attributes={}, **self._fit_data
                )
            finally:
                del self._fit_data
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train for one epoch on some rows, going on from where the network stands.

        Nothing is held out, so that there is no early stopping; a calibrator that ``fit`` has
        learned is dropped, as it was of the network before.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All classes; needed in the first call when ``y`` lacks some.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        if is_dataset(X) and isinstance(X, Rows):  # skorch's own fit comes through here
            return super().partial_fit(X, None, **fit_params)
        fresh = not self.initialized_
        self._validate_own_params()
        self._refuse_to_go_on_with_folds("partial_fit")
        self._refuse_own_nonlinearity()
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs the whole data at once; give partial_fit the "
                "weights as a dict (sklearn.utils.class_weight.compute_class_weight)."
            )
        # A batch that is refused costs no more than itself; training that fails, the network.
        rows = self._rows(X, y, sample_weight, reset=fresh, classes=classes)
        with self._unfitted_on_error():
            self._settle(rows)
            self._seed = check_random_state(self.random_state).randint(2**31 - 4)
            if fresh:
                self._split_seed = self._seed
            # Each call goes on with fresh draws rather than repeating those of the last.
            self._seed += 0 if fresh else len(self.history)
            self._train(rows, fresh=fresh, epochs=1)
        return self

    # -- predict -------------------------------------------------------------------------

    def _inputs(self, X: Any) -> torch.Tensor:
        """Return what the module reads of a table, or of a dataset of a callback."""
        check_is_fitted(self)
        return X.X if isinstance(X, Rows) else torch.from_numpy(self._encode(X, reset=False))

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return class probabilities.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``, in the network's ``dtype``; each row sums
            to one.
        """
        if is_dataset(X) and not isinstance(X, Rows):
            return super().predict_proba(X)  # a subset of our rows
        inputs = self._inputs(X)
        if self.calibrator_ is None and self._shift is None:
            return self._get_predict_nonlinearity()(self._forward(inputs)).numpy()
        return self._calibrated(self._logits(inputs)).astype(self._fitted_dtype)

    def _calibrated(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.calibrator_ is None:
            return softmax(logits, axis=1)
        scores = as_input(self.calibrator_, Scores(logits, "logits", ""))
        return self.calibrator_.predict_proba(scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Values of ``classes_``.
        """
        codes = self.predict_proba(X).argmax(axis=1)
        return codes if is_dataset(X) else self.classes_[codes]  # datasets carry codes

    @available_if(lambda self: self.predict_nonlinearity == "auto")
    def predict_logits(self, X: Any) -> NDArray[np.float64]:
        """Return the network's logits: what a calibrator should be given.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            Softmax of a row gives its probabilities, without the rounding of a float32
            softmax. With ``calibrate``, the logarithms of the calibrated probabilities.
        """
        logits = self._logits(self._inputs(X))
        if self.calibrator_ is None:
            return logits
        return np.log(np.maximum(self._calibrated(logits), np.finfo(float).tiny))

    def embed(self, X: Any) -> NDArray[np.floating]:
        """Return the network's representation of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_dimensions)
            What the parameter ``embedding`` names; the input of the last linear layer when
            it is "input" or "logits".
        """
        inputs = self._inputs(X)
        source = "penultimate" if self.embedding in ("input", "logits") else self.embedding
        networks = (
            self.module_.networks if isinstance(self.module_, FoldEnsemble) else [self.module_]
        )
        embeddings = [
            embed_rows(network, inputs, source, device=self.device)[0] for network in networks
        ]
        return torch.cat(embeddings, dim=1).cpu().numpy()

    def plot_history(self, ax: Any = None) -> Any:
        """Draw the losses over the epochs.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        skcal.plots.TrainingHistoryDisplay
        """
        from skcal.plots import TrainingHistoryDisplay

        return TrainingHistoryDisplay.from_estimator(self, ax=ax)
