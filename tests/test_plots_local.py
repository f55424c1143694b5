"""The map of local calibration: averages over the rows around each point."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.random_projection import GaussianRandomProjection

from skcal.plots import LocalCalibrationDisplay


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def rows():
    """Return rows of a model that is over-confident on the right and right on the left."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(800, 2)) * [1, 20]
    logit = points[:, 0] + points[:, 1] / 20
    y = (rng.random(800) < 1 / (1 + np.exp(-logit))).astype(int)
    return points, y, 1 / (1 + np.exp(-logit * np.where(points[:, 0] > 0, 4, 1)))


def draw(points, y, p, **options):
    return LocalCalibrationDisplay.from_predictions(y, p, None, projection=points, **options)


def slow_averages(points, p, y, weights, x0, y0, bandwidth):
    """Return error, standard error and rows at one point, row by row."""
    effective = weights.sum() ** 2 / (weights**2).sum()
    quartiles = np.subtract(*np.quantile(points, [0.75, 0.25], axis=0)) / 1.349
    width = bandwidth * np.minimum(points.std(axis=0), quartiles) * effective ** (-1 / 6)
    kernel = weights * np.exp(-0.5 * (((points - [x0, y0]) / width) ** 2).sum(axis=1))
    return (
        kernel @ (p - y) / kernel.sum(),
        np.sqrt(kernel**2 @ (p * (1 - p))) / kernel.sum(),
        kernel.sum() ** 2 / (kernel**2).sum(),
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bandwidth", [1.0, 2.0])
def test_the_map_is_the_kernel_average(rows, weighted, bandwidth):
    points, y, p = rows
    weights = np.random.default_rng(1).random(800) * 3 if weighted else np.ones(800)
    display = draw(points, y, p, sample_weight=weights, bandwidth=bandwidth)
    known = np.argwhere(np.isfinite(display.error))
    for i, j in known[:: len(known) // 40]:
        error, noise, count = slow_averages(
            points, p, y, weights, display.x[j], display.y[i], bandwidth
        )
        assert display.error[i, j] == pytest.approx(error, abs=5e-3)
        assert display.noise[i, j] == pytest.approx(noise, rel=0.03)
        assert display.rows[i, j] == pytest.approx(count, rel=0.05)
    np.testing.assert_array_equal(np.isfinite(display.error), display.rows >= 30)


def test_over_and_under_confidence_have_their_signs_and_places(rows):
    points, y, p = rows
    display = draw(points, y, p)
    right = display.x > 0.3
    assert np.nanmax(display.error[:, right]) > 0.1  # where the events are fewer than said
    turned = draw(points, 1 - y, 1 - p)
    np.testing.assert_allclose(turned.error, -display.error, atol=1e-12)


def test_weight_zero_is_no_row_and_repetition_does_not_move_the_error(rows):
    points, y, p = rows
    keep = np.arange(800) % 2
    one = draw(points, y, p, sample_weight=keep)
    kept = keep == 1
    two = draw(points[kept], y[kept], p[kept])
    np.testing.assert_allclose(one.error, two.error)
    heavy = draw(points, y, p, sample_weight=np.full(800, 7.0))
    np.testing.assert_allclose(heavy.rows, draw(points, y, p).rows)


def test_only_what_is_more_than_chance_is_coloured(rows):
    points, y, p = rows
    display = draw(points, y, p, confidence_level=0.9)
    shown = display.contours_.get_array()  # levels
    assert shown.min() == -shown.max()
    coloured = sum(path.contains_points([[-1.0, 0.0]])[0] for path in display.contours_.get_paths())
    assert coloured == 0  # calibrated there
    at = np.unravel_index(np.nanargmax(display.error / display.noise), display.error.shape)
    spot = [[display.x[at[1]], display.y[at[0]]]]
    assert sum(path.contains_points(spot)[0] for path in display.contours_.get_paths()) == 1
    rng = np.random.default_rng(0)
    X, q = rng.normal(size=(20_000, 2)), rng.random(20_000)
    calibrated = draw(X, rng.random(20_000) < q, q)
    known = np.isfinite(calibrated.error)
    beyond = np.abs(calibrated.error[known]) > 1.96 * calibrated.noise[known]
    assert beyond.mean() < 0.12


def test_under_confidence_is_hatched(rows):
    display = draw(*rows)
    levels = display.contours_.levels
    assert 0 in levels
    hatches = dict(zip(levels[1:], display.contours_.hatches, strict=True))
    assert all(bool(hatch) == (upper <= 0) for upper, hatch in hatches.items())


def test_principal_components():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)) * [1, 10, 100, 0]
    X[:, 1] += 10 * X[:, 0]
    y, p = np.arange(500) % 2, rng.random(500)
    display = LocalCalibrationDisplay.from_predictions(y, p, X)
    standard = (X[:, :3] - X[:, :3].mean(axis=0)) / X[:, :3].std(axis=0)
    values, vectors = np.linalg.eigh(standard.T @ standard / 500)
    points = standard @ vectors[:, [2, 1]]
    assert display.ax_.get_xlabel() == f"First principal component ({100 * values[2] / 3:.0f} %)"
    expected = draw(points, y, p)
    # Up to the signs of both axes.
    spans = [(one.x[-1] - one.x[0], one.y[-1] - one.y[0]) for one in (display, expected)]
    assert spans[0] == pytest.approx(spans[1])
    assert np.nanmax(display.rows) == pytest.approx(np.nanmax(expected.rows), rel=1e-6)


def test_other_projections(rows):
    _, y, p = rows
    X = np.random.default_rng(0).normal(size=(800, 5))
    projector = GaussianRandomProjection(3, random_state=0)
    display = LocalCalibrationDisplay.from_predictions(y, p, X, projection=projector)
    same = draw(GaussianRandomProjection(3, random_state=0).fit_transform(X)[:, :2], y, p)
    np.testing.assert_array_equal(display.error, same.error)
    assert display.ax_.get_ylabel() == "GaussianRandomProjection 2"
    frame = pd.DataFrame(X)
    one, two = (LocalCalibrationDisplay.from_predictions(y, p, part) for part in (frame, X))
    np.testing.assert_allclose(one.error, two.error, atol=1e-12)


@pytest.mark.parametrize("n_classes", [3, 150])
def test_kinds(n_classes):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(n_classes, 0.3), 600)
    y = np.arange(600) % n_classes
    points = rng.normal(size=(600, 2))
    display = draw(points, y, proba)
    assert display.kind == "top-label"
    assert "Confidence minus accuracy" in display.colorbar_.ax.get_ylabel()
    one = draw(points, y, proba, class_label=1)
    same = draw(points, (y == 1).astype(int), proba[:, 1])
    np.testing.assert_allclose(one.error, same.error)
    assert "of 1" in one.colorbar_.ax.get_ylabel()


def test_estimators(rows):
    points, y, _ = rows
    model = GaussianNB().fit(points, y)
    display = LocalCalibrationDisplay.from_estimator(model, points, y)
    other = LocalCalibrationDisplay.from_predictions(y, model.predict_proba(points), points)
    np.testing.assert_array_equal(display.error, other.error)
    assert display.ax_.get_title() == "GaussianNB"
    assert display.plot(name="Bayes").ax_.get_title() == "Bayes"
    with pytest.raises(NotFittedError):
        LocalCalibrationDisplay.from_estimator(GaussianNB(), points, y)


def test_axes_and_what_is_drawn(rows):
    figure, axes = plt.subplots(1, 2, layout="constrained")
    display = draw(*rows, ax=axes[0])
    assert (display.ax_, display.figure_) == (axes[0], figure)
    assert display.rows_ is not None
    with pytest.raises(ValueError, match="show something already"):
        display.plot(axes[0])
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    assert display.colorbar_.ax.get_tightbbox(renderer).y1 <= figure.bbox.y1


def test_far_rows_do_not_blow_up_the_frame(rows):
    points, y, p = rows
    far = points.copy()
    far[0] = 1e6, -1e6
    display = draw(far, y, p)
    assert abs(display.x).max() < 10
    assert np.nanmax(display.rows) == pytest.approx(np.nanmax(draw(points, y, p).rows), rel=0.05)


def test_errors(rows):
    points, y, p = rows
    draw_features = LocalCalibrationDisplay.from_predictions
    with pytest.raises(TypeError, match="bandwidth must be a number; got 'wide'"):
        draw(points, y, p, bandwidth="wide")
    for name, wrong in (("bandwidth", 0), ("min_rows", -1), ("min_rows", np.inf)):
        with pytest.raises(ValueError, match=f"{name} must be positive and finite"):
            draw(points, y, p, **{name: wrong})
    with pytest.raises(ValueError, match="confidence_level must be strictly"):
        draw(points, y, p, confidence_level=1)
    with pytest.raises(ValueError, match="has min_rows=5000 rows around it; the most is"):
        draw(points, y, p, min_rows=5000)
    with pytest.raises(ValueError, match="two coordinates for each of the 800 rows"):
        draw(points[:, :1], y, p)
    with pytest.raises(ValueError, match="projection must be 'pca'"):
        draw_features(y, p, points, projection="umap")
    with pytest.raises(ValueError, match="needs two or more features"):
        draw_features(y, p, points[:, :1])
    with pytest.raises(ValueError, match=r"X must be numbers .*TabularEncoder"):
        draw_features(y, p, np.full((800, 2), "red"))
    with pytest.raises(ValueError, match="X holds NaN"):
        draw_features(y, p, np.full((800, 2), np.nan))
    with pytest.raises(ValueError, match="the same for all rows"):
        draw(np.ones((800, 2)), y, p)
    assert not plt.get_fignums()
