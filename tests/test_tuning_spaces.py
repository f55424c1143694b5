"""The spaces that skcal knows: complete, valid from end to end, and found at any depth."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from _public import public_estimators
from optuna.distributions import CategoricalDistribution
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcal import CalibratedClassifier, DeepEnsembleClassifier, NeSCalClassifier, NeSCalMLP
from skcal import calibration as calibrators
from skcal import neural as networks
from skcal.calibration import BaseCalibrator, LocalCalibrator
from skcal.neural.losses import LOSS_NAMES
from skcal.tuning import OptunaSearch, space_for

# Whose log-loss has nothing to choose: closed forms, one-parameter maps with a default that
# bounds them, and those that choose by themselves or wrap another.
NOTHING = {
    "AutoCalibration",
    "EnsembleTemperatureScaling",
    "IdentityCalibration",
    "OneVsRestCalibration",
    "PlattScaling",
    "PriorCorrection",
    "QuadraticScaling",
    "TemperatureScaling",
    "VennAbersCalibration",
}
CALIBRATORS = sorted(
    (c for c in public_estimators() if issubclass(c, BaseCalibrator)), key=lambda c: c.__name__
)
NETWORKS = [
    networks.NetClassifier,
    networks.NeSCalClassifier,
    networks.NeSCalMLP,
    networks.MultiHeadClassifier,
    networks.MultiHeadMLP,
]


def ends(distribution):
    """Return the values at the ends of a distribution, or all of a choice."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    return distribution.low, distribution.high


def each_end(space):
    return [{name: value} for name, values in space.items() for value in ends(values)]


def test_every_calibrator_has_a_space_or_is_known_to_need_none():
    without = {cls.__name__ for cls in CALIBRATORS if not space_for(cls())}
    assert without == NOTHING


def test_every_network_has_a_space():
    named = {c for c in public_estimators() if c.__module__.startswith("skcal.neural")}
    assert named == {*NETWORKS, DeepEnsembleClassifier}
    for cls in NETWORKS:
        assert {"lr", "weight_decay"} <= set(space_for(cls()))
    assert set(space_for(DeepEnsembleClassifier(NeSCalMLP()))) == {
        f"estimator__{name}" for name in space_for(NeSCalMLP())
    }


@pytest.mark.parametrize("cls", CALIBRATORS, ids=lambda cls: cls.__name__)
def test_calibrators_fit_at_the_ends_of_their_spaces(cls):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1, 1], 90)
    features = rng.normal(size=(90, 4))
    y = np.tile([0, 1, 2], 30)
    for params in each_end(space_for(cls())):
        one = cls(**params)
        is_local = isinstance(one, LocalCalibrator)
        if is_local:
            one.set_params(fallback=False)
        for name, few in {"max_epochs": 2, "n_steps": 5}.items():
            if name in one.get_params():
                one.set_params(**{name: few})
        given = {"features": features} if is_local else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            answer = one.fit(proba, y, **given).predict_proba(proba, **given)
        assert np.isfinite(answer).all()


@pytest.mark.parametrize("cls", NETWORKS, ids=lambda cls: cls.__name__)
def test_networks_fit_at_the_ends_of_their_spaces(cls):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.tile([0, 1, 2], 20)
    for params in each_end(space_for(cls())):
        one = cls(max_epochs=2, warmup=1) if "warmup" in cls().get_params() else cls(max_epochs=2)
        one.set_params(random_state=0, **params).fit(X, y)
        assert np.isfinite(one.predict_proba(X)).all()


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("parameter", ["loss", "criterion"])
def test_a_named_loss_is_tuned_over_its_parameters(loss, parameter):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.tile([0, 1, 2], 20)
    cls = {"loss": NeSCalMLP, "criterion": NeSCalClassifier}[parameter]
    plain = cls(smoothing=0, max_epochs=1, random_state=0)
    if parameter == "loss":
        plain.set_params(n_members=1, num_embedding=None)
    model = clone(plain).set_params(**{parameter: loss})
    space = {n: v for n, v in space_for(model).items() if n not in space_for(plain)}
    assert all(name.startswith(f"{parameter}__") for name in space)
    assert bool(space) is (loss not in ("cross_entropy", "brier"))
    for params in each_end(space):
        clone(model).set_params(**params).fit(X, y)


def test_plain_cross_entropy_is_always_in_the_space_of_nescal():
    for cls in NETWORKS[1:3]:
        assert 0 in space_for(cls())["smoothing"].choices
        assert "smoothing" not in space_for(cls(smoothing=0))
    for cls in NETWORKS[3:]:
        assert "smoothing" not in space_for(cls())
        assert 0 in space_for(cls(smoothing=1))["smoothing"].choices


def test_spaces_are_small():
    for cls in [*CALIBRATORS, *NETWORKS]:
        assert len(space_for(cls())) <= 5


def test_spaces_are_found_at_any_depth():
    net = NeSCalMLP(loss="focal")
    model = make_pipeline(
        StandardScaler(), CalibratedClassifier(net, calibrators.StructuredMatrixScaling())
    )
    expected = {f"calibratedclassifier__estimator__{name}" for name in space_for(net)}
    assert set(space_for(model)) == expected | {"calibratedclassifier__calibrator__reg"}
    vote = VotingClassifier([("a", net), ("b", LogisticRegression())])
    assert set(space_for(vote)) == {f"a__{name}" for name in space_for(net)}


def test_what_is_frozen_is_left_alone():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), np.tile([0, 1, 2], 30)
    net = NeSCalMLP(preset="fast", max_epochs=1, random_state=0)
    assert space_for(FrozenEstimator(net)) == {}
    frozen = CalibratedClassifier(FrozenEstimator(net.fit(X, y)), calibrators.VectorScaling())
    assert set(space_for(frozen)) == {"calibrator__reg"}
    vote = VotingClassifier([("a", FrozenEstimator(net)), ("ab", net)])
    assert set(space_for(vote)) == {f"ab__{name}" for name in space_for(net)}
    found = OptunaSearch(frozen, n_trials=2, cv=2, random_state=0).fit(X, y)
    assert set(found.cv_results_["state"]) == {"COMPLETE"}


def test_heads_that_weigh_alike_have_no_weight():
    for cls in NETWORKS[3:]:
        without = set(space_for(cls())) - set(space_for(cls(weighting="none")))
        assert without == {"head_weight"}


def test_a_subclass_may_have_parameters_of_the_names_of_ours():
    class Mine(networks.NetClassifier):
        smoothing = 0.0

    assert space_for(Mine()) == space_for(networks.NetClassifier())


def test_a_subclass_is_tuned_as_its_parent():
    class Mine(calibrators.VectorScaling):
        pass

    assert space_for(Mine()) == space_for(calibrators.VectorScaling())


def test_a_class_of_the_same_name_from_elsewhere_is_left_alone():
    namespace = {"__module__": "elsewhere", "get_params": lambda self, deep=True: {}}
    assert space_for(type("VectorScaling", (), namespace)()) == {}


def test_the_space_is_the_users_own():
    space = space_for(NeSCalMLP())
    space.clear()
    assert space_for(NeSCalMLP())


def test_every_parameter_of_a_space_is_one_of_the_estimator():
    for cls in [*CALIBRATORS, *NETWORKS]:
        model = cls()
        assert set(space_for(model)) <= set(model.get_params())


def test_auto_is_the_space_of_the_estimator():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), np.tile([0, 1, 2], 30)
    model = CalibratedClassifier(LogisticRegression(), calibrators.VectorScaling(), cv=2)
    found = OptunaSearch(model, n_trials=3, cv=2, random_state=0).fit(X, y)
    assert set(found.best_params_) == {"calibrator__reg"}
    assert len({params["calibrator__reg"] for params in found.cv_results_["params"]}) == 3


def test_auto_says_so_if_it_knows_nothing():
    with pytest.raises(ValueError, match="space='auto' knows nothing to tune in LogisticReg"):
        OptunaSearch(LogisticRegression()).fit([[0.0], [1.0]], [0, 1])


def test_the_page_lists_every_space():
    page = (Path(__file__).parents[1] / "docs" / "tuning.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for cls in [*CALIBRATORS, *NETWORKS[:3]]:
        told = [row for row in rows if f"`{cls.__name__}`" in row.split("|")[1]]
        assert len(told) == bool(space_for(cls()))
        for name in space_for(cls()):
            assert f"`{name}`" in told[0]
    for loss in LOSS_NAMES:
        told = [row for row in rows if f"`{loss}`" in row.split("|")[1]]
        names = set(space_for(NeSCalMLP(loss=loss))) - set(space_for(NeSCalMLP()))
        assert len(told) == bool(names)
        for name in names:
            assert f"`{name.removeprefix('loss__')}`" in told[0].split("|")[2]
