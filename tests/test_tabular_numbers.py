"""Scales of the table encoder against numpy, scipy and scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, rankdata
from sklearn.preprocessing import QuantileTransformer

from skcal import TabularEncoder
from skcal.tabular._numbers import weighted_quantiles

SCALINGS = ["robust", "standard", "quantile"]
each_scaling = pytest.mark.parametrize("scaling", SCALINGS)


def encode(fit, new=None, weight=None, **params):
    encoder = TabularEncoder(**{"dtype": "float64"} | params).fit(fit, sample_weight=weight)
    return encoder.transform(fit if new is None else new)


def bend(x):
    x = np.asarray(x, dtype=float)
    return x / np.sqrt(1 + (x / 3) ** 2)


ANY = st.floats(allow_nan=True, allow_infinity=False)


def tables(elements):
    shapes = st.tuples(st.integers(1, 12), st.integers(1, 3))
    return arrays(np.float64, shapes, elements=elements)


def beside_weights(table):
    weights = arrays(np.int64, len(table), elements=st.integers(0, 3)).filter(np.any)
    return st.tuples(st.just(table), weights)


# Few values, so that there are ties, gaps and columns of one value.
SMALL = st.sampled_from([-1.0, 0.0, 0.5, 2.0, 1e5, np.nan])
WEIGHTED = tables(SMALL).flatmap(beside_weights)


# --- Robust -----------------------------------------------------------------------------


def test_robust_by_hand():
    # Quartiles 2, 4 and 6 of 1, ..., 7.
    x = np.array([[4.0], [1], [7], [2], [6], [3], [5]])
    assert_allclose(encode(x), bend((x - 4) / 4), rtol=1e-15)
    assert_allclose(encode(x, [[16.0], [np.nan]]), [[3 / np.sqrt(2)], [0.0]], rtol=1e-15)


def test_robust_is_the_default():
    x = np.random.default_rng(0).normal(size=(20, 2))
    assert_array_equal(encode(x), encode(x, scaling="robust"))


def test_a_column_that_is_mostly_one_value_is_scaled_by_its_range():
    x = np.array([[0.0]] * 8 + [[10.0], [-2.0]])
    assert_allclose(encode(x), bend(x * 2 / 12), rtol=1e-15)


def test_robust_against_numpy():
    x = np.random.default_rng(0).lognormal(size=(101, 3)) * [1e-3, 1, 1e6]
    x[np.random.default_rng(1).random(x.shape) < 0.2] = np.nan
    q1, q2, q3 = np.nanquantile(x, [0.25, 0.5, 0.75], axis=0, method="averaged_inverted_cdf")
    expected = np.nan_to_num(bend((x - q2) / (q3 - q1)))
    assert_allclose(encode(x)[:, :3], expected, rtol=1e-12)


def test_an_outlier_stays_within_three():
    # Of 1e9 spreads, a million are counted.
    matrix = encode([[0.0], [1.0], [2.0], [3.0]], [[1e9], [-1e300], [1.5]])
    assert_allclose(matrix, [[3.0], [-3.0], [0.0]], atol=1e-10)
    assert np.abs(matrix).max() < 3
    assert np.abs(encode([[0.0], [1.0]], [[1e300]], dtype="float32")).max() <= 3


def test_equal_steps_of_any_size():
    steps = np.array([[0.0], [1.0], [2.0]])
    expected = encode(steps)
    assert_allclose(expected, bend([[-0.5], [0.0], [0.5]]))
    for scale in (5e-324, 1e-300, 1e-200, 1e30, 1e200, 5e307):
        assert_allclose(encode(steps * scale), expected, rtol=1e-12)


def test_a_range_that_overflows():
    far = np.finfo(float).max
    assert_allclose(encode([[-far], [far]]), bend([[-0.5], [0.5]]))
    assert_allclose(encode([[-far], [far]], scaling="standard"), [[-1.0], [1.0]])
    assert_allclose(
        encode([[-far], [far]], scaling="quantile"), norm.ppf([[0.25], [0.75]]), rtol=1e-12
    )


# --- Any scaling ------------------------------------------------------------------------


@each_scaling
@settings(max_examples=60, deadline=None)
@given(table=tables(ANY), new=ANY)
def test_finite_for_any_finite_input(scaling, table, new):
    encoder = TabularEncoder(scaling=scaling, dtype="float64").fit(table)
    n_numbers = table.shape[1]
    matrix = np.vstack([encoder.transform(table), encoder.transform(np.full((1, n_numbers), new))])
    assert np.isfinite(matrix).all()
    limit = {"robust": 3, "standard": 1e6, "quantile": 5.2}[scaling]
    assert np.abs(matrix[:, :n_numbers]).max() <= limit
    # The order of the rows is kept.
    for before, after in zip(table.T, matrix[: len(table), :n_numbers].T, strict=True):
        order = np.argsort(before)[: np.count_nonzero(~np.isnan(before))]
        assert (np.diff(after[order]) >= 0).all()


@each_scaling
@settings(max_examples=60, deadline=None)
@given(weighted=WEIGHTED, unit=st.sampled_from([1.0, 0.001, 1e-300, 1e300]))
def test_weights_are_repetition_in_any_unit(scaling, weighted, unit):
    table, weight = weighted
    repeated = table.repeat(weight, axis=0)
    expected = encode(repeated, table, scaling=scaling)
    assert_allclose(
        encode(table, weight=weight * unit, scaling=scaling), expected, rtol=1e-9, atol=1e-9
    )


@each_scaling
@settings(max_examples=30, deadline=None)
@given(table=tables(SMALL), data=st.data())
def test_the_order_of_rows_and_columns_does_not_matter(scaling, table, data):
    rows = np.array(data.draw(st.permutations(range(len(table)))))
    columns = np.array(data.draw(st.permutations(range(table.shape[1]))))
    expected = encode(table, scaling=scaling)[:, : table.shape[1]]
    assert_allclose(
        encode(table[rows], table, scaling=scaling)[:, : table.shape[1]], expected, atol=1e-12
    )
    shuffled = encode(table[:, columns], scaling=scaling)[:, : table.shape[1]]
    assert_array_equal(shuffled, expected[:, columns])


@each_scaling
def test_a_row_alone_and_among_others(scaling):
    x = np.random.default_rng(0).normal(size=(30, 4))
    x[3, 1] = np.nan
    together = encode(x, scaling=scaling)
    for i in range(30):
        assert_array_equal(encode(x, x[[i]], scaling=scaling), together[[i]])


@each_scaling
def test_columns_that_say_nothing_are_zeros(scaling):
    x = np.array([[1.0, np.nan, 5e-324], [1.0, np.nan, 5e-324]])
    new = np.array([[7.0, 7.0, 1e308], [-1e308, np.nan, -1e308]])
    assert_array_equal(encode(x, new, scaling=scaling)[:, :3], np.zeros((2, 3)))


@each_scaling
def test_the_table_is_left_alone(scaling):
    x = np.random.default_rng(0).normal(size=(30, 4)) * 1e200
    x[3, 1] = np.nan
    before = x.copy()
    encode(x, scaling=scaling)
    assert_array_equal(x, before)
    frame = pd.DataFrame(x)
    encode(frame, scaling=scaling)
    assert_array_equal(frame, before)


def test_scaling_is_checked():
    with pytest.raises(ValueError, match=r"scaling must be one of .*'quantile'.*; got 'minmax'"):
        TabularEncoder(scaling="minmax").fit([[1.0]])


# --- Quantiles --------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(WEIGHTED)
def test_weighted_quantiles_are_those_of_repeated_values(weighted):
    table, weight = weighted
    values = table[:, 0]
    known = (weight > 0) & ~np.isnan(values)
    if not known.any():
        return
    shares = np.array([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.999, 1.0])
    repeated = values[known].repeat(weight[known])
    expected = np.quantile(repeated, shares, method="averaged_inverted_cdf")
    for unit in (1.0, 0.001, 1 / 3):
        found = weighted_quantiles(values[known], shares, weight[known] * unit)
        assert_array_equal(found, expected)
    assert_array_equal(weighted_quantiles(repeated, shares), expected)


def test_the_median_of_weighted_quantiles_is_the_median():
    x = np.random.default_rng(0).normal(size=(2, 101))
    for values in (x[0], x[0, :100]):
        assert weighted_quantiles(values, np.array([0.5]))[0] == pytest.approx(
            np.median(values), rel=1e-15
        )


def test_normal_scores_of_mean_ranks():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=200), rng.integers(0, 5, 200), rng.lognormal(size=200)])
    expected = norm.ppf((rankdata(x, axis=0) - 0.5) / 200)
    assert_allclose(encode(x, scaling="quantile"), expected, rtol=1e-12, atol=1e-12)


def test_normal_scores_of_new_numbers():
    # Shares 1/8, 3/8, 5/8 and 7/8 lie at 0, 1, 2 and 10.
    new = [[-5.0], [0.5], [6.0], [11.0], [np.nan]]
    expected = norm.ppf([[1 / 8], [2 / 8], [6 / 8], [7 / 8], [0.5]])
    assert_allclose(
        encode([[0.0], [1.0], [2.0], [10.0]], new, scaling="quantile"), expected, atol=1e-14
    )


@pytest.mark.parametrize("n_rows", [1999, 20_000])
def test_normal_scores_of_many_rows_come_from_a_thousand(n_rows):
    x = np.random.default_rng(0).lognormal(size=(n_rows, 1))
    exact = norm.ppf((rankdata(x, axis=0) - 0.5) / n_rows)
    encoder = TabularEncoder(scaling="quantile", dtype="float64").fit(x)
    assert len(encoder._scaler.knots[0][0]) <= 1000
    scores = encoder.transform(x)
    assert_allclose(scores[exact.argmin()], exact.min())
    assert_allclose(scores[exact.argmax()], exact.max())
    inner = np.abs(exact) < 2
    assert_allclose(scores[inner], exact[inner], atol=0.02)
    # scikit-learn's differ at the ends, which it takes for the ends of the normal distribution.
    theirs = QuantileTransformer(output_distribution="normal", subsample=None).fit_transform(x)
    assert_allclose(scores[inner], theirs[inner], atol=0.05)


def test_weights_of_normal_scores_with_many_rows():
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(3000, 1)), rng.integers(0, 3, 3000)
    expected = encode(x.repeat(weight, axis=0), x, scaling="quantile")
    assert_allclose(
        encode(x, weight=weight * 0.001, scaling="quantile"), expected, rtol=1e-9, atol=1e-9
    )


def test_normal_scores_of_a_row_of_next_to_no_weight_stay_finite():
    matrix = encode([[0.0], [1.0], [2.0]], weight=[1e-200, 1.0, 1e-200], scaling="quantile")
    assert_allclose(matrix, norm.ppf([[1e-7], [0.5], [1 - 1e-7]]), rtol=1e-6)
