"""The shims that turn a skorch network into a scikit-learn estimator."""

from __future__ import annotations

import threading
from collections.abc import Callable
from difflib import get_close_matches
from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import (
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)
from skorch import NeuralNetClassifier
from skorch.callbacks import EarlyStopping, EpochTimer, PrintLog
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from skcal.neural._rows import Batches, Rows
from skcal.neural.modules import MLP, Dropout

# torch initialises weights from the process-wide generator; one fit at a time may borrow it.
_INIT_LOCK = threading.RLock()
# Prediction needs no gradients, so its batches can be large.
_PREDICT_ROWS = 8_192
# So many rows show what a module returns.
_FIRST_ROWS = 32
# What other libraries call our parameters.
_ALIASES = {
    "alpha": "optimizer__weight_decay",
    "epochs": "max_epochs",
    "hidden_layer_sizes": "hidden_sizes",
    "learning_rate": "lr",
    "learning_rate_init": "lr",
    "max_iter": "max_epochs",
    "patience": "n_iter_no_change",
    "seed": "random_state",
    "weight_decay": "optimizer__weight_decay",
}
# skorch's callbacks look for a column that marks the best epochs of these.
_BEST: dict[str, Callable[..., float]] = {"train_loss": min, "valid_loss": min, "valid_acc": max}


def _private(name: str) -> property:
    """Keep a state attribute of skorch under a private name, out of the parameters."""
    key = "_" + name.rstrip("_")
    return property(
        lambda self: getattr(self, key), lambda self, value: self.__dict__.__setitem__(key, value)
    )


class SkorchNet(CallbackSupportMixin, NeuralNetClassifier):
    """Everything in which skorch's network differs from what scikit-learn asks.

    Parameters, state, seeds, the training loop and its callbacks; input, ``fit`` and
    prediction are in :class:`skcal.neural.NetClassifier`.
    """

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
        callbacks: Any = None,
        predict_nonlinearity: Any = "auto",
        warm_start: bool = False,
        verbose: int = 0,
        device: Any = "cpu",
        compile: bool = False,
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
            dataset=Rows,
            train_split=None,
            callbacks=callbacks,
            predict_nonlinearity=predict_nonlinearity,
            warm_start=warm_start,
            verbose=verbose,
            device=device,
            compile=compile,
            use_caching=True,  # without it, skorch's scorers find no labels in our rows
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
        # skorch takes every attribute for a parameter. Rows, splits and classes are ours.
        hidden = {"dataset", "train_split", "classes", "forward_iter", "use_caching"}
        names = super()._get_param_names()
        return [name for name in names if not name.startswith("_") and name not in hidden]

    def set_params(self, **params: Any) -> Self:
        """Set parameters; nothing is validated before ``fit``.

        On a fitted estimator the learning rate and ``optimizer__*`` act at once, for
        ``partial_fit`` and warm starts. Everything else waits for the next ``fit``: the
        trained network stays as it is.
        """
        if not self.initialized_ and "callbacks" in params:
            self.callbacks = params.pop("callbacks")
        now = {
            key: params.pop(key)
            for key in list(params)
            if self._is_virtual_param(key) or key.startswith("callbacks")
        }
        if now:
            super().set_params(**now)
        # skorch tells the present optimizer alone; the next one shall know as well.
        for key in filter(self._is_virtual_param, now):
            setattr(self, key, now[key])
        for key in [key for key in params if "__" in key]:
            if not hasattr(getattr(self, key.split("__")[0], None), "set_params"):
                setattr(self, key, params.pop(key))
                self._params_to_validate.add(key)
        BaseEstimator.set_params(self, **params)
        return self

    def __getstate__(self) -> dict[str, Any]:
        # skorch pickles the torch parts apart and by name, so that cloudpickle (joblib's
        # workers use it) cannot bring along a module class of a script or notebook. It does
        # so to load on a CPU what was trained on a GPU.
        on_cpu = str(self.device).partition(":")[0] == "cpu"
        return self.__dict__.copy() if on_cpu else super().__getstate__()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "__cuda_dependent_attributes__" in state:
            super().__setstate__(state)
        else:
            self.__dict__.update(state)

    __repr__ = BaseEstimator.__repr__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._wants_encoder()
        return tags

    def _refuse_unknown_params(self) -> None:
        known = [
            name for name in self.get_params(deep=False) if name not in self._params_to_validate
        ]
        for name in sorted(self._params_to_validate):
            if "__" in name or name in self.prefixes_ or name.endswith("_"):
                continue  # skorch looks at these
            near = _ALIASES.get(name) or next(iter(get_close_matches(name, known, n=1)), None)
            raise ValueError(
                f"{type(self).__name__} has no parameter {name!r}."
                + (f" Did you mean {near!r}?" if near else f" It has {sorted(known)}.")
            )

    def _validate_own_params(self) -> None:
        self._refuse_unknown_params()
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

    def _wants_encoder(self) -> bool:
        return self.encoder is not None and not (self.encoder == "auto" and self.module is not None)

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
        """Build the callbacks, early stopping last: it ends an epoch that all shall have seen."""
        super().initialize_callbacks()
        self.callbacks_.sort(key=lambda pair: pair[0] == "early_stopping")
        return self

    def _drop_blind_callbacks(self, *, strict: bool) -> None:
        """Leave out, or refuse, callbacks that watch validation rows where there are none."""
        blind = [
            name
            for name, callback in self.callbacks_
            if str(getattr(callback, "monitor", "")).startswith("valid_")
        ]
        if blind and strict:
            raise ValueError(
                f"The callback {blind[0]!r} watches the validation rows, but there are none; set "
                "early_stopping=True, or pass X_val and y_val."
            )
        self.callbacks_ = [pair for pair in self.callbacks_ if pair[0] not in blind]

    def get_params_for(self, prefix: str) -> dict[str, Any]:
        """Return the arguments of a part: skorch's, and what only ``fit`` knows."""
        params = super().get_params_for(prefix)
        if prefix == "module":
            return self._module_sizes() | params
        if prefix == "criterion" and not isinstance(self.criterion, nn.Module):
            return {"reduction": "none"} | params
        if prefix == "iterator_train":
            generator = torch.Generator().manual_seed(self._seed + 1)
            return {"shuffle": True, "generator": generator} | params
        return params

    def _get_params_for_optimizer(self, prefix: str, named_parameters: Any) -> tuple[Any, Any]:
        args, kwargs = super()._get_params_for_optimizer(prefix, named_parameters)
        # One fused pass over the weights is several times faster than one per tensor.
        if self.optimizer in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
            kwargs.setdefault("fused", not (kwargs.get("foreach") or kwargs.get("differentiable")))
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

    def initialize_criterion(self) -> Self:
        """Build the criterion; one given as an instance is set to answer row by row."""
        super().initialize_criterion()
        if isinstance(self.criterion, nn.Module):
            self.criterion_.reduction = "none"
        return self

    def _seed_dropout(self) -> None:
        generator = torch.Generator(device=self.device).manual_seed(self._seed + 2)
        for part in self.module_.modules():
            if isinstance(part, Dropout):
                part.generator = generator

    # -- what skorch calls during training ----------------------------------------------

    def notify(self, method_name: str, **kwargs: Any) -> None:
        """Call the callbacks; stop after an epoch once all of them have seen it."""
        super().notify(method_name, **kwargs)
        if method_name == "on_epoch_end" and self._stop_asked:
            raise KeyboardInterrupt  # how skorch itself stops early

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Look whether the module returns logits."""
        super().on_train_begin(net, X=X, y=y, **kwargs)
        batch = X[:_FIRST_ROWS]
        _check_logits(self.evaluation_step(batch), len(batch[1]), len(self.classes_))

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
        """Return the mean of weight times loss of a batch; the log-loss when validating.

        Training weights average one over all rows, not in each batch: dividing by a batch's
        own weights would take most of its weight from a rare, heavy row.
        """
        weight, y_true = X["weight"].to(y_pred), y_true.to(y_pred.device)
        rows = self.criterion_(y_pred, y_true) if training else _log_loss_rows(y_pred, y_true)
        if rows.shape != weight.shape:
            raise ValueError(
                f"The criterion must return one loss per row, shape {tuple(weight.shape)}; got "
                f"{tuple(rows.shape)}."
            )
        loss = weight @ rows / (len(rows) if training else weight.sum())
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
            parts["weight"].append(torch.tensor(len(weight)) if training else weight.sum())
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
            if name in _BEST:
                earlier = [epoch[name] for epoch in self.history[:-1] if name in epoch]
                is_best = not earlier or _BEST[name](mean, *earlier) not in earlier
                self.history.record(f"{name}_best", is_best)
            self.history.record(name, mean)
        self.history.record(f"{prefix}_batch_count", len(weights))

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        """Open a task for scikit-learn's callbacks."""
        super().on_epoch_begin(net, **kwargs)
        self._stop_asked = False
        if hasattr(self, "_callback_fit_ctx"):
            self._epoch_context = self._callback_fit_ctx.subcontext(task_name="epoch")
            self._epoch_context.call_on_fit_task_begin(estimator=self, **self._fit_data)

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Close the task; a callback of scikit-learn may ask to stop."""
        super().on_epoch_end(net, **kwargs)
        context = self.__dict__.pop("_epoch_context", None)
        self._stop_asked = context is not None and context.call_on_fit_task_end(
            estimator=self, reconstruction_attributes={}, **self._fit_data
        )

    def _get_predict_nonlinearity(self) -> Callable[[Tensor], Tensor]:
        # skorch infers this from the criterion, which a trimmed network no longer has.
        if callable(self.predict_nonlinearity):
            return self.predict_nonlinearity
        return _softmax


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
