"""The training loop: skorch's, on whole batches, with our losses, seeds and callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from inspect import isclass, signature
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from skorch.callbacks import EarlyStopping, EpochTimer, GradientNormClipping, LRScheduler, PrintLog
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from skcal._progress import report_epoch
from skcal.neural._averaging import WeightAverage
from skcal.neural._logits import check_logits, scaled_log_loss
from skcal.neural._protocol import SkorchNet
from skcal.neural._rows import Rows
from skcal.neural.losses import Loss, MixupLoss
from skcal.neural.losses._base import row_losses
from skcal.neural.modules import MLP, Dropout
from skcal.neural.tabular_net import mean_log_proba

# torch initialises weights from the process-wide generator; one fit at a time may borrow it.
_INIT_LOCK = threading.RLock()
# Prediction needs no gradients, so its batches can be large.
PREDICT_ROWS = 8_192
# So many rows show what a module returns.
_FIRST_ROWS = 32
# By what the learning rate is multiplied on a plateau.
_PLATEAU_FACTOR = 0.3
# skorch's callbacks look for a column that marks the best epochs of these.
_BEST: dict[str, Callable[..., float]] = {
    "train_loss": min,
    "valid_loss": min,
    "valid_scaled_loss": min,
    "valid_acc": max,
}


class TrainingNet(SkorchNet):
    """What skorch builds, and calls during training.

    Input, ``fit`` and prediction are in :class:`skcal.neural.NetClassifier`.
    """

    # -- what skorch builds --------------------------------------------------------------

    @property
    def _default_callbacks(self) -> list[tuple[str, Any]]:
        callbacks = [("epoch_timer", EpochTimer())]
        if self.max_grad_norm is not None:
            callbacks.append(("gradient_clipping", GradientNormClipping(self.max_grad_norm)))
        patience = self._value("n_iter_no_change")
        policy = self.lr_schedule if isinstance(self.lr_schedule, str) else None
        if policy == "cosine":
            # Each fit goes its own way down, a warm start too.
            schedule = LRScheduler(
                "CosineAnnealingLR", T_max=self._value("max_epochs"), last_epoch=-1
            )
            callbacks.append(("lr_schedule", schedule))
        elif policy == "plateau":
            # Early enough that training goes on at the smaller rate before it is stopped.
            schedule = LRScheduler(
                "ReduceLROnPlateau",
                monitor=self._monitor,
                factor=_PLATEAU_FACTOR,
                patience=max(1, patience // 2) - 1,  # the epoch after these is the one that acts
                threshold=0.0,
            )
            callbacks.append(("lr_schedule", schedule))
        if self.early_stopping is True:
            stop = EarlyStopping(
                monitor=self._monitor, patience=patience, threshold=0.0, load_best=True
            )
            callbacks.append(("early_stopping", stop))
        return [*callbacks, ("print_log", PrintLog())]

    @property
    def _monitor(self) -> str:
        scaled = isinstance(self.stopping_score, str) and self.stopping_score == "scaled_log_loss"
        return "valid_scaled_loss" if scaled else "valid_loss"

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
        params = super().get_params_for(self._loss_parameter if prefix == "criterion" else prefix)
        if prefix == "module":
            return self._module_sizes() | params
        if prefix == "criterion" and isclass(self._loss) and not issubclass(self._loss, Loss):
            takes_reduction = "reduction" in signature(self._loss).parameters
            return {"reduction": "none"} | params if takes_reduction else params
        if prefix == "iterator_train":
            generator = torch.Generator().manual_seed(self._seed + 1)
            return {"shuffle": True, "generator": generator} | params
        return params

    def _get_params_for_optimizer(self, prefix: str, named_parameters: Any) -> tuple[Any, Any]:
        named = list(named_parameters)
        args, kwargs = super()._get_params_for_optimizer(prefix, named)
        if kwargs["lr"] is self.lr:
            kwargs["lr"] = self._value("lr")
        # Decay pulls matrices towards zero; biases and the factors of members it leaves alone.
        if "weight_decay" in signature(self.optimizer).parameters:
            decay = kwargs.pop("weight_decay", self.weight_decay)
            matrices = {id(p) for name, p in named if p.ndim > 1 and name.endswith("weight")}
            groups = [
                {
                    "weight_decay": decay if is_matrix else 0.0,
                    "decays": is_matrix or "weight_decay" in group,
                }
                | group
                | {"params": [p for p in group["params"] if (id(p) in matrices) is is_matrix]}
                for group in args[0]
                for is_matrix in (True, False)
            ]
            args = ([group for group in groups if group["params"]],)
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
            self._finish_module()
        self.module_.to(getattr(torch, self.dtype))
        self._seed_dropout()
        return self

    def _finish_module(self) -> None:
        """Change the module that was built, seeded as it was; nothing here."""

    def initialize_criterion(self) -> Self:
        """Build the loss, by name, class or instance, in the precision of the network."""
        self.criterion_ = self._make_loss().to(getattr(torch, self.dtype))
        return self

    def torch_compile(self, module: nn.Module, name: str) -> nn.Module:
        """Compile the network; a compiled loss could not be asked for its rows."""
        return module if name == "criterion" else super().torch_compile(module, name)

    def _seed_dropout(self) -> None:
        generator = torch.Generator(device=self.device).manual_seed(self._seed + 2)
        for part in self.module_.modules():
            if isinstance(part, Dropout):
                part.generator = generator

    # -- what skorch calls during training ----------------------------------------------

    def notify(self, method_name: str, **kwargs: Any) -> None:
        """Call the callbacks; stop after an epoch once all of them have seen it."""
        try:
            super().notify(method_name, **kwargs)
        except KeyboardInterrupt:
            # How callbacks of skorch stop; elsewhere, as while a graph is built, it is the user.
            if method_name in ("on_epoch_end", "on_batch_end"):
                self._stop_asked = True
            raise
        if method_name == "on_epoch_end" and self._stop_asked:
            raise KeyboardInterrupt  # how skorch itself stops early

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Look whether the module returns logits."""
        super().on_train_begin(net, X=X, y=y, **kwargs)
        self._stop_asked = False
        self._average = WeightAverage(self.module_, self._value("ema_decay"))
        if isinstance(self.criterion_, MixupLoss):
            self.criterion_.seed(self._seed + 4)
        self._rates = [group["lr"] for group in self.optimizer_.param_groups]
        batch = X[:_FIRST_ROWS]
        check_logits(self.evaluation_step(batch), len(batch[1]), len(self.classes_))

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Take the learning rates back to where a schedule began: training may go on."""
        super().on_train_end(net, X=X, y=y, **kwargs)
        if self.lr_schedule != "constant":
            for group, rate in zip(self.optimizer_.param_groups, self._rates, strict=True):
                group["lr"] = rate
                group.pop("initial_lr", None)

    def check_data(self, X: Any, y: Any = None) -> None:
        """Do nothing: labels were encoded, and the classes kept, before skorch sees them."""

    def get_split_datasets(self, X: Any, y: Any = None, **params: Any) -> tuple[Rows, Rows | None]:
        """Return the training and validation rows."""
        return X, X.valid

    def fit_loop(self, X: Any, y: Any = None, epochs: int | None = None, **params: Any) -> Self:
        """Train for some epochs."""
        return super().fit_loop(
            X, y, epochs=self._value("max_epochs") if epochs is None else epochs, **params
        )

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        """Return the batches of some rows."""
        params = self.get_params_for("iterator_train" if training else "iterator_valid")
        size = self._value("batch_size")
        params.setdefault("batch_size", size if training else max(size, PREDICT_ROWS))
        if params["batch_size"] == -1:
            params["batch_size"] = len(dataset)
        return (self.iterator_train if training else self.iterator_valid)(dataset, **params)

    def infer(self, x: Any, **fit_params: Any) -> Tensor:
        """Return the logits of a batch; in training with mixup, of its mixed rows."""
        inputs = x["X"].to(self.device)
        if not (self.module_.training and isinstance(self.criterion_, MixupLoss)):
            return self.module_(inputs, **fit_params)
        mix = self.criterion_.draw(len(inputs)).to(self.device)
        x["mix"] = mix if mix.share < 1 else None
        if mix.share == 1:  # nothing is mixed, and smoothing needs no second pass
            return self.module_(inputs, **fit_params)
        if hasattr(self.module_, "embed_columns"):
            # Codes of categories cannot be mixed, their learned vectors can.
            return self.module_.classify(mix.of(self.module_.embed_columns(inputs)))
        return self.module_(mix.of(inputs), **fit_params)

    def get_loss(
        self, y_pred: Tensor, y_true: Tensor, X: Any = None, training: bool = False
    ) -> Tensor:
        """Return the mean of weight times loss of a batch; the log-loss when validating.

        Training weights average one over all rows, not in each batch: dividing by a batch's
        own weights would take most of its weight from a rare, heavy row.
        """
        weight, y_true = X["weight"].to(y_pred), y_true.to(y_pred.device)
        if not training:
            return weight @ cross_entropy(y_pred, y_true, reduction="none") / weight.sum()
        loss = self._weigh(y_pred, y_true, weight)
        mix = X.get("mix")
        if mix is not None:
            partner = self._weigh(y_pred, y_true[mix.partner], weight[mix.partner])
            loss = mix.share * loss + (1 - mix.share) * partner
        self._loss_parts = {"criterion": loss.detach()}
        if not getattr(self.criterion_, "penalizes_batch", False):
            return loss
        penalty = self.criterion_.batch_penalty(self._pool(y_pred), y_true, weight)
        self._loss_parts["criterion_penalty"] = (0 * loss if penalty is None else penalty).detach()
        return loss if penalty is None else loss + penalty

    def _weigh(self, y_pred: Tensor, y_true: Tensor, weight: Tensor) -> Tensor:
        rows = self._row_losses(y_pred, y_true, weight)
        if rows.shape != weight.shape:
            raise ValueError(
                f"The criterion must return one loss per row, shape {tuple(weight.shape)}; got "
                f"{tuple(rows.shape)}. A term of the batch as a whole is a subclass of "
                "skcal.neural.losses.Penalty."
            )
        return weight @ rows / len(rows)

    def _row_losses(self, y_pred: Tensor, y_true: Tensor, weight: Tensor) -> Tensor:
        """Return the criterion of each row (n,): of an ensemble, the mean of its members'.

        The loss of the members' mean prediction would let them share the work, and each be
        poor alone.
        """
        if y_pred.ndim < 3:
            return row_losses(self.criterion_, y_pred, y_true)
        n_members = y_pred.shape[1]
        targets = y_true.repeat_interleave(n_members)
        rows = row_losses(self.criterion_, y_pred.flatten(0, 1), targets)
        if rows.shape != targets.shape:
            return rows  # refused by the caller
        return rows.view(-1, n_members).mean(dim=1)

    def _pool(self, y_pred: Tensor) -> Tensor:
        """Return one prediction per row, whose calibration matters: the members' mean."""
        return y_pred if y_pred.ndim < 3 else mean_log_proba(y_pred)

    def run_single_epoch(
        self, iterator: Any, training: bool, prefix: str, step_fn: Callable[..., Any], **params: Any
    ) -> None:
        """Run one pass over the batches and record the weighted means of its losses.

        skorch reads every batch's loss; here they stay tensors until the epoch is over.
        """
        if iterator is None:
            return
        parts: dict[str, list[Tensor]] = {"weight": [], f"{prefix}_loss": []}
        logits, labels, row_weights = [], [], []
        # The weights themselves are trained; their average is validated, embedded and kept.
        with self._average.set_aside() if training else nullcontext():
            for batch in iterator:
                self.notify("on_batch_begin", batch=batch, training=training)
                step = step_fn(batch, **params)
                self.notify("on_batch_end", batch=batch, training=training, **step)
                weight = batch[0]["weight"]
                parts["weight"].append(torch.tensor(len(weight)) if training else weight.sum())
                parts[f"{prefix}_loss"].append(step["loss"].detach())
                if training:
                    self._average.update()
                    for name, part in self._loss_parts.items():
                        parts.setdefault(name, []).append(part)
                    continue
                hits = step["y_pred"].argmax(dim=1).cpu() == batch[1]
                parts.setdefault("valid_acc", []).append(weight @ hits.to(weight) / weight.sum())
                if self.stopping_score == "scaled_log_loss":
                    logits.append(step["y_pred"].double().cpu())
                    labels.append(batch[1])
                    row_weights.append(weight.double())
        weights = torch.stack(parts.pop("weight")).double()
        weights /= weights.sum()
        means = {
            name: float(torch.stack(values).double().cpu() @ weights)
            for name, values in parts.items()
        }
        if logits:
            means["valid_scaled_loss"] = scaled_log_loss(
                torch.cat(logits), torch.cat(labels), torch.cat(row_weights)
            )
        loss = means[f"{prefix}_loss"]
        if not np.isfinite(loss):
            raise ValueError(
                f"The {prefix} loss became {loss} in epoch {len(self.history)}; try a smaller "
                f"learning rate than lr={self._value('lr')}, and scale the inputs."
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
        if isinstance(self.criterion_, Loss):
            self.criterion_.set_epoch(len(self.history) - 1)
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
        loss = self.history[-1].get(self._monitor)
        if loss is not None:
            report_epoch(len(self.history), loss)

    def _get_predict_nonlinearity(self) -> Callable[[Tensor], Tensor]:
        # skorch infers this from the criterion, which a trimmed network no longer has.
        if callable(self.predict_nonlinearity):
            return self.predict_nonlinearity
        return _softmax


def _softmax(logits: Tensor) -> Tensor:
    return logits.softmax(dim=-1)
