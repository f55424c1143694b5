"""What a local calibrator is told of the rows, beside their scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from skcal._validation import FloatArray
from skcal.calibrated._scores import embedding_of, name_of
from skcal.calibration import LocalCalibrator
from skcal.tabular import TabularEncoder


class FeatureReader:
    """Reads features of the rows of a table: of one fitted model, or of the table alone.

    Parameters
    ----------
    kind : {"embedding", "input", "function"}
        Whether to ask the model for its embedding, a transformer, or a function of the table.
    how : transformer or callable, optional
    """

    def __init__(self, kind: str, how: Any = None) -> None:
        self.kind = kind
        self.how = how

    def read(self, estimator: Any, X: Any) -> FloatArray:
        """Return features (n_samples, n_columns), which the calibrator checks.

        Raises
        ------
        ValueError
            If a function returns nothing.
        """
        if self.kind == "embedding":
            embed = embedding_of(estimator)
            assert embed is not None
            found = embed(X)
        else:
            found = self.how(X) if self.kind == "function" else self.how.transform(X)
        if found is None:
            raise ValueError(
                "Features must be one row of numbers for each row of X; the function that was "
                "given as features returned None."
            )
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found)


def check_features(wanted: Any, calibrator: Any, *, stacked: bool) -> None:
    """Refuse features that would not be used, or could not be read.

    Parameters
    ----------
    wanted, calibrator
        Parameters of the ``CalibratedClassifier``, the calibrator as an instance.
    stacked : bool
        Whether one map is fitted on the scores of several models.
    """
    local = isinstance(calibrator, LocalCalibrator)
    if not local and not (isinstance(wanted, str) and wanted == "auto"):
        raise ValueError(
            f"features={wanted!r} is for local calibrators; {type(calibrator).__name__} reads "
            "scores only. Leave features out, or take a local calibrator such as "
            "VQDirichletCalibration."
        )
    if isinstance(wanted, str) and wanted == "embedding" and stacked:
        raise ValueError(
            "features='embedding' with ensemble=False would fit one map to the embeddings of "
            "several networks, in which the same place means other rows. Use ensemble=True, "
            "cv=0.2, or features='input'."
        )


def make_reader(
    wanted: Any, calibrator: Any, estimator: Any, X: Any, *, stacked: bool = False
) -> FeatureReader | None:
    """Return how to read the features of rows, learned from some of them; None without need.

    Parameters
    ----------
    wanted : {"auto", "embedding", "input"}, callable or transformer
    calibrator : calibrator
    estimator : fitted classifier
    X : DataFrame or array-like
        Rows for a transformer, which it may learn from.
    stacked : bool, default=False
        Whether one map is fitted on the scores of several models.
    """
    if not isinstance(calibrator, LocalCalibrator):
        return None
    if isinstance(wanted, str):
        has_embedding = embedding_of(estimator) is not None
        if wanted == "embedding" and not has_embedding:
            raise ValueError(
                f"{name_of(estimator)} has no embed(X), so that features='embedding' cannot be "
                "read; use features='input', a transformer or a function of X."
            )
        if wanted == "embedding" or (wanted == "auto" and has_embedding and not stacked):
            return FeatureReader("embedding")
        return FeatureReader("input", _fit_encoder(X))
    if hasattr(wanted, "transform"):
        return FeatureReader("input", clone(wanted).fit(X))
    return FeatureReader("function", wanted)


def _fit_encoder(X: Any) -> TabularEncoder:
    try:
        return TabularEncoder(dtype="float64").fit(X)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "Features of these rows cannot be read by a TabularEncoder; give CalibratedClassifier "
            "a transformer, such as TruncatedSVD() for sparse rows, or a function of X as "
            f"features. {error}"
        ) from error
