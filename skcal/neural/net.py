"""A skorch network that is a true scikit-learn classifier."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_consistent_length, check_random_state, compute_class_weight
from sklearn.utils._param_validation import (
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted, validate_data
from skorch import NeuralNetClassifier
from skorch.callbacks import EarlyStopping, EpochTimer, PrintLog
from skorch.utils import is_dataset
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from skcal._validation import check_weights
from skcal.neural._embedding import embed_rows
from skcal.neural._rows import Batches, Rows
from skcal.neural.modules import MLP, Dropout
from skcal.tabular import TabularEncoder, check_table

# torch initialises weights from the process-wide generator; one fit at a time may borrow it.
_INIT_LOCK = threading.RLock()
# Prediction needs no gradients, so its batches can be large.
_PREDICT_ROWS = 8_192


def _private(name: str) -> property:
    """Keep a state attribute of skorch under a private name, out of the parameters."""
    key = "_" + name.rstrip("_")
    return property(
        lambda self: getattr(self, key), lambda self, value: self.__dict__.__setitem__(key, value)
    )


class NetClassifier(CallbackSupportMixin, NeuralNetClassifier):
    """Train any torch classification module behind scikit-learn's interface.

    Plain training on the module's logits, with everything that scikit-learn users expect of
    a classifier: labels of any kind, weights, seeds, early stopping on the validation
    log-loss. :class:`NeSCalClassifier` and :class:`NeSCalMLP` build on it; use them instead,
    with ``smoothing=0`` for plain training.
    """

    _output_checked: bool
    callbacks_: list[tuple[str, Any]]

    history_ = _private("history_")
    initialized_ = _private("initialized_")
    virtual_params_ = _private("virtual_params_")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lr": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1})],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "refit": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "dtype": [StrOptions({"float32", "float64"})],
        "embedding": [str],
        "random_state": ["random_state"],
        "encoder": [StrOptions({"auto"}), None, BaseEstimator],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        module: Any = None,
        *,
        criterion: Any = nn.CrossEntropyLoss,
        optimizer: Any = torch.optim.AdamW,
        lr: float = 2e-3,
        max_epochs: int = 100,
        batch_size: int = 128,
        early_stopping: bool = True,
        validation_fraction: float = 0.15,
        n_iter_no_change: int = 12,
        refit: bool = False,
        embedding: str = "penultimate",
        encoder: Any = "auto",
        class_weight: Any = None,
        dtype: str = "float32",
        random_state: Any = None,
        iterator_train: Any = Batches,
        iterator_valid: Any = Batches,
        dataset: Any = Rows,
        callbacks: Any = None,
        predict_nonlinearity: Any = "auto",
        warm_start: bool = False,
        verbose: int = 0,
        device: Any = "cpu",
        compile: bool = False,
        use_caching: Any = "auto",
        torch_load_kwargs: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            module,
            criterion=criterion,
            optimizer=optimizer,
            lr=lr,
            max_epochs=max_epochs,
            batch_size=batch_size,
            iterator_train=iterator_train,
            iterator_valid=iterator_valid,
            dataset=dataset,
            train_split=None,
            callbacks=callbacks,
            predict_nonlinearity=predict_nonlinearity,
            warm_start=warm_start,
            verbose=verbose,
            device=device,
            compile=compile,
            use_caching=use_caching,
            torch_load_kwargs=torch_load_kwargs,
            **kwargs,
        )
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.refit = refit
        self.embedding = embedding
        self.encoder = encoder
        self.class_weight = class_weight
        self.dtype = dtype
        self.random_state = random_state

    # -- the scikit-learn parameter protocol -------------------------------------------

    def _get_param_names(self) -> list[str]:
        # skorch takes every attribute for a parameter. Splits and classes are ours to decide.
        hidden = {"train_split", "classes", "forward_iter"}
        names = super()._get_param_names()
        return [name for name in names if not name.startswith("_") and name not in hidden]

    def set_params(self, **params: Any) -> Self:
        """Set parameters; nothing is validated before ``fit``."""
        if not self.initialized_ and "callbacks" in params:
            self.callbacks = params.pop("callbacks")
        super().set_params(**params)
        return self

    __repr__ = BaseEstimator.__repr__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._wants_encoder()
        return tags

    def _validate_own_params(self) -> None:
        values = self.get_params(deep=False)
        constraints = {k: v for k, v in self._parameter_constraints.items() if k in values}
        validate_parameter_constraints(
            constraints, {k: values[k] for k in constraints}, caller_name=type(self).__name__
        )
        if self.criterion is nn.NLLLoss or isinstance(self.criterion, nn.NLLLoss):
            raise ValueError(
                "criterion=NLLLoss expects log-probabilities, but the module returns logits; "
                "use torch.nn.CrossEntropyLoss."
            )
        if not (self.predict_nonlinearity == "auto" or callable(self.predict_nonlinearity)):
            raise ValueError(
                "predict_nonlinearity must be 'auto' (softmax) or a function from logits to "
                f"probabilities; got {self.predict_nonlinearity!r}."
            )

    # -- what skorch builds --------------------------------------------------------------

    @property
    def _default_callbacks(self) -> list[tuple[str, Any]]:
        callbacks = [("epoch_timer", EpochTimer())]
        if self.early_stopping is True:
            stop = EarlyStopping(
                monitor="valid_loss", patience=self.n_iter_no_change, threshold=0.0, load_best=True
            )
            callbacks.append(("early_stopping", stop))
        return [*callbacks, ("print_log", PrintLog())]

    def initialize_callbacks(self) -> Self:
        """Build the callbacks; without validation rows there is nothing to stop early on."""
        super().initialize_callbacks()
        if not getattr(self, "_validates", True):
            self.callbacks_ = [pair for pair in self.callbacks_ if pair[0] != "early_stopping"]
        return self

    def get_params_for(self, prefix: str) -> dict[str, Any]:
        """Return the arguments of a part: skorch's, and what only ``fit`` knows."""
        params = super().get_params_for(prefix)
        if prefix == "module":
            return self._module_sizes() | params
        if prefix == "criterion":
            return {"reduction": "none"} | params
        if prefix == "iterator_train":
            generator = torch.Generator().manual_seed(self._seed + 1)
            return {"shuffle": True, "generator": generator} | params
        return params

    def _get_params_for_optimizer(self, prefix: str, named_parameters: Any) -> tuple[Any, Any]:
        args, kwargs = super()._get_params_for_optimizer(prefix, named_parameters)
        # One fused pass over the weights is several times faster than one per tensor.
        if self.optimizer in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
            kwargs.setdefault("fused", True)
        return args, kwargs

    def _module_class(self) -> Any:
        return MLP if self.module is None else self.module

    def _module_sizes(self) -> dict[str, int]:
        """Return the input and output sizes, if the module's constructor asks for them."""
        if not hasattr(self, "n_inputs_") or isinstance(self.module, nn.Module):
            return {}
        sizes = {"n_inputs": self.n_inputs_, "n_classes": len(self.classes_)}
        asked = signature(self._module_class()).parameters
        return {name: size for name, size in sizes.items() if name in asked}

    def initialized_instance(self, instance_or_cls: Any, kwargs: dict[str, Any]) -> Any:
        """Build a part; a module given as an instance is copied, never trained in place."""
        if instance_or_cls is None:
            instance_or_cls = self._module_class()
        instance = super().initialized_instance(instance_or_cls, kwargs)
        return clone(instance, safe=False) if instance is instance_or_cls else instance

    def initialize_module(self) -> Self:
        """Build the module from the seed, leaving the process-wide generator as it was."""
        with _INIT_LOCK, torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            super().initialize_module()
        self.module_.to(getattr(torch, self.dtype))
        self._seed_dropout()
        return self

    def _seed_dropout(self) -> None:
        generator = torch.Generator(device=self.device).manual_seed(self._seed + 2)
        for part in self.module_.modules():
            if isinstance(part, Dropout):
                part.generator = generator

    # -- what skorch calls during training ----------------------------------------------

    def check_data(self, X: Any, y: Any = None) -> None:
        """Do nothing: labels were encoded, and the classes kept, before skorch sees them."""

    def get_split_datasets(self, X: Any, y: Any = None, **params: Any) -> tuple[Rows, Rows | None]:
        """Return the training and validation rows."""
        return X, X.valid

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        """Return the batches of some rows."""
        params = self.get_params_for("iterator_train" if training else "iterator_valid")
        size = self.batch_size if training else max(self.batch_size, _PREDICT_ROWS)
        params.setdefault("batch_size", size)
        if params["batch_size"] == -1:
            params["batch_size"] = len(dataset)
        return (self.iterator_train if training else self.iterator_valid)(dataset, **params)

    def infer(self, x: Any, **fit_params: Any) -> Tensor:
        """Return the logits of a batch."""
        return self.module_(x["X"].to(self.device), **fit_params)

    def get_loss(
        self, y_pred: Tensor, y_true: Tensor, X: Any = None, training: bool = False
    ) -> Tensor:
        """Return the weighted mean loss of a batch; the log-loss when validating."""
        weight, y_true = X["weight"].to(y_pred), y_true.to(y_pred.device)
        rows = self.criterion_(y_pred, y_true) if training else _log_loss_rows(y_pred, y_true)
        loss = weight @ rows / weight.sum()
        self._loss_parts = {"ce": loss.detach()}
        return loss

    def run_single_epoch(
        self, iterator: Any, training: bool, prefix: str, step_fn: Callable[..., Any], **params: Any
    ) -> None:
        """Run one pass over the batches and record the weighted means of its losses.

        skorch reads every batch's loss; here they stay tensors until the epoch is over.
        """
        if iterator is None:
            return
        parts: dict[str, list[Tensor]] = {"weight": [], f"{prefix}_loss": []}
        for batch in iterator:
            self.notify("on_batch_begin", batch=batch, training=training)
            step = step_fn(batch, **params)
            self.notify("on_batch_end", batch=batch, training=training, **step)
            weight = batch[0]["weight"]
            parts["weight"].append(weight.sum())
            parts[f"{prefix}_loss"].append(step["loss"].detach())
            if training:
                for name, part in self._loss_parts.items():
                    parts.setdefault(name, []).append(part)
            else:
                hits = step["y_pred"].argmax(dim=1).cpu() == batch[1]
                parts.setdefault("valid_acc", []).append(weight @ hits.to(weight) / weight.sum())
        weights = torch.stack(parts.pop("weight")).double()
        weights /= weights.sum()
        means = {
            name: float(torch.stack(values).double().cpu() @ weights)
            for name, values in parts.items()
        }
        loss = means[f"{prefix}_loss"]
        if not np.isfinite(loss):
            raise ValueError(
                f"The {prefix} loss became {loss} in epoch {len(self.history)}; try a smaller "
                f"learning rate than lr={self.lr}, and scale the inputs."
            )
        for name, mean in means.items():
            self.history.record(name, mean)
        self.history.record(f"{prefix}_batch_count", len(weights))

    def train_step_single(self, batch: Any, **fit_params: Any) -> dict[str, Tensor]:
        """Take one step, having looked once whether the module returns logits."""
        step = super().train_step_single(batch, **fit_params)
        if not self._output_checked:
            _check_logits(step["y_pred"], len(batch[1]), len(self.classes_))
            self._output_checked = True
        return step

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        """Open a task for scikit-learn's callbacks."""
        super().on_epoch_begin(net, **kwargs)
        if hasattr(self, "_callback_fit_ctx"):
            self._epoch_context = self._callback_fit_ctx.subcontext(task_name="epoch")
            self._epoch_context.call_on_fit_task_begin(estimator=self)

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Close the task; a callback of scikit-learn may ask to stop."""
        super().on_epoch_end(net, **kwargs)
        context = self.__dict__.pop("_epoch_context", None)
        if context and context.call_on_fit_task_end(estimator=self, reconstruction_attributes={}):
            raise KeyboardInterrupt  # how skorch itself stops early

    # -- input ---------------------------------------------------------------------------

    def _wants_encoder(self) -> bool:
        return self.encoder is not None and not (self.encoder == "auto" and self.module is not None)

    def _encode(
        self, X: Any, *, reset: bool, sample_weight: NDArray[np.float64] | None = None
    ) -> NDArray[np.floating]:
        if not self._wants_encoder():
            try:
                return validate_data(
                    self, X, dtype=self.dtype, order="C", allow_nd=True, reset=reset
                )
            except ValueError as error:
                if "could not convert string" not in str(error):
                    raise
                raise ValueError(
                    f"{error}: a module of your own reads numbers only. Set "
                    "encoder=TabularEncoder(), or encode the table in a pipeline."
                ) from error
        table = check_table(self, X, reset=reset)
        if not reset:
            return self.encoder_.transform(table).astype(self.dtype, copy=False)
        encoder = (
            TabularEncoder(dtype=self.dtype) if self.encoder == "auto" else clone(self.encoder)
        )
        weights = {}
        if sample_weight is not None and "sample_weight" in signature(encoder.fit).parameters:
            weights = {"sample_weight": sample_weight}
        encoder.fit(table, **weights)
        encoded = np.asarray(encoder.transform(table), dtype=self.dtype)
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
        y = _check_y(y, estimator=self)
        check_classification_targets(y)
        given = None if sample_weight is None else check_weights(sample_weight, X)
        encoded = self._encode(X, reset=reset, sample_weight=given)
        check_consistent_length(encoded, y)
        if reset:
            self.n_inputs_ = encoded.shape[1]
            self.classes_inferred_ = np.unique(y if classes is None else classes)
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(
                f"Label {y[unknown][0]!r} is not among the classes {self.classes_.tolist()}"
                + (
                    " that the estimator knows; refit it on data with every class."
                    if classes is None
                    else "."
                )
            )
        codes = np.searchsorted(self.classes_, y).astype(np.int64)
        weight = np.ones(len(y)) if given is None else given
        if self.class_weight is not None:
            per_class = compute_class_weight(
                self.class_weight, classes=self.classes_, y=y, sample_weight=given
            )
            weight = weight * per_class[codes]
        keep = weight > 0
        if reset and classes is None and len(np.unique(codes[keep])) < 2:
            raise ValueError(
                f"{name} needs at least two classes; the data holds one class only"
                + (" once rows of weight zero are left out." if not keep.all() else ".")
            )
        if keep.all():
            return Rows(encoded, codes, weight)
        return Rows(encoded[keep], codes[keep], weight[keep])

    def _split(self, rows: Rows) -> Rows:
        """Hold out a stratified share of the rows; a class of one row stays in training."""
        codes = rows.y.numpy()
        n_valid = int(np.ceil(self.validation_fraction * len(rows)))
        counts = np.bincount(codes)
        splittable = np.flatnonzero(counts[codes] > 1)
        if n_valid >= len(splittable):
            raise ValueError(
                f"early_stopping=True holds out {n_valid} of the {len(rows)} samples, which leaves "
                "too few to train on; pass X_val and y_val, or set early_stopping=False."
            )
        n_classes = len(np.unique(codes[splittable]))
        stratify = min(n_valid, len(splittable) - n_valid) >= n_classes
        splitter = (StratifiedShuffleSplit if stratify else ShuffleSplit)(
            1, test_size=n_valid, random_state=self._seed
        )
        _, held_out = next(splitter.split(splittable, codes[splittable]))
        is_valid = np.zeros(len(rows), dtype=bool)
        is_valid[splittable[held_out]] = True
        train = rows.take(np.flatnonzero(~is_valid))
        train.valid = rows.take(np.flatnonzero(is_valid))
        return train

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
            self.initialized_ = False
            raise

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: ArrayLike,
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
            row of weight zero is left out.
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
            rows = self._rows(X, y, sample_weight, reset=fresh)
            self._seed = check_random_state(self.random_state).randint(2**31 - 4)
            if X_val is not None:
                rows.valid = self._rows(X_val, y_val, sample_weight_val, reset=False)
                training = rows
            else:
                training = self._split(rows) if self.early_stopping else rows
            context = self._init_callback_context(
                max_subtasks=None if self.refit else self.max_epochs
            )
            context.call_on_fit_task_begin(estimator=self)
            self._train(training, fresh=fresh)
            if self.refit and training.valid is not None:
                best = self.best_epoch_
                everything = rows if training is not rows else Rows(rows.X, rows.y, rows.weight)
                self._train(everything, fresh=True, epochs=best)
            context.call_on_fit_task_end(estimator=self, reconstruction_attributes={})
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
        with self._unfitted_on_error():
            self._validate_own_params()
            rows = self._rows(X, y, sample_weight, reset=fresh, classes=classes)
            self._seed = check_random_state(self.random_state).randint(2**31 - 4)
            # Each call goes on with fresh draws rather than repeating those of the last.
            self._seed += 0 if fresh else len(self.history)
            self._train(rows, fresh=fresh, epochs=1)
        return self

    def _train(self, rows: Rows, *, fresh: bool, epochs: int | None = None) -> None:
        self._validates: bool = rows.valid is not None
        self._output_checked = False
        if fresh:
            self.initialize()
        else:
            self._seed_dropout()
            self.initialize_callbacks()
        self.notify("on_train_begin", X=rows, y=None)
        with suppress(KeyboardInterrupt):  # how skorch and its callbacks stop early
            self.fit_loop(rows, None, epochs=epochs)
        self.notify("on_train_end", X=rows, y=None)
        self.n_iter_ = len(self.history)
        self.best_epoch_: int = self.n_iter_
        if self._validates:
            losses = [epoch.get("valid_loss", np.inf) for epoch in self.history]
            self.best_epoch_ = int(np.argmin(losses)) + 1

    # -- predict -------------------------------------------------------------------------

    def _predict_rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        return X if is_dataset(X) else Rows(self._encode(X, reset=False))

    def _get_predict_nonlinearity(self) -> Callable[[Tensor], Tensor]:
        # skorch infers this from the criterion, which a trimmed network no longer has.
        if callable(self.predict_nonlinearity):
            return self.predict_nonlinearity
        return _softmax

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


def _softmax(logits: Tensor) -> Tensor:
    return logits.softmax(dim=-1)


def _log_loss_rows(logits: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


def _check_logits(output: Any, n_rows: int, n_classes: int) -> None:
    """Refuse a module whose output cannot be logits."""
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if shape != (n_rows, n_classes):
        raise ValueError(
            f"The module must return logits of shape {(n_rows, n_classes)}, one column per class; "
            f"got {shape}."
        )
    values = output.detach()
    sums = values.sum(dim=1)
    if (values >= 0).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise ValueError(
            "The module returns probabilities (rows between 0 and 1 that sum to 1); it must return "
            "logits. Remove its softmax layer: predict_proba applies softmax by itself."
        )
