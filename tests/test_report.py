"""The report: its numbers against the metrics, its sentences against what is known to be true."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from skcal.calibration import TemperatureScaling
from skcal.metrics import (
    brier_score_loss,
    calibration_report,
    expected_calibration_error,
    ks_test,
    log_loss,
    metric_interval,
    score_decomposition,
    skill_score,
)

KINDS = ("top-label", "class-wise")


def predictions(n=1000, n_classes=3, sharpness=1.0, seed=0):
    """Labels drawn from probabilities, and these after sharpening."""
    rng = np.random.default_rng(seed)
    true = rng.dirichlet(np.ones(n_classes), size=n)
    y = (true.cumsum(axis=1) < rng.uniform(size=n)[:, None]).sum(axis=1)
    proba = true**sharpness
    return y, proba / proba.sum(axis=1, keepdims=True)


def report_of(y, proba, **options):
    return calibration_report(y, proba, **{"calibrator": "temperature", **options})


def value(report, name):
    (line,) = [line for line in report.lines if line.name == name]
    return line.value


# --- Numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_are_those_of_the_metrics(n_classes, weighted):
    y, proba = predictions(n_classes=n_classes, sharpness=1.5)
    weights = np.random.default_rng(1).integers(0, 3, len(y)) if weighted else None
    given = {"sample_weight": weights}
    report = report_of(y, proba, **given)
    parts = score_decomposition(y, proba, calibrator="temperature", **given)
    interval = metric_interval("log_loss", y, proba, **given)
    (line,) = [line for line in report.lines if line.name == "log loss"]
    assert (line.lower, line.upper) == pytest.approx((interval.lower, interval.upper), abs=1e-9)
    expected = {
        "log loss": log_loss(y, proba, **given),
        "skill, log loss": skill_score(y, proba, **given),
        "Brier score": brier_score_loss(y, proba, **given),
        "skill, Brier score": skill_score(y, proba, score="brier", **given),
        "calibration loss": parts.calibration_loss,
        "refinement loss": parts.refinement_loss,
        "mean confidence": np.average(proba.max(axis=1), weights=weights),
        "accuracy": np.average(proba.argmax(axis=1) == y, weights=weights),
        "ECE, top-label": expected_calibration_error(y, proba, **given),
        "ECE, class-wise": expected_calibration_error(y, proba, kind="class-wise", **given),
        "saved by temperature": parts.calibration_loss,
        "p-value": 2 * min(ks_test(y, proba, kind=k, **given).p_value for k in KINDS),
    }
    for name, number in expected.items():
        assert value(report, name) == pytest.approx(number, abs=1e-7), name
    gap = expected["mean confidence"] - expected["accuracy"]
    assert value(report, "mean gap") == pytest.approx(gap)
    fitted = TemperatureScaling().fit(proba, y, sample_weight=weights)
    assert value(report, "best temperature") == pytest.approx(fitted.temperature_, rel=0.01)
    assert report.n_samples == (np.sum(weights > 0) if weighted else len(y))


def test_classes_one_by_one():
    y, proba = predictions(n_classes=3, sharpness=1.5)
    names = np.array(["u", "v", "w"])
    report = report_of(names[y], proba, n_bins=10)
    frame = report.to_frame(per_class=True)
    assert frame.index.tolist() == report.classes == ["u", "v", "w"]
    assert frame["count"].tolist() == np.bincount(y).tolist()
    np.testing.assert_allclose(frame["mean_predicted"], proba.mean(axis=0))
    np.testing.assert_allclose(frame["event_rate"], np.bincount(y) / len(y))
    for k, name in enumerate(names):
        ece = expected_calibration_error(
            y == k, proba[:, k], kind="positive", n_bins=10, labels=[False, True]
        )
        assert frame.loc[name, "ece"] == pytest.approx(ece)
    # Wilson's interval by hand.
    z, n, p = 1.959964, len(y), np.bincount(y)[0] / len(y)
    half = z * np.sqrt(p * (1 - p) / n + z**2 / 4 / n**2) / (1 + z**2 / n)
    assert frame.loc["u", "upper"] - frame.loc["u", "lower"] == pytest.approx(2 * half, rel=1e-5)


def test_the_interval_of_the_gap():
    # By hand: residuals of 0.2 and -0.8 in a hundred rows, half of the interval t * s / 10.
    y = np.repeat([1, 0], [60, 40])
    report = report_of(y, np.full(100, 0.8))
    (line,) = [line for line in report.lines if line.name == "mean gap"]
    spread = np.std(np.repeat([-0.2, 0.8], [60, 40]), ddof=1) / 10
    assert (line.value, line.upper - line.value) == pytest.approx((0.2, 1.98422 * spread), rel=1e-4)


# --- Sentences -----------------------------------------------------------------------------------


def test_over_and_under_confident():
    over = report_of(*predictions(sharpness=2)).sentences
    assert over[0].startswith("Over-confident: says ")
    assert over[1].startswith("A temperature of 1.")
    under = report_of(*predictions(sharpness=0.5)).sentences
    assert under[0].startswith("Under-confident: says ")
    assert under[1].startswith("A temperature of 0.")


def test_the_numbers_in_the_sentence():
    y = np.repeat([1, 0], [164, 36])
    sentence = report_of(y, np.full(200, 0.9)).sentences[0]
    assert sentence == (
        "Over-confident: says 90.0 % on average where 82.0 % is right, 8.0 points too much (95 % "
        "interval 2.6 to 13.4 points)."
    )


def test_nothing_found():
    report = report_of(*predictions(n=500))
    assert len(report.sentences) == 1
    assert report.sentences[0].startswith("No miscalibration found (p = 0.")
    (gap,) = [line for line in report.lines if line.name == "mean gap"]
    widest = 100 * max(-gap.lower, gap.upper)
    assert f"within ±{widest:.1f} points." in report.sentences[0]


def test_errors_that_cancel_are_not_called_calibrated():
    # Says 0.6 where 0.8 is right, and 0.9 where 0.7 is.
    proba = np.repeat([0.6, 0.9], 500)
    y = np.concatenate([np.tile([1, 1, 1, 1, 0], 100), np.tile([1] * 7 + [0] * 3, 50)])
    sentence = report_of(y, proba).sentences[0]
    assert sentence.startswith("Not calibrated (p < 0.0")
    assert "neither over- nor under-confident" in sentence


def test_a_wrong_base_rate_is_named():
    rng = np.random.default_rng(0)
    p = rng.uniform(0, 0.2, 2000)
    y = np.where(rng.uniform(size=2000) < p / 2, "fraud", "fine")
    sentences = report_of(y == "fraud", p, labels=[False, True]).sentences
    assert any("Class True is predicted more often than it happens" in text for text in sentences)
    named = report_of(np.where(y == "fraud", "z", "a"), p).sentences
    assert any("Class 'z' is predicted more often" in text for text in named)


def test_sure_and_right_predictions_are_no_proof_of_too_little_confidence():
    report = report_of([1] * 30, [0.99] * 30)
    assert report.sentences[0].startswith("No miscalibration found")
    assert value(report, "skill, log loss") is None


@pytest.mark.parametrize(("n_classes", "n"), [(2, 60), (2, 300), (4, 300)])
def test_sentences_are_wrong_about_a_right_model_at_most_at_their_level(n_classes, n):
    # Of 200 right models, about 10 are wrongly accused by each sentence.
    over = named = scaled = 0
    for seed in range(200):
        sentences = report_of(*predictions(n=n, n_classes=n_classes, seed=seed)).sentences
        over += "er-confident: " in sentences[0]
        named += any(text.startswith("Class ") for text in sentences)
        scaled += any(text.startswith("A temperature") for text in sentences)
    assert max(over, named, scaled) <= 18  # more than that once in 200 times


# --- Forms ---------------------------------------------------------------------------------------


class Cells(HTMLParser):
    """The texts of all cells, and the tags."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.tags[-1] in ("td", "th"):
            self.cells[-1] += data


def test_text():
    y, proba = predictions(n=1000, sharpness=1.5)
    text = str(report_of(y, proba))
    lines = text.splitlines()
    assert lines[0] == "Calibration report: 1000 rows, 3 classes"
    assert max(map(len, lines)) <= 100
    assert not any(line != line.rstrip() for line in lines)
    (loss,) = [line for line in lines if line.startswith("log loss")]
    assert loss.split()[2] == f"{log_loss(y, proba):.4f}"
    # Numbers stand below each other.
    (accuracy,) = [line for line in lines if line.startswith("accuracy")]
    assert accuracy.index("0.") == loss.index("0.")


def test_dictionary_is_plain():
    y, proba = predictions(n=300)
    report = report_of(np.array(["a", "b", "c"])[y], proba)
    plain = report.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["values"]["log loss"]["value"] == pytest.approx(log_loss(y, proba))
    assert plain["sentences"] == report.sentences
    assert [line["class_label"] for line in plain["per_class"]] == ["a", "b", "c"]


@pytest.mark.parametrize("labels", [[0, 1], [False, True], [1.0, 2.0], ["a", "b"]])
def test_dictionary_of_labels_of_any_kind(labels):
    report = report_of(np.array(labels)[[0, 1, 1, 0]], [0.2, 0.7, 0.6, 0.4])
    assert json.loads(json.dumps(report.to_dict()))["classes"] == labels


def test_frames():
    report = report_of(*predictions(n=300))
    frame = report.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.loc["accuracy", "value"] == value(report, "accuracy")
    assert frame.columns.tolist() == ["value", "lower", "upper", "note"]
    assert frame["value"].dtype == float


def test_page_is_escaped_and_without_colours():
    y, proba = predictions(n=300)
    page = report_of(np.array(["<b>x</b>", "a & b", "c"])[y], proba)._repr_html_()
    found = Cells(page)
    assert "<b>x</b>" in found.cells
    assert "a & b" in found.cells
    assert set(found.tags) <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "td", "th"}
    assert not re.search(r"[^&]#|rgb|background|http", page)


def test_of_many_classes_the_worst_are_shown():
    y, proba = predictions(n=3000, n_classes=12)
    proba[:, 7] = proba[:, 7] + 0.3
    report = report_of(y, proba / proba.sum(axis=1, keepdims=True), labels=range(12))
    assert len(report.class_lines) == len(report.to_frame(per_class=True)) == 12
    text = str(report)
    assert "The 10 of 12 classes" in text
    table = text[text.index("class  rows") :].splitlines()[1:]
    assert table[0].split()[0] == "7"
    assert len(table) == 11


def test_nothing_is_left_to_chance():
    y, proba = predictions(n=200)
    assert report_of(y, proba) == report_of(y, proba)


def test_rows_without_weight_are_not_there():
    y, proba = predictions(n=300)
    weights = np.arange(300) % 2
    with_them = report_of(y, proba, sample_weight=weights)
    assert with_them == report_of(y[1::2], proba[1::2])


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_very_few_rows(n, n_classes):
    y, proba = predictions(n=n, n_classes=n_classes)
    if n == 1:
        with pytest.raises(ValueError, match="at least 2 rows"):
            report_of(y, proba, labels=range(n_classes))
    else:
        report = report_of(y, proba, labels=range(n_classes))
        assert str(report)
        assert json.dumps(report.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"confidence_level": 1.0}, "confidence_level must be strictly between 0 and 1"),
        ({"n_bins": 0}, "n_bins must be a whole number"),
        ({"calibrator": "isotonik"}, "isotonik"),
        ({"labels": [0, 1]}, "3 score columns but 2 classes"),
    ],
)
def test_mistakes(options, match):
    y, proba = predictions(n=50)
    with pytest.raises(ValueError, match=match):
        report_of(y, proba, **options)


def test_few_rows_have_no_verdict():
    sentences = report_of([0, 1] * 10, [0.2, 0.9] * 10).sentences
    assert sentences == [
        "With 20 rows there is no verdict; hundreds tell something, 30 are the least."
    ]


def test_impossible_rows_are_counted():
    y = np.r_[np.tile([0, 1], 100), 1, 1]
    p = np.r_[np.tile([0.1, 0.9], 100), 0.0, 0.0]
    sentence = report_of(y, p).sentences[-1]
    assert sentence.startswith("2 rows had a probability of zero for what happened")
    # 36.04 nats each, of 202 rows.
    assert "cost of 0.357 nats" in sentence
    assert not any(
        "probability of zero" in words for words in report_of(y[:200], p[:200]).sentences
    )
