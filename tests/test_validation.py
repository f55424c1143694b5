"""The door: what goes through, what is refused, and in which words."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skcal._validation import (
    check_labels,
    check_predictions,
    check_proba,
    check_scores,
    check_weights,
    encode_labels,
    log_probabilities,
    resolve_classes,
    zero_probability,
)
from skcal.calibration import TemperatureScaling
from skcal.metrics import log_loss

ROWS = np.array([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0], [0.0, 1.0, 0.0]])


def refused(message):
    return pytest.raises(ValueError, match=re.escape(message))


# --- Probabilities -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrap",
    [list, pd.DataFrame, torch.tensor, np.asfortranarray, lambda p: p.astype(np.longdouble)],
)
def test_probabilities_come_out_as_float64_matrices(wrap):
    proba = check_proba(wrap(ROWS))
    assert type(proba) is np.ndarray
    assert proba.dtype == np.float64
    assert_allclose(proba, ROWS, atol=1e-15)


@pytest.mark.parametrize("wrap", [lambda p: p, lambda p: p[:, None], lambda p: pd.Series(p)])
def test_a_single_column_is_the_second_class(wrap):
    assert_array_equal(check_proba(wrap(np.array([0.25, 1.0]))), [[0.75, 0.25], [0.0, 1.0]])


def test_whole_numbers_and_booleans_are_probabilities():
    assert_array_equal(check_proba([0, 1]), [[1, 0], [0, 1]])
    assert_array_equal(check_proba(np.array([True, False])), [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("dtype", "inside", "outside"),
    [(np.float64, 5e-7, 2e-6), (np.float32, 5e-4, 2e-3), (np.float16, 5e-3, 2e-2)],
)
def test_rows_may_miss_one_by_what_rounding_does_in_their_type(dtype, inside, outside):
    near = (np.array([[0.5, 0.5], [0.25, 0.75]]) * (1 + inside)).astype(dtype)
    assert np.abs(near.sum(axis=1, dtype=np.float64) - 1).max() > inside / 2
    assert_allclose(check_proba(near), [[0.5, 0.5], [0.25, 0.75]], atol=2e-3)
    assert_array_equal(check_proba(near).sum(axis=1), 1)
    far = (np.array([[0.5, 0.5], [0.25, 0.75]]) * [[1], [1 + outside]]).astype(dtype)
    with pytest.raises(ValueError, match=r"^Each row of y_proba must sum to 1; row 1 sums to 1\."):
        check_proba(far)


def test_rows_are_rescaled_in_proportion():
    # Also where the largest entry passes one.
    off = np.array([[1.0004, 0.0004]], dtype=np.float32)
    assert_allclose(check_proba(off), off / off.astype(float).sum(), rtol=1e-12)


def test_a_sum_that_is_off_names_row_sum_and_way_out():
    with refused("Each row of P must sum to 1; row 1 sums to 0.9. Divide by the row sums if"):
        check_proba([[0.5, 0.5], [0.5, 0.4]], name="P")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (
            [[0.5, 0.5], [1.5, -0.5]],
            "row 1 is [ 1.5 -0.5]. If these are logits, apply softmax first",
        ),
        ([0.5, 0.5, -0.2], "y_proba must be probabilities in [0, 1]; row 2 is -0.2"),
        ([0.5, 7.0], "row 1 is 7.0"),
    ],
)
def test_numbers_outside_0_and_1_name_the_row(scores, message):
    with refused(message):
        check_proba(scores)


def test_rounding_below_zero_and_above_one_is_forgiven():
    assert_array_equal(check_proba([-1e-9, 1 + 1e-9]), [[1, 0], [0, 1]])
    assert check_proba([[1 + 1e-9, -1e-9]])[0, 1] == 0


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[0.5, 0.5], [np.nan, 0.5]], "y_proba holds NaN in row 1; every score must be a finite"),
        ([0.5, 0.5, np.inf], "y_proba holds infinity in row 2"),
        ([[0.5, -np.inf]], "y_proba holds infinity in row 0"),
        (np.zeros((2, 2, 2)), "shape (n,) or (n, K), one column per class; got (2, 2, 2)"),
        (0.5, "one column per class; got ()"),
        ([], "y_proba has no rows or no columns (shape (0,))"),
        (np.zeros((3, 0)), "y_proba has no rows or no columns (shape (3, 0))"),
        ([["a", "b"]], "y_proba must be real numbers"),
        ([[0.5, 0.5], [1.0]], "y_proba must be real numbers"),
        (np.array([[0.5 + 0j, 0.5]]), "y_proba must be real numbers"),
        (torch.ones(2, 2, dtype=torch.bfloat16) / 2, "Got unsupported ScalarType BFloat16"),
    ],
)
def test_what_is_no_matrix_of_numbers(scores, message):
    with refused(message):
        check_proba(scores)


def test_a_sparse_matrix_names_toarray():
    with pytest.raises(TypeError, match=r"y_proba is sparse; pass y_proba\.toarray\(\) instead"):
        check_proba(sparse.csr_matrix(ROWS))


def test_a_tensor_of_a_graph_is_read():
    tensor = torch.tensor(ROWS, requires_grad=True) * 1
    assert_allclose(check_proba(tensor), ROWS, atol=1e-15)


# --- Scores of a declared kind -----------------------------------------------------------------


def test_logits_are_handed_on_as_they_are():
    logits = [[3, -1, 0], [0.2, 0.3, 0.5]]
    assert_array_equal(check_scores(logits, input="logits"), logits)


@pytest.mark.parametrize("odds", [[2.0, -3.0], [[2.0], [-3.0]]])
def test_a_single_logit_is_the_log_odds_of_the_second_class(odds):
    log_proba = log_probabilities(check_scores(odds, input="logits"), input="logits")
    second = 1 / (1 + np.exp([-2.0, 3.0]))
    assert_allclose(np.exp(log_proba), np.column_stack([1 - second, second]), rtol=1e-12)


def test_the_kind_must_be_known():
    with refused("input must be 'proba' or 'logits'; got 'auto'."):
        check_scores(ROWS, input="auto")
    with refused("Each row of scores must sum to 1"):
        check_scores([[0.5, 0.4]], input="proba")
    with refused("scores holds NaN in row 0"):
        check_scores([[np.nan, 0.4]], input="logits")


def test_logarithms_of_probabilities():
    log_proba = log_probabilities(check_proba(ROWS[:1]), input="proba")
    assert_allclose(log_proba, np.log(ROWS[:1]), rtol=1e-12)
    # Zero is raised to eps, and the row normalised.
    log_proba = log_probabilities(check_proba(ROWS), input="proba", eps=0.01)
    assert_allclose(np.exp(log_proba).sum(axis=1), 1, rtol=1e-12)
    assert_allclose(np.exp(log_proba[2]), np.array([0.01, 1, 0.01]) / 1.02, rtol=1e-12)
    assert np.isfinite(log_probabilities(ROWS, input="proba")).all()


@pytest.mark.parametrize(
    ("proba", "expected"),
    [
        ([[0.2, 0.8], [0.5, 0.5]], 1.1754943508222875e-38),  # no zeros: float32's smallest
        ([[0.0, 1.0], [0.02, 0.98]], 0.01),
        ([[0.0, 1.0], [1.0, 0.0]], 0.5),
        ([[0.0, 1.0], [1e-300, 1.0]], 1.1754943508222875e-38),
    ],
)
def test_what_a_zero_stands_for(proba, expected):
    assert zero_probability(np.array(proba)) == pytest.approx(expected, rel=1e-12, abs=0)


# --- Labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a"], ["b", "a"]),
        ([True, False], [True, False]),
        ([-3, 10], [-3, 10]),
        ([1.0, 2.0], [1.0, 2.0]),
        ([[1], [2]], [1, 2]),
        (pd.Series([5, 6], index=[1, 0]), [5, 6]),
        (pd.Series([5, 6], dtype="Int64"), [5, 6]),
        (pd.Series([True, False], dtype="boolean"), [True, False]),
        (pd.Categorical(["x", "y"], categories=["y", "x", "z"]), ["x", "y"]),
        (pd.Series(["x", "y"], dtype="string"), ["x", "y"]),
        (np.array([1, 2], dtype=object), [1, 2]),
        (torch.tensor([1, 0]), [1, 0]),
    ],
)
def test_labels_of_any_kind(labels, expected):
    found = check_labels(labels)
    assert found.shape == (2,)
    assert found.tolist() == expected
    assert found.dtype.kind in ("OU" if isinstance(expected[0], str) else "bif")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1.0, np.nan], "y has a missing or infinite label in row 1"),
        ([np.inf, 1.0], "y has a missing or infinite label in row 0"),
        (np.array(["a", None], dtype=object), "y has a missing or infinite label in row 1"),
        (pd.Series(["a", pd.NA], dtype="string"), "label in row 1"),
        (pd.Series([pd.NA, 1], dtype="Int64"), "label in row 0"),
        (pd.Categorical(["a", None]), "label in row 1"),
        ([0.5, 1.0], "strings, booleans or whole numbers), not fractions"),
        (np.array([0.5, 1.0], dtype=object), "not fractions"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "not datetime64[D]"),
        (np.array([1, "a"], dtype=object), "classes of one kind (strings, booleans or whole"),
        ([[1, 0], [0, 1]], "y must be one-dimensional; got shape (2, 2)"),
        (3, "y must be one-dimensional; got shape ()"),
    ],
)
def test_labels_that_are_refused(labels, message):
    with refused(message):
        check_labels(labels)


def test_labels_are_called_by_their_name():
    with refused("classes has a missing or infinite label in row 0"):
        check_labels([np.nan], name="classes")


# --- Classes of the columns --------------------------------------------------------------------


def test_classes_are_the_sorted_labels_if_there_are_as_many_as_columns():
    assert_array_equal(resolve_classes(["b", "c", "a", "b"], 3), ["a", "b", "c"])


@pytest.mark.parametrize("n_classes", [2, 4])
def test_classes_that_cannot_be_told_are_asked_for(n_classes):
    message = f"The labels hold 3 classes but there are {n_classes} score columns; name the class"
    with refused(message):
        resolve_classes([0, 1, 2], n_classes)


def test_given_classes_keep_their_order():
    given = ["lo", "mid", "hi", "never"]
    assert_array_equal(resolve_classes(["hi", "lo"], 4, given), given)


@pytest.mark.parametrize(
    ("labels", "n_classes", "classes", "message"),
    [
        ([0, 1], 3, [0, 1], "There are 3 score columns but 2 classes were given."),
        ([0, 1], 3, [0, 1, 1], "The classes must be distinct; got [0, 1, 1]."),
        ([0, 5], 2, [0, 1], "Label 5 is not among the classes [0, 1]; the scores have no column"),
        (["a"], 2, [0, 1], "Label 'a' is not among the classes [0, 1]"),
        ([1], 2, ["1", "2"], "Label 1 is not among the classes ['1', '2']"),
        ([0, 1], 2, [0, None], "classes has a missing or infinite label in row 1"),
    ],
)
def test_given_classes_that_do_not_fit(labels, n_classes, classes, message):
    with refused(message):
        resolve_classes(labels, n_classes, classes)


def test_column_numbers_stand_for_columns_only_where_that_is_allowed():
    assert_array_equal(resolve_classes([0, 2], 4, columns_are_codes=True), [0, 1, 2, 3])
    assert_array_equal(resolve_classes([False], 2, columns_are_codes=True), [0, 1])
    for labels in ([0, 4], [-1, 2], ["a", "b"]):
        with refused("name the class of each column"):
            resolve_classes(labels, 4, columns_are_codes=True)
    with refused("name the class of each column"):
        resolve_classes([0, 2], 4)


@given(st.permutations(["ant", "bee", "cow", "dog"]), st.lists(st.integers(0, 3), min_size=1))
def test_codes_are_the_places_of_the_labels(classes, codes):
    classes = np.array(classes)
    assert_array_equal(encode_labels(classes[codes], classes), codes)


# --- Weights -----------------------------------------------------------------------------------


def test_weights():
    assert_array_equal(check_weights(None, ROWS), [1, 1, 1])
    weights = check_weights([1, 0, 2], ROWS)
    assert_array_equal(weights, [1, 0, 2])
    assert weights.dtype == np.float64


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -0.5, 1], "must not be negative; row 1 has -0.5. A weight of 0 leaves a row out."),
        ([0, 0, 0], "at least one non-zero"),
        ([1, np.nan, 1], "contains NaN"),
        ([1, np.inf, 1], "contains infinity"),
        ([1, 1], "sample_weight.shape == (2,), expected (3,)"),
    ],
)
def test_weights_that_are_refused(weights, message):
    with refused(message):
        check_weights(weights, ROWS)


# --- All of it, as metrics use it --------------------------------------------------------------


def test_predictions_go_through_the_same_door():
    codes, proba, weights, classes = check_predictions(["b", "a", "c"], ROWS, [1, 2, 3])
    assert_array_equal(codes, [1, 0, 2])
    assert_allclose(proba, ROWS)
    assert_array_equal(weights, [1, 2, 3])
    assert_array_equal(classes, ["a", "b", "c"])
    codes, *_ = check_predictions(["b", "a", "b"], ROWS, labels=["b", "a", "z"])
    assert_array_equal(codes, [0, 1, 0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        check_predictions([0, 1], ROWS)


# --- Tables and text ----------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [["bad", "good"], [0, 1]])
def test_columns_named_after_the_classes_must_be_in_their_order(labels):
    y = np.array(labels)[[0, 1, 1, 0]]
    proba = np.array([[0.8, 0.2], [0.3, 0.7], [0.4, 0.6], [0.9, 0.1]])
    table = pd.DataFrame(proba, columns=labels)
    swapped = table[labels[::-1]]
    assert log_loss(y, table) == log_loss(y, proba)
    assert log_loss(y, table.rename(columns=lambda name: f"p_{name}")) == log_loss(y, proba)
    scaling = TemperatureScaling().fit(table, y)
    for call in (
        lambda: log_loss(y, swapped),
        lambda: TemperatureScaling().fit(swapped, y),
        lambda: scaling.predict_proba(swapped),
    ):
        with pytest.raises(ValueError, match=r"columns .* are named .* stand for the classes"):
            call()
    # In the order that is declared.
    assert log_loss(y, swapped, labels=labels[::-1]) == pytest.approx(log_loss(y, proba))


@pytest.mark.parametrize(
    "scores", [["0", "1", "1"], np.array(["0", "1", "1"], dtype=object), pd.Series(["0", "1", "1"])]
)
def test_text_is_no_score(scores):
    with pytest.raises(ValueError, match="text, as predict returns; use predict_proba"):
        log_loss([0, 1, 1], scores)


@pytest.mark.parametrize("size", [1e31, -1e100, 1e308])
def test_logits_that_overflow_are_refused(size):
    logits = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, size]])
    with pytest.raises(ValueError, match=r"within ±1e\+30; row 2 is"):
        TemperatureScaling(input="logits").fit(logits, [0, 1, 1])


def test_large_labels_of_mixed_signs_are_told_apart():
    classes = np.array([2**60, 2**60 + 1])
    assert encode_labels(classes.astype(np.uint64), classes).tolist() == [0, 1]
