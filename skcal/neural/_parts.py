"""Training on parts of the rows: some held out, folds, and a map learned from them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch.callbacks import EarlyStopping

from skcal._progress import is_heard
from skcal.calibrated._folds import fit_calibrator
from skcal.calibrated._scores import Scores
from skcal.calibration import LocalCalibrator, make_calibrator
from skcal.neural._fold_ensemble import FoldEnsemble
from skcal.neural._input import TableNet
from skcal.neural._loop import PREDICT_ROWS
from skcal.neural._rows import Batches, Rows


class PartsNet(TableNet):
    """Train a network, or one per fold, and calibrate it on the rows that it has not seen."""

    module_: Any
    calibrator_: Any

    def _settle(self, rows: Rows) -> None:
        """Settle automatic parameters; there are none here."""

    def _describe(self, rows: Rows) -> None:
        """Learn from the rows to train on what the module asks for; nothing here."""

    def _trains_once(self) -> bool:
        """Return whether a fit is the training of one network."""
        return not self.refit and self._value("n_folds") == 1

    def _refuse_contradictions(self, *, given_validation: bool, groups: Any) -> None:
        n_folds, calibrate = self._value("n_folds"), self._value("calibrate")
        if isinstance(calibrate, LocalCalibrator):
            name = type(calibrate).__name__
            raise ValueError(
                f"calibrate={name}(...) would need features of the rows beside the logits, which "
                f"only CalibratedClassifier hands on: CalibratedClassifier({type(self).__name__}"
                f"(...), {name}(...), cv=0.2)."
            )
        holds_out = self.early_stopping or calibrate
        if groups is not None and (given_validation or not holds_out):
            raise ValueError(
                "groups says which rows are held out together, but none are held out of X: "
                + (
                    "X_val and y_val take their place."
                    if given_validation
                    else "none stop training."
                )
                + " Leave groups out."
            )
        if self.refit and given_validation:
            raise ValueError(
                "refit=True trains anew with the rows that were held out of X, but X_val and "
                "y_val take their place and are never trained on. Set refit=False, or leave "
                "X_val out."
            )
        if self.refit and self.lr_schedule == "plateau":
            raise ValueError(
                "lr_schedule='plateau' looks at rows held out of training, of which refit=True "
                "leaves none. Set lr_schedule='cosine', or refit=False."
            )
        if self.warm_start and n_folds == 1:
            self._refuse_to_go_on_with_folds("warm_start=True")
        if n_folds > 1:
            clash = {
                "X_val and y_val": given_validation,
                "refit=True": self.refit,
                "warm_start=True": self.warm_start,
                "early_stopping=False": not self.early_stopping,
                f"validation_split={self.validation_split!r}": self.validation_split == "last",
            }
            for what, is_set in clash.items():
                if is_set:
                    raise ValueError(
                        f"n_folds={n_folds} trains one network per fold, each stopped on the rows "
                        f"of its own fold; it does not go with {what}. Set n_folds=1."
                    )
        self._refuse_own_nonlinearity()

    def _refuse_own_nonlinearity(self) -> None:
        """Refuse a nonlinearity of one's own beside parameters that need the softmax."""
        if self.predict_nonlinearity == "auto":
            return
        users = {
            "calibrate": bool(self._value("calibrate")),
            "prior_correction": self.prior_correction,
            "n_folds": self._value("n_folds") > 1,
        }
        for name, is_set in users.items():
            if is_set:
                raise ValueError(
                    f"{name}={self._value(name)!r} works on the softmax of the logits, so that a "
                    "predict_nonlinearity of your own would not be used as it is; leave one of "
                    "the two out."
                )

    def _refuse_to_go_on_with_folds(self, what: str) -> None:
        if isinstance(getattr(self, "module_", None), FoldEnsemble):
            raise ValueError(
                f"{what} goes on with one network, but fit trained one per fold; set n_folds=1 "
                "and fit anew."
            )

    def _train_parts(self, parts: list[Rows], *, fresh: bool) -> list[tuple[Any, Rows]]:
        """Train a network on each of some rows; return logits for the rows held out of each."""
        networks, held_out = [], []
        self.fold_histories_ = []
        for part in parts:
            self._train(part, fresh=fresh)
            networks.append(self.module_)
            if part.valid is not None:
                held_out.append((self._logits(part.valid.X), part.valid))
            if len(parts) > 1:
                self.fold_histories_.append(deepcopy(self.history_))
                self._seed += len(self.history_)  # other weights and batches for the next fold
        if len(parts) > 1:
            self.module_ = FoldEnsemble(networks)
            self._set_training(False)
        return held_out

    def _fit_calibrator(self, held_out: list[tuple[Any, Rows]]) -> None:
        logits = np.concatenate([scores for scores, _ in held_out])
        codes = np.concatenate([rows.y.numpy() for _, rows in held_out])
        weights = np.concatenate([rows.weight.double().numpy() for _, rows in held_out])
        # Class weights are for training: probabilities shall fit the rows as they came.
        weights /= self._per_class[codes]
        calibrate = self._value("calibrate")
        self.calibrator_ = fit_calibrator(
            make_calibrator("temperature" if calibrate is True else calibrate),
            Scores(logits, "logits", ""),
            codes,
            weights / weights.mean(),  # a calibrator counts rows by their weights
            np.arange(len(self.classes_)),
        )

    def _train(self, rows: Rows, *, fresh: bool, epochs: int | None = None) -> None:
        if fresh:
            self._describe(rows)
            self.initialized_ = False  # skorch prints what it re-initialises
            self.initialize()
        else:
            self._seed_dropout()
            self.initialize_callbacks()
        self.calibrator_ = None  # of a network that is about to change
        self._shift = self._prior_shift()
        rows = Rows(rows.X, rows.y, rows.weight / rows.weight.mean(), valid=rows.valid)
        if rows.valid is None:
            self._drop_blind_callbacks(strict=epochs is None)
        self.notify("on_train_begin", X=rows, y=None)
        try:
            self.fit_loop(rows, None, epochs=epochs)
        except KeyboardInterrupt:  # how skorch and its callbacks stop early, and its users
            if is_heard() and not self._stop_asked:
                raise  # it is meant for the search
        self.notify("on_train_end", X=rows, y=None)
        del self._average
        self._set_training(False)
        self.n_iter_ = len(self.history)
        self.best_epoch_: int = self.n_iter_
        for _, callback in self.callbacks_:
            if isinstance(callback, EarlyStopping) and callback.load_best:
                self.best_epoch_ = callback.best_epoch_ or self.n_iter_

    def _prior_shift(self) -> NDArray[np.float64] | None:
        """Return what takes logits back to the base rates of the rows."""
        if not (self.prior_correction or self._value("calibrate")):
            return None
        if not self._per_class.all():
            label = self.classes_[self._per_class == 0].tolist()[0]
            raise ValueError(
                "prior_correction and calibrate divide the class weights out, but that of "
                f"{label!r} is 0. "
                "Give it a small weight, or leave its rows out."
            )
        return -np.log(self._per_class)

    def _forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the module's logits, on the CPU."""
        if len(X) > PREDICT_ROWS or self.iterator_valid is not Batches:
            return torch.cat(list(self.forward_iter(Rows(X))))
        # One batch needs no iterator: it would cost a single row more than its answer.
        if self.module_.training:
            self.module_.eval()
        with torch.inference_mode():
            return self.module_(X.to(self.device)).cpu()

    def _logits(self, inputs: torch.Tensor) -> NDArray[np.float64]:
        logits = self._forward(inputs).double().numpy()
        return logits if self._shift is None else logits + self._shift
