"""All checks, and running them on one calibrator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Literal
from unittest import SkipTest

from skcal.testing import _answers, _classes, _manners, _scores, _weights

Check = Callable[[Any], None]

# What concerns copies comes first: all other checks work on clones.
_MODULES = (_manners, _classes, _scores, _weights, _answers)


def calibrator_checks() -> list[Check]:
    """Return the checks that :func:`check_calibrator` runs, in their order.

    Returns
    -------
    list of functions
        Each takes an unfitted calibrator, works on clones of it, and raises an
        AssertionError, or the error that the calibrator raised, if it does not hold. Its
        docstring says what it asks for. One that does not apply raises ``unittest.SkipTest``,
        which pytest understands.

    Examples
    --------
    >>> from skcal import TemperatureScaling
    >>> from skcal.testing import calibrator_checks
    >>> first = calibrator_checks()[0]
    >>> first.__name__
    'check_clone_is_unfitted'
    >>> first(TemperatureScaling())

    With pytest, each as a test of its own::

        @pytest.mark.parametrize("check", calibrator_checks())
        def test_my_calibrator(check):
            check(MyCalibrator())
    """
    return [
        thing
        for module in _MODULES
        for name, thing in vars(module).items()
        if name.startswith("check_")
    ]


def check_calibrator(
    calibrator: Any,
    *,
    expected_failed_checks: dict[str, str] | None = None,
    on_fail: Literal["raise"] | None = "raise",
) -> list[dict[str, Any]]:
    """Check that a calibrator does what every calibrator of this package does.

    About fifty checks: answers inside the simplex for any number of rows and classes, labels,
    types and containers of all kinds, what must be refused and how, weights that equal
    repetition, clones, pickles and JSON, no trace left in the process, and that calibration
    helps where it should and harms nowhere. Some seconds for a fast map.

    Parameters
    ----------
    calibrator : calibrator
        An unfitted instance of a subclass of :class:`skcal.calibration.BaseCalibrator`, or
        another object with ``fit(scores, y, sample_weight=None, *, classes=None)``,
        ``predict_proba(scores)`` and ``get_params``. It is given probabilities; logits as
        well if it has a parameter ``input``. A parameter ``random_state`` of None becomes 0.
        A :class:`~skcal.calibration.LocalCalibrator` is told features made of the scores.
    expected_failed_checks : dict of str to str, optional
        Names of checks that fail, and why they may. One that passes is a failure: the
        reason no longer holds.
    on_fail : "raise" or None, default="raise"
        Whether to stop at the first failure, or to go through all checks and return.

    Returns
    -------
    list of dict
        For each check: ``check_name``; ``status``, which is "passed", "failed", "xfail" (as
        expected) or "skipped" (does not apply); ``exception``, or None; ``reason``, that of
        the expected failure or of the skip, or None.

    Raises
    ------
    AssertionError
        If a check fails and ``on_fail="raise"``. Errors of the calibrator itself are raised
        as they are, with a note of the check.
    ValueError
        If an expected failure is not the name of a check, or ``on_fail`` is something else.
    TypeError
        If a class is given instead of an instance.

    See Also
    --------
    calibrator_checks : The same checks one by one, for pytest.

    Examples
    --------
    >>> from skcal import TemperatureScaling
    >>> from skcal.testing import check_calibrator
    >>> results = check_calibrator(TemperatureScaling())
    >>> {result["status"] for result in results}
    {'passed'}
    """
    if isinstance(calibrator, type):
        raise TypeError(f"Pass an instance: {calibrator.__name__}(), not the class.")
    if on_fail not in ("raise", None):
        raise ValueError(f"on_fail must be 'raise' or None; got {on_fail!r}.")
    expected = dict(expected_failed_checks or {})
    checks = {check.__name__: check for check in calibrator_checks()}
    for name in expected.keys() - checks.keys():
        near = get_close_matches(name, checks, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"expected_failed_checks: there is no check {name!r}.{hint}")
    results = []
    for name, check in checks.items():
        result = _run(check, calibrator, expected.get(name))
        if result["status"] == "failed" and on_fail == "raise":
            result["exception"].add_note(f"{name} failed for {calibrator!r}.")
            raise result["exception"]
        results.append(result)
    return results


def _run(check: Check, calibrator: Any, expected: str | None) -> dict[str, Any]:
    """Run one check, whose warning filters do not outlive it, and say how it went."""
    status, exception, reason = "passed", None, expected
    try:
        with warnings.catch_warnings():
            check(calibrator)
    except SkipTest as skipped:
        status, reason = "skipped", str(skipped)
    except Exception as error:
        status, exception = ("xfail" if expected else "failed"), error
    else:
        if expected:
            status = "failed"
            exception = AssertionError(
                f"{check.__name__} was expected to fail ({expected}), and passes: take it off "
                "expected_failed_checks"
            )
    return {
        "check_name": check.__name__,
        "status": status,
        "exception": exception,
        "reason": reason,
    }
