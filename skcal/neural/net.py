"""A skorch network that is a true scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from inspect import signature
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.callback import with_callbacks
from sklearn.utils import check_consistent_length, check_random_state, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted, validate_data
from skorch.callbacks import EarlyStopping
from skorch.utils import is_dataset

from skcal._validation import check_weights
from skcal.neural._embedding import embed_rows
from skcal.neural._rows import Rows, hold_out
from skcal.neural._skorch_net import SkorchNet
from skcal.tabular import TabularEncoder, check_table

# More classes than this, and than half of the rows, are hardly classes.
_MANY_CLASSES = 20


class NetClassifier(SkorchNet):
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
    criterion : torch loss class, default=torch.nn.CrossEntropyLoss
        Takes logits and class codes, and ``reduction="none"``.
    optimizer : torch optimizer class, default=torch.optim.AdamW
        Its arguments are given as ``optimizer__<name>``.
    lr : float, default=2e-3
        Learning rate.
    max_epochs : int, default=100
        Most passes over the training rows.
    batch_size : int, default=128
        Rows per step; -1 takes all.
    early_stopping : bool, default=True
        Hold out rows, stop when their log-loss has not improved for ``n_iter_no_change``
        epochs, and keep the weights of the best epoch.
    validation_fraction : float, default=0.15
        Share of rows held out for early stopping, stratified by class.
    n_iter_no_change : int, default=12
        Patience of early stopping, in epochs.
    refit : bool, default=False
        After early stopping, train anew on all rows for the best number of epochs.
    embedding : str, default="penultimate"
        What ``embed`` returns: "penultimate" (the input of the last linear layer), or the
        name of a submodule (its output) or of a method.
    encoder : "auto", transformer or None, default="auto"
        Turns a table into numbers. "auto" is a :class:`TabularEncoder` when ``module`` is
        None; a module of your own gets its numbers as they are.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into ``sample_weight`` in training.
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
        Where the network runs.
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
        One record per epoch: ``train_loss``, ``ce`` (both the weighted mean criterion),
        ``valid_loss`` (log-loss in nats of the validation rows) and ``valid_acc``.
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

    # -- input ---------------------------------------------------------------------------

    def _encode(
        self, X: Any, *, reset: bool, sample_weight: NDArray[np.float64] | None = None
    ) -> NDArray[np.floating]:
        if reset:
            self._fitted_dtype = self.dtype
            self.__dict__.pop("encoder_", None)
        if not (self._wants_encoder() if reset else hasattr(self, "encoder_")):
            try:
                numbers = validate_data(
                    self, X, dtype=self._fitted_dtype, allow_nd=True, reset=reset
                )
                return _for_torch(numbers, self._fitted_dtype)
            except ValueError as error:
                if "could not convert string" not in str(error):
                    raise
                raise ValueError(
                    f"{error}: a module of your own reads numbers only. Set "
                    "encoder=TabularEncoder(), or encode the table in a pipeline."
                ) from error
        table = check_table(self, X, reset=reset)
        if not reset:
            return _for_torch(self.encoder_.transform(table), self._fitted_dtype)
        encoder = (
            TabularEncoder(dtype=self.dtype) if self.encoder == "auto" else clone(self.encoder)
        )
        fit_rows, weights = table, {}
        if sample_weight is not None:
            fit_rows, used = table[sample_weight > 0], sample_weight[sample_weight > 0]
            if "sample_weight" in signature(encoder.fit).parameters:
                weights = {"sample_weight": used}
        encoder.fit(fit_rows, **weights)
        encoded = _for_torch(encoder.transform(table), self._fitted_dtype)
        self.encoder_: Any = encoder
        return encoded

    def _rows(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        *,
        reset: bool,
        classes: ArrayLike | None = None,
        training: bool = True,
    ) -> Rows:
        """Check and encode a table; rows of weight zero are left out."""
        name = type(self).__name__
        if is_dataset(X):
            raise TypeError(
                f"{name} takes X and y as arrays or a DataFrame, not a torch Dataset, because it "
                "needs the labels to split and to know the classes. Pass "
                "X=np.stack([x for x, _ in dataset]) and y=[label for _, label in dataset], or "
                "train with skorch.NeuralNetClassifier."
            )
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        try:
            y = _check_y(y, estimator=self)
        except ValueError as error:
            if "NaN" not in str(error):
                raise
            raise ValueError(f"y has missing labels; remove those rows. ({error})") from error
        n_values = len(np.unique(y))
        if n_values > max(_MANY_CLASSES, 0.5 * len(y)):
            raise ValueError(
                f"Unknown label type: y holds {n_values} different values in {len(y)} rows. It "
                f"looks like a regression target, and {name} tells classes apart. Cut it into "
                "classes first, for instance with pandas.qcut."
            )
        check_classification_targets(y)
        given = None if sample_weight is None else check_weights(sample_weight, X)
        if training:
            # One unit for training and validation weights; very large ones overflow a sum.
            self._weight_exponent = 0 if given is None else int(np.frexp(given.max())[1])
        if given is not None:
            given = np.ldexp(given, -self._weight_exponent)
        encoded = self._encode(X, reset=reset, sample_weight=given)
        check_consistent_length(encoded, y)
        if reset:
            self.n_inputs_ = encoded.shape[1]
            self.classes_inferred_ = np.unique(y if classes is None else classes)
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            label = y[unknown][:1].tolist()[0]
            raise ValueError(
                f"Label {label!r} is not among the classes {self.classes_.tolist()}"
                + (
                    " that the estimator knows; refit it on data with every class."
                    if classes is None
                    else "."
                )
            )
        codes = np.searchsorted(self.classes_, y).astype(np.int64)
        weight = np.ones(len(y)) if given is None else given
        if self.class_weight is not None:
            if training:
                counted = weight > 0
                present = np.unique(codes[counted])
                self._per_class = np.ones(len(self.classes_))
                self._per_class[present] = compute_class_weight(
                    self.class_weight,
                    classes=self.classes_[present],
                    y=y[counted],
                    sample_weight=weight[counted],
                )
            weight = weight * self._per_class[codes]
        keep = weight > 0
        if reset and classes is None and len(np.unique(codes[keep])) < 2:
            raise ValueError(
                f"{name} needs at least two classes; the data holds one class only"
                + (" once rows of weight zero are left out." if not keep.all() else ".")
            )
        if keep.all():
            return Rows(encoded, codes, weight)
        return Rows(encoded[keep], codes[keep], weight[keep])

    # -- fit -----------------------------------------------------------------------------

    @contextmanager
    def _unfitted_on_error(self) -> Iterator[None]:
        """Leave no half-trained network behind when training fails."""
        try:
            yield
        except Exception:
            for name in [name for name in vars(self) if name.endswith("_")]:
                if name not in ("prefixes_", "cuda_dependent_attributes_", "init_context_"):
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
        X_val : DataFrame or array-like of shape (n_validation, n_features), optional
            Validation table for early stopping, instead of a share of ``X``.
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
            if self.refit and X_val is not None:
                raise ValueError(
                    "refit=True trains anew with the rows that were held out of X, but X_val and "
                    "y_val take their place and are never trained on. Set refit=False, or leave "
                    "X_val out."
                )
            rows = self._rows(X, y, sample_weight, reset=fresh)
            self._seed = check_random_state(self.random_state).randint(2**31 - 4)
            if X_val is not None:
                rows.valid = self._rows(
                    X_val, y_val, sample_weight_val, reset=False, training=False
                )
                training = rows
            else:
                training = (
                    hold_out(rows, self.validation_fraction, self._seed)
                    if self.early_stopping
                    else rows
                )
            context = self._init_callback_context(
                max_subtasks=None if self.refit else self.max_epochs
            )
            metadata = None if sample_weight is None else {"sample_weight": sample_weight}
            self._fit_data = {"X": X, "y": y, "metadata": metadata}
            try:
                context.call_on_fit_task_begin(estimator=self, **self._fit_data)
                self._train(training, fresh=fresh)
                if self.refit and training is not rows:
                    self._train(rows, fresh=True, epochs=self.best_epoch_)
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
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs the whole data at once; give partial_fit the "
                "weights as a dict (sklearn.utils.class_weight.compute_class_weight)."
            )
        # A batch that is refused costs no more than itself; training that fails, the network.
        rows = self._rows(X, y, sample_weight, reset=fresh, classes=classes)
        with self._unfitted_on_error():
            self._seed = check_random_state(self.random_state).randint(2**31 - 4)
            # Each call goes on with fresh draws rather than repeating those of the last.
            self._seed += 0 if fresh else len(self.history)
            self._train(rows, fresh=fresh, epochs=1)
        return self

    def _train(self, rows: Rows, *, fresh: bool, epochs: int | None = None) -> None:
        if fresh:
            self.initialize()
        else:
            self._seed_dropout()
            self.initialize_callbacks()
        rows = Rows(rows.X, rows.y, rows.weight / rows.weight.mean(), valid=rows.valid)
        if rows.valid is None:
            self._drop_blind_callbacks(strict=epochs is None)
        self.notify("on_train_begin", X=rows, y=None)
        with suppress(KeyboardInterrupt):  # how skorch and its callbacks stop early
            self.fit_loop(rows, None, epochs=epochs)
        self.notify("on_train_end", X=rows, y=None)
        self._set_training(False)
        self.n_iter_ = len(self.history)
        self.best_epoch_: int = self.n_iter_
        for _, callback in self.callbacks_:
            if isinstance(callback, EarlyStopping) and callback.load_best:
                self.best_epoch_ = callback.best_epoch_ or self.n_iter_

    # -- predict -------------------------------------------------------------------------

    def _predict_rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        return X if is_dataset(X) else Rows(self._encode(X, reset=False))

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
        return super().predict_proba(self._predict_rows(X))

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
            softmax.
        """
        rows = self._predict_rows(X)
        return torch.cat(list(self.forward_iter(rows))).double().numpy()

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
        rows = self._predict_rows(X)
        source = "penultimate" if self.embedding in ("input", "logits") else self.embedding
        embeddings, _ = embed_rows(self.module_, rows.X, source, device=self.device)
        return embeddings.cpu().numpy()


def _for_torch(encoded: Any, dtype: str) -> NDArray[np.floating]:
    """Return what an encoder gave (array, DataFrame, sparse) as an array that torch may own."""
    dense = encoded.toarray() if hasattr(encoded, "toarray") else encoded
    return np.require(dense, dtype, ["C", "W"])
