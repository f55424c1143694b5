"""From tables and labels of any kind to rows of tensors."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_consistent_length, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, column_or_1d, validate_data
from skorch.utils import is_dataset

from skcal._validation import check_weights
from skcal.neural._loop import TrainingNet
from skcal.neural._rows import Rows
from skcal.tabular import TabularEncoder, check_table

# More classes than this, and than half of the rows, are hardly classes.
_MANY_CLASSES = 20


class TableNet(TrainingNet):
    """What a network does before it trains: check, encode, weigh."""

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
        counted = None if sample_weight is None else sample_weight > 0
        if counted is not None and (counted.all() or len(counted) != len(table)):
            counted = None  # another length is refused later, by its name
        if not reset:
            return self._transform(self.encoder_, table, counted)
        encoder = self._default_encoder() if self.encoder == "auto" else clone(self.encoder)
        weights = {}
        if sample_weight is not None and "sample_weight" in signature(encoder.fit).parameters:
            weights = {"sample_weight": _as_counts(sample_weight[sample_weight > 0])}
        encoder.fit(table if counted is None else table[counted], **weights)
        encoded = self._transform(encoder, table, counted)
        self.encoder_: Any = encoder
        return encoded

    def _transform(
        self, encoder: Any, table: Any, counted: NDArray[np.bool_] | None
    ) -> NDArray[np.floating]:
        """Encode a table; rows that do not count stay zeros, whatever is in them."""
        part = encoder.transform(table if counted is None else table[counted])
        part = _for_torch(part, self._fitted_dtype)
        if not isinstance(encoder, TabularEncoder) and not np.isfinite(part).all():
            raise ValueError(
                f"{type(encoder).__name__} gave numbers that are not finite; the encoder must fill "
                "missing cells, for instance in a pipeline with SimpleImputer."
            )
        if counted is None:
            return part
        encoded = np.zeros((len(table), *part.shape[1:]), dtype=part.dtype)
        encoded[counted] = part
        return encoded

    def _default_encoder(self) -> TabularEncoder:
        return TabularEncoder(dtype=self.dtype)

    def _rows(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        *,
        reset: bool,
        classes: ArrayLike | None = None,
        groups: ArrayLike | None = None,
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
            n_values = len(np.unique(y))
        except (TypeError, ValueError) as error:
            if "NaN" not in str(error) and not _has_missing(y):
                raise
            raise ValueError(f"y has missing labels; remove those rows. ({error})") from error
        learns_classes = reset and classes is None
        if learns_classes and n_values > max(_MANY_CLASSES, 0.5 * len(y)):
            raise ValueError(
                f"Unknown label type: y holds {n_values} different values in {len(y)} rows. It "
                f"looks like a regression target, and {name} tells classes apart. Cut it into "
                "classes first, for instance with pandas.qcut."
            )
        check_classification_targets(y)
        given = None if sample_weight is None else check_weights(sample_weight, X)
        unit = None if groups is None else column_or_1d(groups)
        if unit is not None and _has_missing(unit):
            raise ValueError("groups has missing values; give each of those rows its own group.")
        if given is not None:
            # Only proportions matter, and sums of very large weights overflow.
            given = np.ldexp(given, -int(np.frexp(given.max())[1]))
        encoded = self._encode(X, reset=reset, sample_weight=given)
        check_consistent_length(encoded, y, unit)
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
        if training:
            self._per_class = np.ones(len(self.classes_))
        if self.class_weight is not None:
            if training:
                self._weigh_classes(codes[weight > 0], weight[weight > 0])
            weight = weight * self._per_class[codes]
        keep = weight > 0
        if learns_classes and len(np.unique(codes[keep])) < 2:
            raise ValueError(
                f"{name} needs at least two classes; the data holds one class only"
                + (" once rows of weight zero are left out." if not keep.all() else ".")
            )
        if keep.all():
            return Rows(encoded, codes, weight, groups=unit)
        unit = None if unit is None else unit[keep]
        return Rows(encoded[keep], codes[keep], weight[keep], groups=unit)

    def _weigh_classes(self, codes: NDArray[np.int64], weight: NDArray[np.float64]) -> None:
        # A dict knows classes that a batch lacks; a balance is one of the classes there are.
        known = np.arange(len(self.classes_))
        if self.class_weight == "balanced":
            known = np.unique(codes)
        self._per_class[known] = compute_class_weight(
            self.class_weight,
            classes=self.classes_[known],
            y=self.classes_[codes],
            sample_weight=weight,
        )
        if not (np.isfinite(self._per_class) & (self._per_class >= 0)).all():
            raise ValueError(
                "class_weight must hold finite numbers that are not negative; got "
                f"{self.class_weight!r}."
            )


def _as_counts(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights in a unit in which they count rows: a level is rare by their number.

    Multiples of the lightest row repeat it, in whatever unit they were given; other weights count
    one row on average.
    """
    repeats = weights / max(weights.min(), 1e-200)
    if np.abs(repeats - np.rint(repeats)).max() < 1e-6:
        return np.rint(repeats)
    return weights / weights.mean()


def _has_missing(values: Any) -> bool:
    """Tell whether None, NaN or pandas' NA is among some values."""
    return any(
        value is None or type(value).__name__ == "NAType" or value != value
        for value in np.asarray(values, dtype=object).ravel()
    )


def _for_torch(encoded: Any, dtype: str) -> NDArray[np.floating]:
    """Return what an encoder gave (array, DataFrame, sparse) as an array that torch may own."""
    dense = encoded.toarray() if hasattr(encoded, "toarray") else encoded
    return np.require(dense, dtype, ["C", "W"])
