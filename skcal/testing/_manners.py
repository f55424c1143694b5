"""Checks of what scikit-learn expects of an object: copies, parameters, state."""

from __future__ import annotations

import json
import os
import pickle
import random
import sys
import warnings
from typing import Any
from unittest import SkipTest

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

import skcal.calibration
from skcal.calibration import BaseCalibrator
from skcal.testing._local import of_scores_alone
from skcal.testing._tools import (
    draw_proba,
    fit,
    fresh,
    log_loss,
    require,
    require_close,
    require_equal,
    require_simplex,
    torch_if_any,
)


def check_clone_is_unfitted(calibrator: Any) -> None:
    """Clones have the parameters and nothing else; fitted alike they answer alike."""
    proba, y = draw_proba(100, 3)
    fitted = fit(calibrator, proba, y)
    copy = clone(fitted)
    require(_same(copy.get_params(), fitted.get_params()), "a clone has other parameters")
    for name in ("predict_proba", "predict"):
        try:
            getattr(copy, name, _unfitted)(proba)
        except NotFittedError:
            continue
        raise AssertionError(f"{name} of an unfitted calibrator must raise NotFittedError")
    again = copy.fit(proba, y).predict_proba(proba)
    require_equal(again, fitted.predict_proba(proba), "two fits on the same rows differ")


def check_parameters_can_be_set(calibrator: Any) -> None:
    """``set_params`` takes what ``get_params`` gives, and refuses what does not exist."""
    proba, y = draw_proba(100, 3)
    copy = fresh(calibrator)
    parameters = copy.get_params(deep=False)
    require(copy.set_params(**parameters) is copy, "set_params must return the object")
    require(copy.fit(proba, y) is copy, "fit must return the object")
    after = copy.get_params(deep=False)
    for name, value in parameters.items():
        require(after[name] is value, f"fit replaces its parameter {name}")
        require(
            not isinstance(value, BaseEstimator) or not hasattr(value, "classes_"),
            f"fit fits its parameter {name} instead of a clone of it",
        )
    try:
        copy.set_params(no_such_parameter=1)
    except ValueError:
        return
    raise AssertionError("set_params accepts a parameter that does not exist")


def check_pickle_keeps_the_answers(calibrator: Any) -> None:
    """Pickled calibrators answer bit for bit alike."""
    proba, y = draw_proba(100, 3)
    fitted = fit(calibrator, proba, y)
    kind = type(calibrator)
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is not kind:
        raise SkipTest(f"no module holds {kind.__qualname__}, so that pickle cannot find it")
    copy = pickle.loads(pickle.dumps(fitted))
    same = copy.predict_proba(proba)
    require_equal(same, fitted.predict_proba(proba), "the answer changes by pickling")


def check_dict_keeps_the_answers(calibrator: Any) -> None:
    """Dictionaries of ``to_dict`` go through JSON, and ``from_dict`` answers bit for bit alike."""
    if not hasattr(calibrator, "to_dict"):
        raise SkipTest(f"{type(calibrator).__name__} has no to_dict")
    readers = [type(calibrator)]
    if getattr(skcal.calibration, type(calibrator).__name__, None) is type(calibrator):
        readers.append(BaseCalibrator)  # which knows the classes of this package by name
    for k, names in [(2, [False, True]), (3, ["a", "b", "c"]), (4, [-1, 0, 7, 10**9])]:
        proba, codes = draw_proba(100, k)
        fitted = fit(calibrator, proba, np.array(names)[codes])
        text = json.dumps(fitted.to_dict())
        for reader in readers:
            copy = of_scores_alone(reader.from_dict(json.loads(text)))
            require(type(copy) is type(fitted), f"from_dict returns a {type(copy).__name__}")
            require(_same(copy.get_params(), fitted.get_params()), "from_dict loses parameters")
            require_equal(copy.classes_, fitted.classes_, "from_dict changes classes_")
            require(copy.classes_.dtype == fitted.classes_.dtype, "from_dict changes their type")
            same = copy.predict_proba(proba)
            require_equal(same, fitted.predict_proba(proba), "the answer changes in JSON")


def check_second_fit_forgets_the_first(calibrator: Any) -> None:
    """Fitting again, on another number of classes, is the same as fitting anew."""
    proba, y = draw_proba(100, 3)
    other, other_y = draw_proba(80, 2, seed=1)
    twice = fit(calibrator, proba, y).fit(other, other_y)
    once = fit(calibrator, other, other_y)
    same = twice.predict_proba(other)
    require_equal(same, once.predict_proba(other), "a second fit remembers the first")
    left = set(vars(twice)) ^ set(vars(once))
    require(not left, f"attributes differ after a second fit: {sorted(left)}")


def check_answers_do_not_depend_on_the_batch(calibrator: Any) -> None:
    """One row is answered as in a batch of any size and order."""
    proba, y = draw_proba(200, 3, temperature=2.0)
    fitted = fit(calibrator, proba, y)
    batch = fitted.predict_proba(proba)
    for part in (slice(0, 1), slice(17, 18), slice(50, 150), slice(None, None, -1)):
        what = f"rows {part} are answered differently from the whole batch"
        require_close(fitted.predict_proba(proba[part]), batch[part], what, atol=0, rtol=1e-12)


def check_reported_values(calibrator: Any) -> None:
    """Losses and counts of :class:`skcal.calibration.BaseCalibrator` are what they say."""
    if not isinstance(calibrator, BaseCalibrator):
        raise SkipTest(f"{type(calibrator).__name__} does not derive from BaseCalibrator")
    proba, y = draw_proba(500, 3, temperature=2.0)
    for repeats in (np.ones(500, dtype=int), np.random.default_rng(0).integers(0, 3, 500)):
        fitted = fit(calibrator, proba, y, repeats)
        rows, labels = np.repeat(proba, repeats, axis=0), np.repeat(y, repeats)
        after = log_loss(labels, fitted.predict_proba(rows))
        require_close(fitted.loss_, after, "loss_ is not the log-loss on the rows", atol=1e-12)
        before = log_loss(labels, rows)
        what = "baseline_loss_ is not the log-loss without calibration"
        require_close(fitted.baseline_loss_, before, what, atol=1e-12)
        require(fitted.converged_ is True, "converged_ is not True on ordinary rows")
        n_iter = fitted.n_iter_
        require(isinstance(n_iter, int) and n_iter >= 1, f"n_iter_ is {n_iter!r}, not 1, 2, ...")
        require(fitted.n_features_in_ == 3, f"n_features_in_ is {fitted.n_features_in_}, not 3")


def check_inputs_are_left_alone(calibrator: Any) -> None:
    """Scores, labels and weights are not written to."""
    proba, y = draw_proba(200, 3)
    proba, y = np.vstack([proba, np.eye(3)]), np.r_[y, 1, 2, 0]
    inputs = (proba, y, np.ones(len(y)))
    kept = [array.copy() for array in inputs]
    for locked in (False, True):  # locked: as memory-mapped arrays are
        for array in inputs:
            array.flags.writeable = not locked
        require_simplex(fit(calibrator, *inputs).predict_proba(proba), len(y), 3)
        for array, before in zip(inputs, kept, strict=True):
            require_equal(array, before, "fit or predict_proba changes what it was given")


def check_process_is_left_alone(calibrator: Any) -> None:
    """Warning filters, error handling, generators, threads and settings stay as they were."""
    proba, y = draw_proba(200, 3)
    proba, y = np.vstack([proba, np.eye(3)]), np.r_[y, 1, 2, 0]
    # Known settings, so that any change shows; what is changed is put back here.
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.resetwarnings()
        before = _process_state()
        fit(calibrator, proba, y, np.ones(len(y))).predict_proba(proba)
        after = _process_state()
    changed = [name for name, state in before.items() if after[name] != state]
    require(not changed, f"fit or predict_proba changes the whole process: {changed}")


def _process_state() -> dict[str, Any]:
    torch = torch_if_any()  # which makes changes of its own when it is first loaded
    state: dict[str, Any] = {
        "warnings.filters": list(warnings.filters),
        "numpy.geterr()": np.geterr(),
        "numpy's print options": np.get_printoptions(),
        "numpy's global generator": pickle.dumps(np.random.get_state()),  # noqa: NPY002
        "the generator of random": random.getstate(),
        "sklearn.get_config()": sklearn.get_config(),
        "os.environ": dict(os.environ),
    }
    if torch is not None:
        state["torch's generator"] = torch.get_rng_state().numpy().tobytes()
        state["torch's threads"] = torch.get_num_threads()
        state["torch's default type"] = torch.get_default_dtype()
    return state


def _unfitted(*_: Any) -> None:
    """Stand in for a method that a calibrator need not have."""
    raise NotFittedError


def _same(one: Any, other: Any) -> bool:
    """Tell whether parameters are equal; estimators are if their parameters are."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):  # alike in JSON
        return len(one) == len(other) and all(map(_same, one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if hasattr(one, "get_params") and not isinstance(one, type):
        return _same(one.get_params(deep=False), other.get_params(deep=False))
    return bool(one == other)
