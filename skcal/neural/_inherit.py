"""Parameters of a base class, in the signature and the documentation of the class below it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from inspect import Parameter, cleandoc, signature
from typing import Any, TypeVar

T = TypeVar("T", bound=type)

_HEADING = re.compile(r"^(.+)\n-{3,}$\n", re.MULTILINE)


def with_parameters_of(parent: type, *, without: Collection[str] = ()) -> Callable[[T], T]:
    """Give a class the parameters of its base in signature and docstring.

    Its ``__init__`` takes them as ``**kwargs``. Written out again they would be a hundred lines
    that have to be kept in step; left out, neither ``help`` nor completion nor scikit-learn's
    ``repr`` would know them.

    Parameters
    ----------
    parent : type
        Whose keyword parameters, and attributes, follow those of the class.
    without : collection of str
        Parameters that the class does not take.

    Returns
    -------
    class decorator
    """

    def decorate(cls: T) -> T:
        init: Any = vars(cls)["__init__"]
        own = [p for p in signature(init).parameters.values() if p.kind != Parameter.VAR_KEYWORD]
        known = {p.name for p in own} | {*without}
        more = [
            p
            for p in signature(parent).parameters.values()
            if p.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD) and p.name not in known
        ]
        init.__signature__ = signature(init).replace(parameters=own + more)
        names = ["**" + p.name if p.kind == Parameter.VAR_KEYWORD else p.name for p in more]
        cls.__doc__ = _merge(cls.__doc__ or "", parent.__doc__ or "", names)
        return cls

    return decorate


def _merge(doc: str, parent: str, parameters: list[str]) -> str:
    """Return a docstring with the parent's entries of some parameters, and its attributes."""
    sections, of_parent = _sections(doc), _sections(parent)
    asked, inherited = (_entries(part["Parameters"]) for part in (sections, of_parent))
    asked.pop("**kwargs", None)
    asked |= {name: inherited[name] for name in parameters}
    sections["Parameters"] = _text(asked)
    attributes = _entries(of_parent["Attributes"]) | _entries(sections["Attributes"])
    sections["Attributes"] = _text(attributes)
    return "".join(
        text if not heading else f"{heading}\n{'-' * len(heading)}\n{text}"
        for heading, text in sections.items()
    )


def _text(entries: dict[str, str]) -> str:
    """Return the entries one after the other; one with two names comes once."""
    return "".join(dict.fromkeys(entries.values())) + "\n"


def _sections(doc: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by heading; the summary's is empty."""
    parts = _HEADING.split(cleandoc(doc) + "\n")
    return dict(zip(["", *parts[1::2]], parts[0::2], strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the names before their colons."""
    texts = re.split(r"^(?=\S)", section.strip("\n") + "\n", flags=re.MULTILINE)
    entries = {}
    for text in filter(None, texts):
        for name in text.split("\n")[0].partition(" : ")[0].split(", "):
            entries[name] = text
    return entries
