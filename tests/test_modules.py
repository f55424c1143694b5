"""Dropout from a generator of its own: shares, scale, bits; and rules for tables of any size."""

import copy
import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from skcal.neural import Dropout
from skcal.neural._presets import batch_size_for, max_epochs_for

N = 1_000_003  # not a multiple of four, the values that share a draw


def dropout(p, seed=0):
    layer = Dropout(p)
    layer.generator = torch.Generator().manual_seed(seed)
    return layer


def five_sigma(p, n):
    return 5 * np.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.25, 0.3, 0.5, 0.9, 0.999])
def test_the_share_asked_for_is_dropped_and_the_rest_scaled(p):
    out = dropout(p)(torch.ones(N, dtype=torch.float64)).numpy()
    assert (out == 0).mean() == pytest.approx(p, abs=five_sigma(p, N) + 2**-17)
    (scale,) = np.unique(out[out != 0])
    assert scale == pytest.approx(1 / (1 - p), rel=2**-17 / (1 - p))
    # The standard deviation of a value is sqrt(p / (1 - p)).
    assert out.mean() == pytest.approx(1, abs=5 * np.sqrt(p / (1 - p) / N))


@pytest.mark.parametrize("p", [0.5, 0.25, 0.125, 0.75])
def test_probabilities_that_bits_can_hold_scale_exactly(p):
    assert set(dropout(p)(torch.ones(100, dtype=torch.float64)).tolist()) == {0.0, 1 / (1 - p)}


@pytest.mark.parametrize("p", [1e-9, 1e-7, 7e-6])
def test_a_probability_below_one_draw_drops_nothing_and_scales_nothing(p):
    out = dropout(p)(torch.ones(N))
    assert set(out.tolist()) <= {0.0, 1.0}
    assert (out == 0).double().mean().item() == pytest.approx(p, abs=2**-16)


@pytest.mark.parametrize("p", [0.9999, 0.99999, 0.9999999, 1 - 1e-12])
def test_a_probability_near_one_drops_nearly_all_and_keeps_the_mean(p):
    layer, n = dropout(p), 4_000_000
    kept, total = 0, 0.0
    for _ in range(5):
        out = layer(torch.ones(n, dtype=torch.float64))
        kept, total = kept + int((out > 0).sum()), total + float(out.sum())
    share = max(1 - p, 2**-16)
    assert kept / (5 * n) == pytest.approx(share, abs=2**-17 + five_sigma(share, 5 * n))
    assert total / (5 * n) == pytest.approx(1, abs=5 * np.sqrt(1 / share / (5 * n)))


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_probabilities_out_of_range_are_refused(p):
    with pytest.raises(ValueError, match=r"0 <= p < 1; got p="):
        Dropout(p)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 3, 5), (0,), (0, 4), (4, 0)])
def test_any_shape(shape):
    out = dropout(0.5)(torch.ones(shape))
    assert out.shape == shape
    assert set(out.flatten().tolist()) <= {0.0, 2.0}


def test_rows_that_are_not_contiguous():
    x = torch.arange(1.0, 36).reshape(5, 7).T
    out = dropout(0.5)(x)
    assert ((out == 0) | (out == 2 * x)).all()
    assert (out == 0).any()
    assert (out != 0).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_types_stay(dtype):
    x = torch.linspace(-2, 2, 1001, dtype=torch.float64).to(dtype)
    out = dropout(0.3)(x)
    assert out.dtype == dtype
    kept = out != 0
    assert 600 < kept.sum() < 800
    precision = 2 * torch.finfo(dtype).eps + 2**-16
    assert_allclose(out[kept].double(), x[kept].double() / 0.7, rtol=precision)


def test_the_gradient_is_the_mask():
    layer, x = dropout(0.3), torch.randn(50, 9, generator=torch.Generator().manual_seed(1))
    x.requires_grad_()
    out = layer(x)
    out.sum().backward()
    assert set(torch.unique(x.grad == 0).tolist()) == {False, True}
    assert_allclose((x.grad * x).detach(), out.detach(), rtol=1e-6)
    assert len(torch.unique(x.grad)) == 2


def test_the_same_seed_gives_the_same_bits():
    x = torch.ones(1001)
    layer = dropout(0.3, seed=5)
    first, second = layer(x), layer(x)
    assert torch.equal(dropout(0.3, seed=5)(x), first)
    assert not torch.equal(second, first)
    assert not torch.equal(dropout(0.3, seed=6)(x), first)


def test_the_process_wide_generator_is_neither_read_nor_moved():
    x, outs = torch.ones(1001), []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        outs.append(dropout(0.3)(x))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*outs)


@pytest.mark.parametrize("n_columns", [4, 5, 7, 128])
def test_values_are_dropped_independently_of_each_other(n_columns):
    """Four values share a draw of 64 bits; they must not share their fate."""
    n, p = 40_000, 0.3
    dropped = (dropout(p)(torch.ones(n, n_columns)) == 0).double().numpy()
    bound = five_sigma(p, n)
    assert np.abs(dropped.mean(axis=0) - p).max() < bound
    pairs = np.corrcoef(dropped.T)[np.triu_indices(n_columns, 1)]
    assert np.abs(pairs).max() < 5.5 / np.sqrt(n)
    following = dropped.ravel()
    for lag in (*range(1, 9), n_columns, 4 * n_columns):
        r = np.corrcoef(following[:-lag], following[lag:])[0, 1]
        assert abs(r) < 5 / np.sqrt(len(following)), lag
    # Counts of a row are binomial.
    assert dropped.sum(axis=1).var() == pytest.approx(n_columns * p * (1 - p), rel=0.05)


def test_eval_mode_and_no_dropout_pass_on():
    x = torch.ones(5)
    assert dropout(0.9).eval()(x) is x
    assert dropout(0)(x) is x


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_have_no_generator_until_they_are_given_one(copier):
    layer = dropout(0.3)
    copied = copier(layer)
    assert copied.generator is None
    assert copied.p == 0.3
    copied.generator = torch.Generator().manual_seed(0)
    assert torch.equal(copied(torch.ones(99)), layer(torch.ones(99)))


# --- Rules for tables of any size -------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "max_epochs"),
    [
        (1, 128, 200),
        (150, 128, 200),
        (4_000, 128, 200),
        (12_000, 256, 200),
        (100_000, 1024, 200),
        (500_000, 1024, 40),
        (10_000_000, 1024, 10),
    ],
)
def test_batches_and_epochs_by_rows(n_rows, batch_size, max_epochs):
    assert (batch_size_for(n_rows), max_epochs_for(n_rows)) == (batch_size, max_epochs)


def test_more_rows_mean_larger_batches_and_no_more_epochs():
    rows = np.unique(np.geomspace(1, 5e6, 3000).astype(int)).tolist()
    sizes, epochs = ([rule(n) for n in rows] for rule in (batch_size_for, max_epochs_for))
    assert sizes == sorted(sizes)
    assert set(sizes) == {128, 256, 512, 1024}
    assert epochs == sorted(epochs, reverse=True)
    # Between the bounds an epoch has 48 batches, give or take the rounding to a power of two.
    batches = [n / size for n, size in zip(rows, sizes, strict=True) if 5_000 < n < 60_000]
    assert 33.9 < min(batches) < max(batches) < 67.9
