"""The strong mode of NeSCal: a second network on honest targets, kept if it is the better one."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed
from skorch.history import History
from torch.nn.functional import log_softmax

from skcal.neural._embedding import embed_rows
from skcal.neural._honest import FoldAnswers, HonestTargets
from skcal.neural._rows import Rows
from skcal.neural._splits import folds_of
from skcal.neural.net import NetClassifier

# Between the seeds of the networks of folds; each network uses the next few.
_SEEDS_APART = 1_000


class HonestNet(NetClassifier):
    """Trains twice if ``honest_folds`` says so; what a training does with targets is above."""

    # What the training that runs is pulled to, if it is the second.
    _honest: HonestTargets | None = None

    def _trains_once(self) -> bool:
        return super()._trains_once() and not self.honest_folds

    def _refuse_contradictions(self, *, given_validation: bool, groups: Any) -> None:
        super()._refuse_contradictions(given_validation=given_validation, groups=groups)
        if not self.honest_folds:
            return
        holds_out = given_validation or self.early_stopping or self._value("calibrate")
        clash = {
            "early_stopping=False without X_val, which leaves no validation rows": not holds_out,
            "refit=True": self.refit,
        }
        for what, is_set in clash.items():
            if is_set:
                raise ValueError(
                    f"honest_folds={self.honest_folds} trains two networks anew and chooses by "
                    f"their validation loss; it does not go with {what}. Set honest_folds=0."
                )

    def _refuse_to_go_on_with_folds(self, what: str) -> None:
        super()._refuse_to_go_on_with_folds(what)
        if self.honest_folds:
            raise ValueError(
                f"{what} goes on with one network, but honest_folds={self.honest_folds} needs all "
                "rows to choose between two; set honest_folds=0."
            )

    def _train(self, rows: Rows, *, fresh: bool, epochs: int | None = None) -> None:
        """Train a network; in strong mode another on honest targets, and keep the better one."""
        super()._train(rows, fresh=fresh, epochs=epochs)
        self.honest_losses_: dict[str, float] | None = None
        if not self.honest_folds:
            return
        other = self._copy_to_train()
        other._honest = self._make_honest_targets(rows)
        super(HonestNet, other)._train(rows, fresh=True)
        losses = {"smoothed": self._best_valid_loss(), "honest": other._best_valid_loss()}
        if losses["honest"] < losses["smoothed"]:
            self.__dict__.update(other.__dict__)
        self.honest_losses_ = losses

    def _copy_to_train(self) -> Self:
        """Return a copy that shares everything but what training sets anew."""
        other = copy(self)
        # skorch empties and fills these in place.
        other.history_, other.virtual_params_ = History(), {}
        other.prefixes_ = list(self.prefixes_)
        other.cuda_dependent_attributes_ = list(self.cuda_dependent_attributes_)
        return other

    def _best_valid_loss(self) -> float:
        return float(self.history_[self.best_epoch_ - 1, self._monitor])

    def _make_honest_targets(self, rows: Rows) -> HonestTargets:
        folds = folds_of(rows, self.honest_folds, self._split_seed)
        answers = Parallel(n_jobs=self.n_jobs)(
            delayed(_answer_fold)(self._copy_for_fold(number), rows, is_held_out)
            for number, is_held_out in enumerate(folds)
        )
        return HonestTargets(
            answers,
            rows.y.to(self.device),
            rows.weight.to(self.device),
            n_neighbors=self.n_neighbors,
            seed=self._seed + 3,
        )

    def _copy_for_fold(self, number: int) -> Self:
        """Return a plain network of another seed, which nobody watches."""
        other = self._copy_to_train()
        other.smoothing, other.honest_folds, other.callbacks = 0.0, 0, None
        other._seed = (self._seed + _SEEDS_APART * (number + 1)) % (2**31 - 4)
        for watched in ("_callback_fit_ctx", "_fit_data"):
            other.__dict__.pop(watched, None)
        return other


def _answer_fold(model: HonestNet, rows: Rows, is_held_out: NDArray[np.bool_]) -> FoldAnswers:
    """Train on all rows but a fold, stopped on the common validation rows, and answer the fold."""
    part = rows.take(np.flatnonzero(~is_held_out))
    part.valid = rows.valid
    model._train(part, fresh=True)
    held_out = torch.from_numpy(np.flatnonzero(is_held_out))
    embeddings, logits = embed_rows(
        model.module_, rows.X[held_out], model.embedding, device=model.device
    )
    log_proba = log_softmax(model._pool(logits), dim=1)
    return FoldAnswers(held_out.to(log_proba.device), embeddings, log_proba)
