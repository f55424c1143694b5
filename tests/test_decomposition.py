"""Parts of proper scores: by hand, by model-diagnostics' numbers, by known truth."""

import numpy as np
import pytest

from skcal.calibration import IsotonicCalibration, TemperatureScaling
from skcal.datasets import make_calibration_data
from skcal.metrics import ScoreDecomposition, brier_score_loss, log_loss, score_decomposition

SCORES = ("log_loss", "brier")
METHODS = ("recalibration", "binned", "isotonic")


def binary(n=200, seed=0):
    rng = np.random.default_rng(seed)
    p = np.round(rng.uniform(0.02, 0.98, n), 2)
    return (rng.uniform(size=n) < p**1.5).astype(int), p, rng.integers(0, 4, n)


def sharpened(p, power=2.0):
    return p**power / (p**power).sum(axis=1, keepdims=True)


# --- The parts add up ---------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("score", SCORES)
def test_parts_add_up(score, method):
    y, p, weights = binary()
    whole = {"log_loss": log_loss, "brier": brier_score_loss}[score]
    parts = score_decomposition(y, p, score=score, method=method, sample_weight=weights)
    assert isinstance(parts, ScoreDecomposition)
    assert (parts.score_name, parts.method) == (score, method)
    assert parts.score == pytest.approx(whole(y, p, sample_weight=weights), abs=1e-14)
    rate = np.average(y, weights=weights)
    base = whole(y, np.full(len(y), rate), sample_weight=weights)
    assert parts.uncertainty == pytest.approx(base, abs=1e-14)
    assert parts.calibration_loss + parts.refinement_loss == pytest.approx(parts.score, abs=1e-15)
    assert parts.uncertainty - parts.resolution == pytest.approx(parts.refinement_loss, abs=1e-15)
    assert method == "binned" or parts.within_bins == 0


# --- Isotonic: the CORP decomposition -----------------------------------------------------

# model-diagnostics 1.5.0, scoring.decompose(y, p, weights, scoring_function) on binary():
# miscalibration, discrimination, uncertainty, score.
CORP = {
    ("log_loss", False): (
        0.08458493922013333,
        0.290758462772693,
        0.6818546087307835,
        0.47568108517822383,
    ),
    ("brier", False): (0.02899045237541656, 0.11817145237541657, 0.244375, 0.155194),
    ("log_loss", True): (
        0.08218797154953966,
        0.2866931296979844,
        0.6759893072701437,
        0.471484149121699,
    ),
    ("brier", True): (
        0.02903058071362534,
        0.11691037705424766,
        0.24147024220049493,
        0.1535904458598726,
    ),
}


@pytest.mark.parametrize(("score", "weighted"), CORP)
def test_isotonic_is_model_diagnostics(score, weighted):
    y, p, weights = binary()
    parts = score_decomposition(
        y, p, score=score, method="isotonic", sample_weight=weights if weighted else None
    )
    found = (parts.calibration_loss, parts.resolution, parts.uncertainty, parts.score)
    np.testing.assert_allclose(found, CORP[score, weighted], atol=1e-12)


@pytest.mark.parametrize("score", SCORES)
def test_isotonic_parts_are_not_negative_and_blind_to_increasing_maps(score):
    y, p, _ = binary()
    plain = score_decomposition(y, p, score=score, method="isotonic")
    moved = score_decomposition(y, p**3, score=score, method="isotonic")
    assert plain.calibration_loss >= 0
    assert plain.resolution >= 0
    assert moved.refinement_loss == pytest.approx(plain.refinement_loss, abs=1e-14)
    assert moved.calibration_loss > plain.calibration_loss


def test_isotonic_by_hand():
    # Pooling turns 1, 0 at 0.3 and 0.4 into a half each.
    parts = score_decomposition(
        [0, 1, 0, 1], [0.1, 0.3, 0.4, 0.9], score="brier", method="isotonic"
    )
    assert parts.refinement_loss == pytest.approx(0.5 / 4)
    assert parts.score == pytest.approx((0.01 + 0.49 + 0.16 + 0.01) / 4)


# --- Binned: Murphy's -----------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
def test_few_distinct_forecasts_are_split_exactly(score):
    """Murphy (1973) by plain sums over the distinct probabilities."""
    rng = np.random.default_rng(0)
    p = rng.choice([0.1, 0.35, 0.6, 0.85], 100)
    y = (rng.uniform(size=100) < 0.2 + 0.6 * p).astype(int)
    parts = score_decomposition(y, p, score=score, method="binned", n_bins=4)
    overall, reliability, resolution = y.mean(), 0.0, 0.0

    def divergence(a, b):
        if score == "brier":
            return (a - b) ** 2
        return a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b))

    for value in np.unique(p):
        rate = y[p == value].mean()
        reliability += (p == value).mean() * divergence(rate, value)
        resolution += (p == value).mean() * divergence(rate, overall)
    assert parts.within_bins == pytest.approx(0, abs=1e-14)
    assert parts.calibration_loss == pytest.approx(reliability, abs=1e-14)
    assert parts.resolution == pytest.approx(resolution, abs=1e-14)


def test_within_bins_is_variance_less_twice_the_covariance():
    """Stephenson, Coelho and Jolliffe (2008), equations 7 and 8, by loops over the bins."""
    y, p, weights = binary()
    parts = score_decomposition(
        y, p, score="brier", method="binned", n_bins=5, sample_weight=weights
    )
    reliability = variance = covariance = 0.0
    bins = np.ceil(np.round(p * 5, 9)).clip(1)
    for b in np.unique(bins):
        w, p_b, y_b = weights[bins == b], p[bins == b], y[bins == b]
        share = w.sum() / weights.sum()
        mean, rate = np.average(p_b, weights=w), np.average(y_b, weights=w)
        reliability += share * (mean - rate) ** 2
        variance += share * np.average((p_b - mean) ** 2, weights=w)
        covariance += share * np.average((p_b - mean) * (y_b - rate), weights=w)
    assert parts.within_bins == pytest.approx(variance - 2 * covariance, abs=1e-14)
    assert parts.calibration_loss - parts.within_bins == pytest.approx(reliability, abs=1e-14)


@pytest.mark.parametrize("method", ["binned", "isotonic"])
def test_brier_of_more_classes_is_the_sum_over_columns(method):
    _, y, p = make_calibration_data(300, n_classes=3, random_state=0)
    whole = score_decomposition(y, p, score="brier", method=method)
    columns = [score_decomposition(y == k, p[:, k], score="brier", method=method) for k in range(3)]
    for part in ("score", "calibration_loss", "refinement_loss", "uncertainty", "within_bins"):
        total = sum(getattr(one, part) for one in columns)
        assert getattr(whole, part) == pytest.approx(total, abs=1e-13)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("method", ["binned", "isotonic"])
@pytest.mark.parametrize("score", SCORES)
def test_whole_weights_are_repetitions(score, method, strategy):
    y, p, weights = binary()
    choice = {"score": score, "method": method, "strategy": strategy}
    weighted = score_decomposition(y, p, sample_weight=weights * 0.5, **choice)
    repeated = score_decomposition(np.repeat(y, weights), np.repeat(p, weights), **choice)
    for part in ("score", "calibration_loss", "uncertainty", "resolution", "within_bins"):
        assert getattr(weighted, part) == pytest.approx(getattr(repeated, part), abs=1e-12)


# --- Recalibration ------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 4])
def test_recalibration_finds_the_known_loss(n_classes):
    _, y, p = make_calibration_data(4000, n_classes=n_classes, random_state=1)
    sharp = sharpened(p)
    parts = score_decomposition(y, sharp)
    # What the best map, which is known, saves on these very rows.
    saved = log_loss(y, sharp) - log_loss(y, p)
    assert parts.calibration_loss == pytest.approx(saved, abs=0.003)
    assert parts.refinement_loss == pytest.approx(log_loss(y, p), abs=0.003)
    assert abs(score_decomposition(y, p).calibration_loss) < 0.002
    squares = score_decomposition(y, sharp, score="brier")
    assert squares.refinement_loss == pytest.approx(brier_score_loss(y, p), abs=0.002)


def test_calibrated_rows_cost_a_little_less_than_nothing():
    """A map learned from noise does harm on held-out rows."""
    losses = []
    for seed in range(20):
        _, y, p = make_calibration_data(300, n_classes=3, random_state=2, row_state=seed)
        parts = score_decomposition(y, p, calibrator="sms")
        losses.append(parts.calibration_loss)
    assert -0.05 < np.mean(losses) < 0


def test_calibrator_by_name_or_instance():
    _, y, p = make_calibration_data(300, n_classes=3, random_state=0)
    named = score_decomposition(y, p, calibrator="temperature")
    given = TemperatureScaling()
    assert score_decomposition(y, p, calibrator=given) == named
    assert not hasattr(given, "classes_")
    assert score_decomposition(y, p, calibrator=IsotonicCalibration()) != named


def test_rows_of_weight_zero_are_not_there():
    _, y, p = make_calibration_data(200, n_classes=3, random_state=0)
    weights = np.ones(200)
    weights[::4] = 0
    zero = score_decomposition(y, p, calibrator="temperature", sample_weight=weights)
    gone = score_decomposition(y[weights > 0], p[weights > 0], calibrator="temperature")
    assert zero == gone


def test_scale_of_weights_does_not_matter():
    _, y, p = make_calibration_data(200, n_classes=3, random_state=0)
    weights = np.random.default_rng(0).uniform(0.5, 2, 200)
    choice = {"calibrator": "sms"}
    one = score_decomposition(y, sharpened(p), sample_weight=weights, **choice)
    tiny = score_decomposition(y, sharpened(p), sample_weight=weights * 1e-6, **choice)
    assert tiny.calibration_loss == pytest.approx(one.calibration_loss, abs=1e-9)


def test_a_class_may_be_absent():
    parts = score_decomposition(["a", "b", "a", "b"], [[0.6, 0.3, 0.1]] * 4, labels=["a", "b", "c"])
    assert parts.uncertainty == pytest.approx(np.log(2))
    one = score_decomposition([1, 1, 1], [0.5, 0.6, 0.9], labels=[0, 1], calibrator="temperature")
    assert one.uncertainty == pytest.approx(0, abs=1e-12)


# --- Errors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"score": "brier_score"}, r"score must be one of 'log_loss', 'brier'; .*mean 'brier'\?"),
        ({"method": "isotonics"}, r"method must be one of .*Did you mean 'isotonic'\?"),
        ({"cv": 1}, "cv must be a whole number of at least 2; got 1"),
        ({"cv": 2.5}, "cv must be a whole number"),
        ({"calibrator": "temprature"}, "Did you mean 'temperature'"),
        ({"calibrator": TemperatureScaling(input="logits")}, "reads logits, but y_proba are"),
        ({"method": "binned", "n_bins": 0}, "n_bins must be a whole number of at least 1"),
        ({"method": "binned", "strategy": "equal"}, "strategy must be 'uniform' or 'quantile'"),
    ],
)
def test_wrong_options_are_named(wrong, message):
    y, p, _ = binary(30)
    with pytest.raises(ValueError, match=message):
        score_decomposition(y, p, **wrong)


@pytest.mark.parametrize("method", ["binned", "isotonic"])
def test_log_loss_of_more_classes_needs_recalibration(method):
    with pytest.raises(ValueError, match="two classes only, but there are 3 columns; use"):
        score_decomposition([0, 1, 2], np.full((3, 3), 1 / 3), method=method)


def test_one_row_cannot_be_split():
    with pytest.raises(ValueError, match="there is only one; give more rows"):
        score_decomposition([1], [0.5], labels=[0, 1])
