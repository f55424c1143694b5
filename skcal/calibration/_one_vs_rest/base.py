"""Base classes of maps of one probability, one per class against the rest."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skcal._rows import mean_log_loss
from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._base import BaseCalibrator
from skcal.calibration._fitting.temperature import find_temperature
from skcal.calibration._one_vs_rest.log_odds import LogOdds, log_proba_of, mapped_columns


class OneVsRestMap(BaseCalibrator):
    r"""Base of maps of one probability: the second class of two, or each class against the rest.

    A map implements ``_fit_column(log_odds, hit, weights)``, which returns what it learned and
    the calibrated log-odds of these rows, and ``_map_column(learned, log_odds)``, which returns
    those of other rows. With more than two classes the calibrated probabilities are divided by
    their sum. A class without a single row, or with all of them, keeps its own probability.
    """

    @abstractmethod
    def _fit_column(
        self, log_odds: FloatArray, hit: FloatArray, weights: FloatArray
    ) -> tuple[Any, FloatArray]:
        """Learn from log-odds (n,), 0/1 outcomes (n,) and weights (n,)."""

    @abstractmethod
    def _map_column(self, learned: Any, log_odds: FloatArray) -> FloatArray:
        """Return calibrated log-odds (n,)."""

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> float | None:
        return mean_log_loss(self._fit_maps(log_proba, codes, weights), codes, weights)

    def _fit_maps(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
        """Set ``maps_`` and return the unnormalised log-probabilities (n, K) of these rows."""
        odds = LogOdds(log_proba)
        columns = mapped_columns(log_proba)
        calibrated = np.empty((len(columns), len(log_proba)))
        self.maps_ = []
        for row, column in enumerate(columns):
            hit = (codes == column).astype(np.float64)
            learned, calibrated[row] = None, odds.column(column)
            if 0 < hit.sum() < len(hit):
                learned, calibrated[row] = self._fit_column(calibrated[row], hit, weights)
            self.maps_.append(learned)
        return log_proba_of(calibrated)

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        odds = LogOdds(log_proba)
        calibrated = np.empty((len(self.maps_), len(log_proba)))
        for row, (learned, column) in enumerate(
            zip(self.maps_, mapped_columns(log_proba), strict=True)
        ):
            calibrated[row] = odds.column(column)
            if learned is not None:
                calibrated[row] = self._map_column(learned, calibrated[row])
        return log_proba_of(calibrated)


class ShrunkMap(OneVsRestMap):
    r"""One-dimensional maps that are drawn to temperature scaling.

    With :math:`q` the map's probabilities, and :math:`p_T` those of temperature scaling, the
    answer is :math:`q^{1-a}\, p_T^{a}` divided by its sum. Along this path the log-loss is
    convex, so that it is not above that of temperature scaling, nor that of no calibration,
    on the rows of ``fit``.

    The share :math:`a` is :math:`(d + \sqrt{2 d}) / (2 G)`, at most 1: G is by how many nats
    the map lowers the total log-loss below temperature scaling on its own rows, and d how many
    parameters it has more. If these rows need no more than a temperature, 2 G is distributed
    as :math:`\chi^2_d`, with mean d and standard deviation :math:`\sqrt{2 d}`: a gain below
    the sum of both is taken for noise, and a greater one for noise in part.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseCalibrator._parameter_constraints,
        "shrinkage": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self, *, shrinkage: Any = "auto", input: Input = "proba", eps: Any = "auto"
    ) -> None:
        super().__init__(input=input, eps=eps)
        self.shrinkage = shrinkage

    @abstractmethod
    def _n_parameters(self, learned: Any) -> int:
        """Return how many parameters one curve has."""

    def _fit(self, log_proba: FloatArray, codes: IntArray, weights: FloatArray) -> float | None:
        mapped = self._fit_maps(log_proba, codes, weights)
        self.temperature_ = find_temperature(log_proba, codes, weights)[0]
        self.shrinkage_ = self.shrinkage
        if self.shrinkage != "auto":
            return None
        tempered = log_proba / self.temperature_
        before, after = (mean_log_loss(part, codes, weights) for part in (tempered, mapped))
        gain = weights.sum() * (before - after)
        sizes = [self._n_parameters(one) for one in self.maps_ if one is not None]
        extra = max(sum(sizes) - 1, 0)  # rows of a single class have no curve at all
        noise = extra + np.sqrt(2 * extra)
        self.shrinkage_ = 1.0 if 2 * gain <= noise else float(noise / (2 * gain))
        return mean_log_loss(self._blend(mapped, tempered), codes, weights)

    def _blend(self, mapped: FloatArray, tempered: FloatArray) -> FloatArray:
        # The sum of two logarithms is known up to a constant per row as they are.
        return (1 - self.shrinkage_) * mapped + self.shrinkage_ * tempered

    def _transform(self, log_proba: FloatArray) -> FloatArray:
        if self.shrinkage_ == 1:
            return log_proba / self.temperature_
        mapped = super()._transform(log_proba)
        if self.shrinkage_ == 0:
            return mapped
        return self._blend(mapped, log_proba / self.temperature_)


def smoothed_targets(hit: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Platt's targets: outcomes pulled off 0 and 1 by one row of each kind."""
    positive = weights @ hit
    negative = weights.sum() - positive
    return np.where(hit > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))
