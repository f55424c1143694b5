"""What the package makes public, found by walking it: nothing here is listed by hand."""

from importlib import import_module
from inspect import isabstract, isclass, isfunction
from pkgutil import walk_packages

from sklearn.base import BaseEstimator

import skcal


def public_modules():
    """Return every module without an underscore in its path, the package first."""
    names = [module.name for module in walk_packages(skcal.__path__, "skcal.")]
    return [skcal, *(import_module(name) for name in names if "._" not in name)]


def public_objects():
    """Return the classes and functions of every ``__all__``, by their shortest path."""
    found = {}
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if isclass(thing) or isfunction(thing):
                found.setdefault(thing, f"{module.__name__}.{name}")
    return {path: thing for thing, path in found.items()}


def public_estimators():
    """Return the concrete estimator classes of the public modules, exported or not."""
    return {
        thing
        for module in public_modules()
        for name, thing in vars(module).items()
        if isclass(thing)
        and issubclass(thing, BaseEstimator)
        and (thing.__module__ == module.__name__ or name in getattr(module, "__all__", ()))
        and not isabstract(thing)
        and not name.startswith("_")
    }
