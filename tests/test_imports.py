"""What importing costs, and which part of the package may know which."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import skcal

HEAVY = ("lightgbm", "matplotlib", "optuna", "skorch", "torch", "umap")


def run(code):
    """Run code in a fresh process, where warnings are errors, and return what it prints."""
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def loaded_by(statement, names, before=""):
    """Return which of some packages a statement loads."""
    code = (
        f"import sys\n{before}\n{statement}\nprint(*(n for n in {names!r} if sys.modules.get(n)))"
    )
    return run(code).split()


def test_the_package_alone_loads_nothing():
    packages = [*HEAVY, "numpy", "pandas", "scipy", "sklearn"]
    assert loaded_by("import skcal; dir(skcal); skcal.__version__", packages) == []


def test_only_networks_need_torch_and_only_pictures_need_matplotlib():
    # scikit-learn loads pandas by itself where it is installed. An entry of None makes every
    # import of it fail, so that a module that needs it does not load.
    code = f"""
import importlib, sys
sys.modules["pandas"] = None
names = "calibrated calibration cli datasets decisions demo metrics plots tabular testing tuning"
for name in names.split():
    importlib.import_module(f"skcal.{{name}}")
    for heavy in {HEAVY!r}:
        assert heavy not in sys.modules, f"skcal.{{name}} loads {{heavy}}"
"""
    run(code)


def test_using_calibration_and_metrics_on_arrays_loads_no_more():
    statement = """
import numpy as np
from sklearn.linear_model import LogisticRegression
from skcal import CalibratedClassifier, TabularEncoder, TemperatureScaling
from skcal.datasets import make_calibration_data
from skcal.metrics import brier_score_loss, expected_calibration_error, log_loss
from skcal.metrics import reliability_curve
X, y, proba = make_calibration_data(200, random_state=0)
X = TabularEncoder().fit_transform(X)
for name in ("temperature", "sigmoid", "isotonic"):
    p = CalibratedClassifier(LogisticRegression(), name, cv=3).fit(X, y).predict_proba(X)
TemperatureScaling().fit(proba, y).predict_proba(proba)
brier_score_loss(y, p), expected_calibration_error(y, p), log_loss(y, p), reliability_curve(y, p)
"""
    assert loaded_by(statement, HEAVY) == []


def test_networks_load_torch_when_they_are_first_used():
    statement = "import skcal; assert not sys.modules.get('torch'); skcal.NeSCalMLP"
    assert loaded_by(statement, ("matplotlib", "torch", "umap")) == ["torch"]


# --- The names of the package -----------------------------------------------------------


def test_dir_is_the_public_names():
    assert dir(skcal) == sorted(skcal.__all__)
    assert len(set(skcal.__all__)) == len(skcal.__all__)


def test_every_public_name_resolves_in_a_fresh_process():
    code = """
from skcal import *
import skcal
for name in skcal.__all__:
    assert globals()[name] is getattr(skcal, name), name
    print(name)
"""
    assert run(code).split() == skcal.__all__


def test_a_room_is_an_attribute_without_its_own_import():
    assert run("import skcal; print(skcal.metrics.brier_score_loss([0, 1], [0, 1]))") == "0.0"


@pytest.mark.parametrize("name", ["NeSCal", "nothing", "__nothing__", "_HOME"])
def test_unknown_name(name):
    with pytest.raises(AttributeError, match=f"module 'skcal' has no attribute '{name}'"):
        getattr(skcal, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}'"):
        exec(f"from skcal import {name}", {})


def test_types_are_shipped():
    assert (Path(skcal.__file__).parent / "py.typed").is_file()


# --- Rooms ------------------------------------------------------------------------------

# A room imports only from rooms above it in this list.
ROOMS = [
    "_version",
    "_options",
    "_progress",
    "_repeats",
    "datasets",
    "_rows",
    "_neighbors",
    "_validation",
    "calibration",
    "metrics",
    "testing",
    "tabular",
    "calibrated",
    "decisions",
    "plots",
    "neural",
    "diagnostics",
    "tuning",
    "experiments",
    "demo",
    "cli",
    "__main__",
]

# Who may import what besides the standard library, numpy, scipy and scikit-learn; wherever
# in the file the import stands.
GUESTS = {
    # The suite tries tensors; local maps that are networks load torch inside their fit.
    "torch": {"neural", "diagnostics", "testing", "calibration"},
    "skorch": {"neural"},
    "tabm": {"neural"},
    "rtdl_num_embeddings": {"neural"},
    "umap": {"neural"},
    "label_relaxation": {"neural"},
    "lightgbm": {"calibration"},
    "optuna": {"tuning", "experiments"},
    "joblib": {"tuning", "experiments"},
    "pydantic": {"experiments"},
    "distributed": {"experiments", "cli"},
    "narwhals": {"tabular"},
    "pandas": {"datasets", "metrics", "tabular", "experiments", "demo", "testing"},
    # The demo and experiments save their reports' pictures, tuning those that Optuna draws.
    "matplotlib": {"plots", "demo", "tuning", "experiments"},
    "plotly": {"tuning"},
    "threadpoolctl": {"experiments", "cli"},
    "tqdm": {"cli"},
}
EVERYONE = {*sys.stdlib_module_names, "numpy", "scipy", "sklearn"}

PACKAGE = Path(skcal.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    """Return the dotted names that a file imports, anywhere in it."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively in line {node.lineno}"
            if node.module == "skcal":
                found += [f"skcal.{alias.name}" for alias in node.names]
            else:
                found.append(node.module)
    return found


def test_every_room_has_its_place():
    assert {room_of(path) for path in SOURCES} - {"__init__"} == set(ROOMS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_knows_only_the_rooms_above_it(path):
    room = room_of(path)
    for name in imports(path):
        package, _, rest = name.partition(".")
        if package == "skcal":
            if room == "__init__":
                continue  # the door to all rooms
            other = rest.partition(".")[0]
            assert other == room or other in ROOMS[: ROOMS.index(room)], name
        elif package not in EVERYONE:
            assert room in GUESTS.get(package, ()), name


# --- Inside a room ----------------------------------------------------------------------

# Rooms whose docstring lists their parts, files or folders, from the ground up.
MAPPED = [
    "calibration",
    "metrics",
    "calibrated",
    "plots",
    "neural",
    "diagnostics",
    "tuning",
    "experiments",
]


@pytest.mark.parametrize("room", MAPPED)
def test_a_part_of_a_room_knows_only_the_parts_above_it(room):
    parts = re.findall(r"^- ``(\w+)``: ", import_module(f"skcal.{room}").__doc__, re.MULTILINE)
    inside = {path.relative_to(PACKAGE / room): path for path in SOURCES if room_of(path) == room}
    assert sorted(parts) == sorted({p.parts[0].removesuffix(".py") for p in inside} - {"__init__"})
    for place, path in inside.items():
        part = place.parts[0].removesuffix(".py")
        above = parts if part == "__init__" else parts[: parts.index(part) + 1]
        for name in imports(path):
            if name == f"skcal.{room}" or name.startswith(f"skcal.{room}."):
                other = [*name.split("."), ""][2]
                assert other in above, f"{place} imports {name}"


# Private modules of these rooms that other rooms use, besides what is public.
SHARED = {
    "calibrated._folds",
    "calibrated._pooling",
    "calibrated._scores",
    "calibration._fitting.folds",
    "calibration._fitting.temperature",
    "metrics._bins",
    "metrics._decisions.cost_matrix",
    "metrics._errors.smooth",
    "metrics._events",
}


def test_rooms_share_little_that_is_private():
    used = set()
    for path in SOURCES:
        for name in imports(path):
            place = name.removeprefix("skcal.")
            room = place.partition(".")[0]
            if room in MAPPED and room != room_of(path) and "._" in place:
                used.add(place)
    assert used == SHARED
