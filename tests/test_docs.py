"""Docstrings, pages and project files in step with the code."""

import re
from dataclasses import is_dataclass
from inspect import Parameter, cleandoc, getmembers, isabstract, isclass, isfunction, signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from _public import public_estimators, public_modules, public_objects
from optuna.distributions import FloatDistribution
from sklearn.linear_model import LogisticRegression

import skcal
from skcal.calibration import BaseCalibrator, DirichletCalibration, LocalCalibrator
from skcal.neural import NetClassifier
from skcal.tuning import OptunaSearch

ROOT = Path(__file__).parents[1]
OBJECTS = public_objects()
# What functions return: made by the package, not by its users.
RECORDS = [p for p, thing in OBJECTS.items() if is_dataclass(thing) or hasattr(thing, "_fields")]
RAISED = [p for p, thing in OBJECTS.items() if isclass(thing) and issubclass(thing, Exception)]
CALLED = [path for path in OBJECTS if path not in {*RECORDS, *RAISED}]


# --- Docstrings -------------------------------------------------------------------------


def sections(thing):
    """Return the parts of a numpydoc docstring by heading; the summary's heading is empty."""
    text = cleandoc(thing.__doc__ or "")
    parts = re.split(r"^(.+)\n-{3,}$\n?", text, flags=re.MULTILINE)
    headings = ["", *parts[1::2]]
    assert len(set(headings)) == len(headings), f"a section twice: {headings}"
    return dict(zip(headings, parts[0::2], strict=True))


def names_in(section):
    """Return the names that a section describes, those of 'a, b : type' apart."""
    entries = [line for line in section.splitlines() if line and not line.startswith(" ")]
    return [name for line in entries for name in line.partition(" : ")[0].split(", ")]


def names_of(parameters):
    stars = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
    return [stars.get(p.kind, "") + p.name for p in parameters]


def parameters_of(thing):
    given = list(signature(thing).parameters.values())
    return [parameter for parameter in given if parameter.name not in ("self", "cls")]


def public_methods():
    """Return the documented methods that the public classes define themselves."""
    return {
        f"{path}.{name}": member
        for path, thing in OBJECTS.items()
        if isclass(thing)
        for name, member in getmembers(thing, lambda member: callable(member) and member.__doc__)
        if not name.startswith("_") and getattr(member, "__module__", "").startswith("skcal.")
    }


@pytest.mark.parametrize("path", OBJECTS)
def test_summary_is_one_sentence(path):
    summary, _, rest = sections(OBJECTS[path])[""].partition("\n")
    assert re.fullmatch(r"[A-Z].{5,}\.", summary), summary
    assert not rest or rest.startswith("\n"), "the summary must be one line"


@pytest.mark.parametrize("path", CALLED)
def test_parameters_are_those_of_the_signature(path):
    documented = names_in(sections(OBJECTS[path]).get("Parameters", ""))
    assert documented == names_of(parameters_of(OBJECTS[path]))


@pytest.mark.parametrize("path", RECORDS)
def test_fields_of_records_are_explained(path):
    parts = sections(OBJECTS[path])
    explained = names_in(parts["Attributes"]) if "Attributes" in parts else parts[""].split()
    assert set(signature(OBJECTS[path]).parameters) <= set(explained)


@pytest.mark.parametrize("path", public_methods())
def test_parameters_of_methods_are_those_of_the_signature(path):
    method = public_methods()[path]
    parts = sections(method)
    assert parts[""].split("\n")[0].endswith(".")
    if "Parameters" in parts:
        documented = names_in(parts["Parameters"])
        expected = names_of(parameters_of(method))
        assert documented == [name for name in expected if name in documented or name[0] != "*"]


def is_to_be_called(path):
    room = path.split(".")[1]
    return not isabstract(OBJECTS[path]) and room in skcal.__all__


@pytest.mark.parametrize("path", [path for path in CALLED if is_to_be_called(path)])
def test_there_is_an_example(path):
    assert ">>> " in sections(OBJECTS[path]).get("Examples", "")


@pytest.mark.parametrize("path", [path for path in OBJECTS if isfunction(OBJECTS[path])])
def test_functions_say_what_they_return(path):
    assert sections(OBJECTS[path]).get("Returns", "").strip()


@pytest.mark.parametrize("path", OBJECTS)
def test_defaults_in_the_text_are_those_of_the_signature(path):
    entries = re.findall(r"^(\w+) : .*\bdefault=(.+)$", cleandoc(OBJECTS[path].__doc__ or ""), re.M)
    for name, text in entries:
        default = signature(OBJECTS[path]).parameters[name].default
        if isclass(default):
            assert text.rpartition(".")[2] == default.__qualname__
        else:
            told = eval(text)
            assert told is default or told == default, f"{name}: {text} is not {default!r}"


@pytest.mark.parametrize("module", public_modules(), ids=lambda module: module.__name__)
def test_modules_say_what_they_are_for(module):
    assert (module.__doc__ or "").strip()


# --- Attributes -------------------------------------------------------------------------

# State under public names that is not part of what the estimators promise.
INTERNAL = {
    "callbacks_",
    "classes_inferred_",
    "converged_",
    "criterion_",
    "cuda_dependent_attributes_",
    "init_context_",
    "maps_",
    "n_inputs_",
    "n_iter_",
    "optimizer_",
    "prefixes_",
}


# Local maps whose attributes depend on their parameters.
LOCAL_WAYS = {
    "ProximityCalibration": [{"method": "density_ratio"}, {"method": "bin_mean_shift"}],
    "VQDirichletCalibration": [
        {"n_codewords": 2, "base": "quantized_head"},
        {"n_codewords": 2, "parameterization": "dirichlet", "max_epochs": 2},
    ],
}


def fitted(cls):
    """Return estimators that together have everything that their documentation promises."""
    if not issubclass(cls, LocalCalibrator):
        return [fitted_once(cls)]
    rng = np.random.default_rng(0)
    Z, p = rng.normal(size=(400, 2)), rng.random(400)
    y = rng.random(400) < np.where(Z[:, 0] > 0, p, 1 - p)
    ways, table = LOCAL_WAYS.get(cls.__name__, [{}]), pd.DataFrame(Z, columns=["a", "b"])
    return [
        cls(random_state=0, fallback=fallback, **way).fit(p, y, features=table)
        for way in ways
        for fallback in (True, False)
    ]


def fitted_once(cls):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    if issubclass(cls, BaseCalibrator):
        chosen = {"reg_lambda": [0.1, 1.0]} if cls is DirichletCalibration else {}
        return cls(**chosen).fit(rng.dirichlet([1, 1], 40), y)
    X = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    if issubclass(cls, NetClassifier):
        has_graph = issubclass(cls, skcal.NeSCalClassifier)
        graph = {"smoothing": 1, "warmup": 1, "keep_graph": True} if has_graph else {}
        return cls(max_epochs=2, **graph).fit(X, y)
    if cls in (skcal.CalibratedClassifier, skcal.CostSensitiveClassifier):
        return cls(LogisticRegression()).fit(X, y)
    if cls is OptunaSearch:
        return cls(LogisticRegression(), {"C": FloatDistribution(0.1, 1)}, n_trials=1).fit(X, y)
    if cls is skcal.DeepEnsembleClassifier:
        return cls(skcal.NeSCalMLP(max_epochs=2), n_members=2).fit(X, y)
    return cls().fit(X, y)


@pytest.mark.parametrize("cls", sorted(public_estimators(), key=str), ids=lambda cls: cls.__name__)
def test_documented_attributes_are_the_fitted_ones(cls):
    documented = names_in(sections(cls).get("Attributes", ""))
    estimators = fitted(cls)
    having = {name for one in estimators for name in documented if hasattr(one, name)}
    assert set(documented) - having == set()
    found = {name for one in estimators for name in vars(one) if name.endswith("_")}
    assert {name for name in found - INTERNAL if name[0] != "_"} <= set(documented)


# --- Pages and project files --------------------------------------------------------------

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page_name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_code_on_pages_runs(page, tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    namespace = {"__name__": "__main__"}
    try:
        for block in FENCE.finditer(text):
            # Errors then point at the line of the page.
            lines = "\n" * text.count("\n", 0, block.start(1))
            exec(compile(lines + block[1], page_name(page), "exec"), namespace)
    finally:
        plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_nothing_is_left_to_fill_in(page):
    assert not re.search(
        r"\b(TODO|FIXME|TBD)\b|^[A-Z_]+$", page.read_text(encoding="utf-8"), re.MULTILINE
    )


def test_readme_has_code():
    assert len(FENCE.findall(PAGES[0].read_text(encoding="utf-8"))) >= 3


def anchors(page):
    """Return the anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=page_name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=page_name)
def test_public_names_on_pages_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`skcal\.([\w.]+)`", text):
        thing = skcal
        for part in name.split("."):
            thing = getattr(thing, part)


def test_changelog_names_every_public_class():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:skcal\.(?:\w+\.)*)?(\w+)", text))
    public = {name for name in skcal.__all__ if isclass(getattr(skcal, name))}
    assert public - named == set()


def test_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: \"?([\w.]+)\"?$", citation, re.MULTILINE)[1] == skcal.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", skcal.__version__)


def test_licence():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("BSD 3-Clause License")
    assert "Neither the name of the copyright holder" in " ".join(text.split())
