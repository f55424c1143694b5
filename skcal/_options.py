"""Options that several rooms share: checked, or refused with a way out."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from math import inf
from numbers import Integral, Real
from typing import Any


def find_name(name: Any, names: Collection[str], argument: str, otherwise: str = "") -> str:
    """Return a name that is among the known ones, or say which one is near."""
    if isinstance(name, str) and name in names:
        return name
    near = get_close_matches(str(name), list(names), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(map(repr, names)) + (f" or {otherwise}" if otherwise else "")
    raise ValueError(f"{argument} must be one of {listed}; got {name!r}.{hint}")


def check_whole(value: Any, name: str, least: int = 1, *, hint: str = "") -> int:
    """Return a whole number that is large enough."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(
            f"{name} must be a whole number of at least {least}; got {value!r}."
            + (f" {hint}" if hint else "")
        )
    return int(value)


def check_level(confidence_level: Any) -> float:
    """Return the level of an interval."""
    return check_share(confidence_level, "confidence_level")


def check_share(value: Any, name: str) -> float:
    """Return a number strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must be strictly between 0 and 1; got {value!r}.")
    return float(value)


def check_positive(value: Any, name: str, unit: str = "") -> float:
    """Return a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {value!r}.")
    number = float(value)
    if not 0 < number < inf:
        told = f", {unit}" if unit else ""
        raise ValueError(f"{name} must be positive and finite{told}; got {number}.")
    return number
