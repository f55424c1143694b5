"""Vector, matrix, structured matrix and Dirichlet maps against published values."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skcal.calibration import (
    DirichletCalibration,
    IdentityCalibration,
    MatrixScaling,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
)


@pytest.fixture(scope="module")
def toy():
    rs = np.random.RandomState(0)
    z = 1.5 * rs.normal(size=(600, 4))
    true = softmax(z, axis=1)
    y = (true.cumsum(axis=1) < rs.uniform(size=600)[:, None]).sum(axis=1)
    A = 2 * np.eye(4)
    A[0, 1], A[2, 3] = 0.6, -0.4
    P = softmax(z @ A.T + [0.3, -0.2, 0.0, 0.1], axis=1)
    assert_allclose(P[0], [0.293456, 0.002075, 0.003748, 0.700721], atol=1e-6)
    assert log_loss(y, P) == pytest.approx(1.0301865, abs=1e-7)
    return P, y


@pytest.mark.parametrize(
    ("strength", "objective", "loss"),
    [
        (0.0, 0.88037843, 0.88037843),
        (1e-3, 0.88085816, 0.880434),
        (1e-2, 0.88274343, 0.881693),
        (1.0, 0.88615606, 0.885535),
    ],
)
def test_dirichlet_odir_reaches_the_known_optima(toy, strength, objective, loss):
    P, y = toy
    fitted = DirichletCalibration(reg_lambda=strength, reg_mu=strength).fit(P, y)
    off = fitted.coef_ - np.diag(np.diag(fitted.coef_))
    penalty = strength * ((off**2).sum() + (fitted.intercept_**2).sum())
    assert fitted.loss_ == pytest.approx(loss, abs=1e-6)
    assert fitted.loss_ + penalty == pytest.approx(objective, abs=1e-7)
    if strength == 1e-2:
        assert_allclose(np.diag(fitted.coef_), [0.5697, 0.5420, 0.4997, 0.5214], atol=1e-4)
        assert_allclose(fitted.intercept_, [0.1704, 0.1170, -0.0552, -0.2322], atol=1e-4)


def test_the_canonical_form_gives_the_same_map(toy):
    P, y = toy
    fitted = DirichletCalibration().fit(P, y)
    A, c = fitted.canonical_coef_, fitted.canonical_proba_
    assert (A >= 0).all()
    assert_allclose(A.min(axis=0), 0, atol=1e-15)
    assert_allclose(fitted.predict_proba(np.full((1, 4), 0.25))[0], c, rtol=1e-12)
    q = c * np.exp(np.log(4 * P) @ A.T)
    assert_allclose(fitted.predict_proba(P), q / q.sum(axis=1, keepdims=True), rtol=1e-10)


def test_structured_scaling_reaches_the_known_optima(toy):
    P, y = toy
    matrix = StructuredMatrixScaling().fit(P, y)
    assert matrix.loss_ == pytest.approx(0.8822246, abs=2e-7)
    assert_allclose(matrix.intercept_, [0.1940, 0.1131, -0.0829, -0.2242], atol=1e-4)
    assert_allclose(np.diag(matrix.coef_), [1.0560, 1.0193, 0.9620, 1.0230], atol=1e-4)
    vector = StructuredMatrixScaling(structure="vector").fit(P, y)
    assert vector.loss_ == pytest.approx(0.8856653, abs=5e-7)
    assert (vector.coef_ == np.diag(np.diag(vector.coef_))).all()
    # So strong a penalty leaves the temperature, mixed with the uniform.
    assert StructuredMatrixScaling(reg=1e9).fit(P, y).loss_ == pytest.approx(0.88835076, abs=1e-8)


def test_matrix_scaling_without_penalty_is_multinomial_regression(toy):
    P, y = toy
    logits = np.log(P) - np.log(P).mean(axis=1, keepdims=True)
    regression = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(logits, y)
    fitted = MatrixScaling(penalty=None).fit(P, y)
    assert fitted.loss_ == pytest.approx(log_loss(y, regression.predict_proba(logits)), abs=1e-7)
    assert_allclose(fitted.predict_proba(P), regression.predict_proba(logits), atol=1e-3)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("reg", [0.0, 0.3])
def test_vector_scaling_minimises_its_objective(toy, fit_intercept, reg):
    P, y = toy
    T = TemperatureScaling().fit(P, y).temperature_
    x = np.log(P) / T
    x -= x.mean(axis=1, keepdims=True)

    def objective(theta):
        v, b = theta[:4], theta[4:] * fit_intercept
        loss = -log_softmax(x * v + b, axis=1)[np.arange(600), y].mean()
        return loss + reg * (((v - 1) ** 2).sum() + (b**2).sum())

    best = minimize(objective, np.r_[np.ones(4), np.zeros(4)], method="BFGS", tol=1e-9)
    fitted = VectorScaling(reg=reg, fit_intercept=fit_intercept).fit(P, y)
    here = objective(np.r_[np.diag(fitted.coef_), fitted.intercept_])
    assert here == pytest.approx(best.fun, abs=1e-8)
    assert fitted.loss_ <= fitted.baseline_loss_


@pytest.mark.parametrize("penalty", ["structured", "odir", "l2"])
def test_a_great_penalty_leaves_matrix_scaling_at_the_temperature(toy, penalty):
    P, y = toy
    temperature = TemperatureScaling().fit(P, y)
    fitted = MatrixScaling(penalty=penalty, reg=1e9).fit(P, y)
    off = fitted.coef_ - np.diag(np.diag(fitted.coef_))
    assert_allclose(off, 0, atol=1e-6)
    if penalty != "odir":  # whose diagonal is free
        assert_allclose(fitted.predict_proba(P), temperature.predict_proba(P), atol=1e-6)


def test_few_rows_per_class_do_no_harm():
    # Ten classes, 500 rows, scores that are already calibrated.
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(20_500, 10))
    p = softmax(z, axis=1)
    y = (p.cumsum(axis=1) < rng.random((20_500, 1))).sum(axis=1).clip(max=9)
    before = log_loss(y[500:], p[500:], labels=range(10))

    def harm(calibrator):
        calibrator.fit(p[:500], y[:500], classes=range(10))
        return log_loss(y[500:], calibrator.predict_proba(p[500:]), labels=range(10)) - before

    free = harm(MatrixScaling(penalty=None))
    assert free > 0.05
    for calibrator in (
        VectorScaling(),
        MatrixScaling(),
        StructuredMatrixScaling(),
        DirichletCalibration(),
        DirichletCalibration(penalty="diagonal"),
    ):
        assert harm(calibrator) < 0.3 * free, calibrator


def test_the_identity_changes_nothing(toy):
    P, y = toy
    identity = IdentityCalibration().fit(P, y)
    assert_allclose(identity.predict_proba(P), P, rtol=1e-12)
    assert identity.loss_ == identity.baseline_loss_


# --- The penalties, by another optimiser ----------------------------------------------------------


@pytest.mark.parametrize("penalty", ["odir", "l2", "diagonal"])
def test_dirichlet_penalties_are_relative_to_the_temperature(penalty):
    rng = np.random.default_rng(0)
    n, k = 80, 3
    proba = softmax(3 * rng.normal(size=(n, k)), axis=1)
    y = np.array([rng.choice(k, p=p) for p in softmax(0.4 * np.log(proba), axis=1)])
    x = np.log(proba)
    t = TemperatureScaling().fit(proba, y).temperature_
    eye = np.eye(k)
    on, off = k / n * t**2, k * (k - 1) / n * t**2
    weight = {"odir": on * eye + off * (1 - eye), "l2": off * np.ones((k, k)), "diagonal": on * eye}

    def objective(theta):
        matrix, shift = theta[: k * k].reshape(k, k), theta[k * k :]
        if penalty == "diagonal":
            matrix = matrix * eye
        loss = -log_softmax(x @ matrix.T + shift, axis=1)[np.arange(n), y].mean()
        return loss + (weight[penalty] * (matrix - eye / t) ** 2).sum() + k / n * shift @ shift

    best = minimize(objective, np.r_[eye.ravel() / t, np.zeros(k)], tol=1e-12).fun
    fitted = DirichletCalibration(penalty=penalty).fit(proba, y)
    assert objective(np.r_[fitted.coef_.ravel(), fitted.intercept_]) == pytest.approx(
        best, abs=1e-7
    )


@pytest.mark.parametrize("penalty", ["structured", "odir", "l2"])
def test_matrix_penalties(penalty):
    rng = np.random.default_rng(1)
    n, k = 80, 3
    logits = 3 * rng.normal(size=(n, k))
    y = np.array([rng.choice(k, p=p) for p in softmax(0.4 * logits, axis=1)])
    t = TemperatureScaling(input="logits").fit(logits, y).temperature_
    x = (logits - logits.mean(axis=1, keepdims=True)) / t
    eye, s = np.eye(k), k * (k - 1) / n
    weight = {
        "structured": k / n * eye + s * (1 - eye),
        "odir": s * (1 - eye),
        "l2": s * np.ones((k, k)),
    }[penalty]
    pull = k / n if penalty == "structured" else s

    def objective(theta):
        matrix, shift = theta[: k * k].reshape(k, k), theta[k * k :]
        loss = -log_softmax(x @ matrix.T + shift, axis=1)[np.arange(n), y].mean()
        return loss + (weight * (matrix - eye) ** 2).sum() + pull * shift @ shift

    best = minimize(objective, np.r_[eye.ravel(), np.zeros(k)], tol=1e-12).fun
    fitted = MatrixScaling(penalty=penalty, input="logits").fit(logits, y)
    assert objective(np.r_[fitted.coef_.ravel(), fitted.intercept_]) == pytest.approx(
        best, abs=1e-7
    )
