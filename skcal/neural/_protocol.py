"""The parameter protocol of scikit-learn on top of a skorch network."""

from __future__ import annotations

from difflib import get_close_matches
from inspect import isclass, signature
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import torch
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)
from skorch import NeuralNetClassifier
from torch import nn

from skcal.calibration import CALIBRATOR_NAMES
from skcal.neural._rows import Batches, Rows
from skcal.neural.losses import LOSS_NAMES, MultiHeadLoss, make_loss
from skcal.neural.losses._base import in_rows
from skcal.tabular import TabularEncoder

# What other libraries call our parameters.
_ALIASES = {
    "alpha": "weight_decay",
    "epochs": "max_epochs",
    "hidden_layer_sizes": "hidden_sizes",
    "k": "n_members",
    "learning_rate": "lr",
    "learning_rate_init": "lr",
    "loss": "criterion",
    "max_iter": "max_epochs",
    "n_cv": "n_folds",
    "patience": "n_iter_no_change",
    "seed": "random_state",
}


def _private(name: str) -> property:
    """Keep a state attribute of skorch under a private name, out of the parameters."""
    key = "_" + name.rstrip("_")
    return property(
        lambda self: getattr(self, key), lambda self, value: self.__dict__.__setitem__(key, value)
    )


def _is_auto(device: Any) -> bool:
    return isinstance(device, str) and device == "auto"


def _on_this_machine(device: Any) -> Any:
    """Return a device, or what "auto" stands for on this machine."""
    if _is_auto(device):
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


class SkorchNet(CallbackSupportMixin, NeuralNetClassifier):
    """Everything in which skorch's network differs from what scikit-learn asks.

    Here parameters, pickling and tags; the training loop is in its subclass ``TrainingNet``,
    and input, ``fit`` and prediction in :class:`skcal.neural.NetClassifier`.
    """

    callbacks_: list[tuple[str, Any]]
    # The parameter that says what is trained on; skorch calls it criterion.
    _loss_parameter = "criterion"

    history_ = _private("history_")
    initialized_ = _private("initialized_")
    virtual_params_ = _private("virtual_params_")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lr": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1})],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "lr_schedule": [StrOptions({"constant", "cosine", "plateau"})],
        "ema_decay": [Interval(Real, 0, 1, closed="left")],
        "max_grad_norm": [Interval(Real, 0, None, closed="neither"), None],
        "early_stopping": ["boolean"],
        "stopping_score": [StrOptions({"log_loss", "scaled_log_loss"})],
        "validation_split": [StrOptions({"stratified", "last"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "n_folds": [Interval(Integral, 1, None, closed="left")],
        "refit": ["boolean"],
        "calibrate": [
            "boolean",
            StrOptions(set(CALIBRATOR_NAMES)),
            HasMethods(["fit", "predict_proba"]),
        ],
        "prior_correction": ["boolean"],
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
        weight_decay: float = 0.01,
        lr_schedule: str = "constant",
        ema_decay: float = 0.0,
        max_grad_norm: float | None = None,
        early_stopping: bool = True,
        stopping_score: str = "log_loss",
        validation_fraction: float = 0.15,
        validation_split: str = "stratified",
        n_iter_no_change: int = 12,
        n_folds: int = 1,
        refit: bool = False,
        calibrate: Any = False,
        embedding: str = "penultimate",
        encoder: Any = "auto",
        class_weight: Any = None,
        prior_correction: bool = False,
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
        self.weight_decay = weight_decay
        self.lr_schedule = lr_schedule
        self.ema_decay = ema_decay
        self.max_grad_norm = max_grad_norm
        self.early_stopping = early_stopping
        self.stopping_score = stopping_score
        self.validation_fraction = validation_fraction
        self.validation_split = validation_split
        self.n_iter_no_change = n_iter_no_change
        self.n_folds = n_folds
        self.refit = refit
        self.calibrate = calibrate
        self.embedding = embedding
        self.encoder = encoder
        self.class_weight = class_weight
        self.prior_correction = prior_correction
        self.dtype = dtype
        self.random_state = random_state

    @property
    def device(self) -> Any:
        """Where the network runs: the parameter, or what "auto" stands for on this machine."""
        return _on_this_machine(self.__dict__["device"])

    @device.setter
    def device(self, value: Any) -> None:
        self.__dict__["device"] = value

    # -- the scikit-learn parameter protocol -------------------------------------------

    def get_params(self, deep: bool = True, **kwargs: Any) -> dict[str, Any]:
        """Return the parameters; ``device`` as it was given."""
        params = super().get_params(deep=deep, **kwargs)
        if "device" in params:
            params["device"] = self.__dict__["device"]
        return params

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
            if (self._is_virtual_param(key) and not _is_auto(params[key]))
            or key.startswith("callbacks")
        }
        if now:
            super().set_params(**now)
            if self.initialized_ and "optimizer__weight_decay" in now:
                for group in self.optimizer_.param_groups:
                    group["weight_decay"] *= group.get("decays", True)
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
            asked = state["device"]
            super().__setstate__(state | {"device": _on_this_machine(asked)})
            if _is_auto(asked):
                self.device = asked
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
            part, dunder, argument = name.partition("__")
            ours = part in self.prefixes_ or part not in _ALIASES
            if (dunder and ours) or name in self.prefixes_ or name.endswith("_"):
                continue  # skorch looks at these
            if name in signature(TabularEncoder).parameters:
                raise ValueError(
                    f"{name!r} is a parameter of the encoder: set encoder=TabularEncoder({name}="
                    "...), and with it min_frequency=5, max_one_hot=64, which NeSCalMLP's own has."
                )
            near = [_ALIASES[part] + dunder + argument] if part in _ALIASES else []
            short = [p for p in self.prefixes_ if name.startswith(p + "_")]
            near += [f"{p}__{name.removeprefix(p + '_')}" for p in short]
            near += get_close_matches(name, known, n=1)
            raise ValueError(
                f"{type(self).__name__} has no parameter {name!r}."
                + (f" Did you mean {near[0]!r}?" if near else f" It has {sorted(known)}.")
            )

    def _validate_own_params(self) -> None:
        self._refuse_unknown_params()
        values = self.get_params(deep=False)
        constraints = {k: v for k, v in self._parameter_constraints.items() if k in values}
        validate_parameter_constraints(
            constraints, {k: values[k] for k in constraints}, caller_name=type(self).__name__
        )
        if str(self.device).startswith("cuda") and not torch.cuda.is_available():
            raise ValueError(
                f"device={self.device!r}, but torch finds no CUDA here; device='auto' takes it "
                "where there is one."
            )
        if not callable(self.optimizer):
            raise ValueError(
                f"optimizer must be a class of torch, such as torch.optim.AdamW; got "
                f"{self.optimizer!r}."
            )
        self._check_loss()
        if not (self.predict_nonlinearity == "auto" or callable(self.predict_nonlinearity)):
            raise ValueError(
                "predict_nonlinearity must be 'auto' (softmax) or a function from logits to "
                f"probabilities; got {self.predict_nonlinearity!r}."
            )

    def _check_loss(self) -> None:
        loss, name = self._loss, self._loss_parameter
        if not (isinstance(loss, str) or callable(loss)):
            raise ValueError(
                f"{name} must be a name ({', '.join(map(repr, LOSS_NAMES))}), or a loss of torch "
                f"or of skcal.neural.losses, class or instance; got {loss!r}."
            )
        if loss is nn.NLLLoss or isinstance(loss, nn.NLLLoss):
            raise ValueError(
                f"{name}=NLLLoss expects log-probabilities, but the module returns logits; "
                "use torch.nn.CrossEntropyLoss."
            )
        if isinstance(loss, MultiHeadLoss) or (isclass(loss) and issubclass(loss, MultiHeadLoss)):
            raise ValueError(
                f"{name}=MultiHeadLoss needs a network with several heads, in a loop of one's own. "
                "MultiHeadClassifier and MultiHeadMLP train by it, and take the loss of a head as "
                f"their {name}."
            )
        if isinstance(loss, str):  # a wrong name, or parameter, before anything is done
            self._make_loss()

    @property
    def _loss(self) -> Any:
        return getattr(self, self._loss_parameter)

    def _make_loss(self) -> Any:
        """Build the loss, set to answer row by row; one given as an instance is copied."""
        return in_rows(make_loss(self._loss, **self.get_params_for("criterion")))

    def _value(self, name: str) -> Any:
        """Return a parameter as this fit takes it; subclasses have automatic ones."""
        return getattr(self, name)

    def _wants_encoder(self) -> bool:
        return self.encoder is not None and not (self.encoder == "auto" and self.module is not None)
