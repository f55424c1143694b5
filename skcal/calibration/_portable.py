"""Fitted calibrators as plain dictionaries that JSON can hold."""

from __future__ import annotations

from inspect import isabstract, signature
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

FORMAT = 1
# JSON's keys are strings; a dictionary with others is written as pairs under this key.
_PAIRS = "pairs"


class Portable(BaseEstimator):
    """Estimators whose parameters and fitted attributes can be written down and read back."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted map as a dictionary of numbers, strings, lists and dictionaries.

        ``json.dumps`` takes it as it is, and :meth:`from_dict` gives back a map with the same
        answers, bit for bit.

        Returns
        -------
        dict
            "calibrator" is the name of the class, "format" the version of this layout,
            "parameters" what the constructor takes, "fitted" the fitted attributes. Arrays
            are nested lists.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If there is nothing to write.
        TypeError
            If a parameter or attribute is neither plain nor a calibrator.
        """
        check_is_fitted(self)
        return self._written()

    def _written(self) -> dict[str, Any]:
        """Return the dictionary; of a map that is not fitted, its parameters alone."""
        parameters = self.get_params(deep=False)
        attributes = sorted(vars(self).items()) if hasattr(self, "loss_") else []
        return {
            "calibrator": type(self).__name__,
            "format": FORMAT,
            "parameters": {name: _plain(value, name) for name, value in parameters.items()},
            "fitted": {
                name: _plain(value, name)
                for name, value in attributes
                if name.endswith("_") and not name.startswith("_")
            },
        }

    @classmethod
    def from_dict(cls, written: dict[str, Any]) -> Self:
        """Return the fitted map that :meth:`to_dict` wrote.

        Nothing is executed: the class is looked up by name among this package's calibrators,
        or is the class on which the method is called.

        Parameters
        ----------
        written : dict

        Returns
        -------
        calibrator
            Of the class that is named in ``written``.

        Raises
        ------
        ValueError
            If ``written`` is not such a dictionary, is of a newer format, or names a class
            that is unknown or other than the one it is called on.
        """
        found = _class_of(written, cls)
        defaults = {
            name: parameter.default for name, parameter in signature(found).parameters.items()
        }
        unknown = sorted(set(written["parameters"]) - set(defaults))
        if unknown:
            raise ValueError(
                f"{found.__name__} has no parameter {unknown[0]!r}; it has {sorted(defaults)}."
            )
        parameters = {
            name: _value(value, listed=list) for name, value in written["parameters"].items()
        }
        for name, value in parameters.items():  # JSON knows no tuples
            if isinstance(value, list) and isinstance(defaults[name], tuple):
                parameters[name] = tuple(value)
        calibrator = found(**parameters)
        calibrator._validate_params()
        for name, value in written["fitted"].items():
            if not isinstance(name, str) or not name.endswith("_") or name.startswith("_"):
                raise ValueError(f"{name!r} is not the name of a fitted attribute.")
            setattr(calibrator, name, _value(value, listed=_array))
        if written["fitted"]:
            _check_fitted(calibrator)
        return calibrator


def _check_fitted(calibrator: Any) -> None:
    """Refuse fitted attributes that cannot be those of a map."""
    classes = np.atleast_1d(getattr(calibrator, "classes_", []))
    n_columns = getattr(calibrator, "n_features_in_", None)
    numbers = [
        value
        for value in vars(calibrator).values()
        if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")
    ]
    if len(classes) != n_columns or not all(np.isfinite(value).all() for value in numbers):
        raise ValueError(
            f"What was fitted is damaged: {type(calibrator).__name__} needs finite numbers, and "
            f"as many classes as columns; there are {len(classes)} and {n_columns}."
        )


def _class_of(written: Any, cls: type) -> Any:
    """Return the class that a dictionary names, having looked at its layout."""
    parts = {"calibrator": str, "format": int, "parameters": dict, "fitted": dict}
    if not isinstance(written, dict) or any(
        not isinstance(written.get(part), kind) for part, kind in parts.items()
    ):
        raise ValueError(
            f"Expected a dictionary as written by to_dict, with {sorted(parts)}; got "
            f"{sorted(written) if isinstance(written, dict) else type(written).__name__}."
        )
    if written["format"] < 1:
        raise ValueError(f"There is no format {written['format']}.")
    if written["format"] > FORMAT:
        raise ValueError(
            f"The dictionary has format {written['format']}, and this version of skcal reads up "
            f"to {FORMAT}; update skcal."
        )
    name = written["calibrator"]
    found = cls if cls.__name__ == name else _own_classes().get(name)
    if found is None or isabstract(found):
        raise ValueError(
            f"{name!r} is no calibrator of skcal; if it is your own class, call its from_dict."
        )
    if not issubclass(found, cls):
        raise ValueError(f"The dictionary holds a {name}, not a {cls.__name__}.")
    return found


def _own_classes() -> dict[str, type[Portable]]:
    """Return this package's calibrators by name, all of which derive from :class:`Portable`."""
    found = Portable.__subclasses__()
    for one in found:  # which grows
        found += one.__subclasses__()
    room = __name__.rpartition(".")[0]
    return {one.__name__: one for one in found if one.__module__.startswith(f"{room}.")}


def _plain(value: Any, name: str) -> Any:
    """Return what JSON can hold."""
    if isinstance(value, Portable):
        return value._written()
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist(), name)
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(item, name) for key, item in value.items()}
        return {_PAIRS: [[_plain(key, name), _plain(item, name)] for key, item in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}, which plain JSON cannot hold.")


def _value(value: Any, *, listed: Any) -> Any:
    if isinstance(value, list):
        return listed([_value(item, listed=list) for item in value])
    if isinstance(value, dict):
        if {"calibrator", "format", "parameters", "fitted"} <= set(value):
            return Portable.from_dict(value)
        if value.keys() == {_PAIRS}:
            return {key: _value(item, listed=listed) for key, item in value[_PAIRS]}
        return {key: _value(item, listed=listed) for key, item in value.items()}
    return value


def _array(items: list[Any]) -> Any:
    """Return an array, or a list of them where they differ in length or are no numbers."""
    if any(item is None or isinstance(item, Portable | dict) for item in items):
        return [_array(item) if isinstance(item, list) else item for item in items]
    lengths = {len(item) if isinstance(item, list) else None for item in items}
    if len(lengths) > 1:
        return [_array(item) for item in items]
    if len({isinstance(item, str) for item in items}) > 1:
        return np.array(items, dtype=object)
    try:
        return np.array(items)
    except ValueError:  # ragged further down
        return [_array(item) for item in items]
