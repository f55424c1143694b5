"""What the estimator's ``fit`` and the splitter are given, with metadata routing and without."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import _routing_enabled, process_routing
from sklearn.utils.validation import has_fit_parameter

from skcal._validation import FloatArray


def route_params(
    model: Any,
    weights: FloatArray | None,
    groups: ArrayLike | None,
    fit_params: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the estimator's ``fit`` and the splitter get."""
    if _routing_enabled():
        if groups is not None and (model.cv is None or isinstance(model.cv, Integral)):
            raise ValueError(
                f"cv={model.cv!r} takes no account of groups; use cv=GroupKFold(), "
                "StratifiedGroupKFold() or a share (cv=0.2)."
            )
        offered = {"sample_weight": weights, "groups": groups, **fit_params}
        offered = {name: value for name, value in offered.items() if value is not None}
        routed = process_routing(model, "fit", **offered)
        return dict(routed.estimator.fit), dict(routed.splitter.split)
    estimator_params = dict(fit_params)
    if weights is not None:
        if has_fit_parameter(model.estimator, "sample_weight"):
            estimator_params["sample_weight"] = weights
        else:
            warnings.warn(
                f"{type(model.estimator).__name__} takes no sample_weight: it is trained "
                "without weights, and only the calibrator uses them.",
                UserWarning,
                stacklevel=3,
            )
    return estimator_params, {} if groups is None else {"groups": groups}
