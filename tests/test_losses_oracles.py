"""Every loss and penalty against a slow one of its own, row by row and pair by pair in Python."""

import math
from inspect import isclass

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skcal.neural import losses
from skcal.neural.losses import Loss, MixupLoss, MultiHeadLoss, PenalizedLoss, Penalty

# Made of other losses; their arithmetic is tested by itself.
COMPOSED = {MixupLoss, MultiHeadLoss, PenalizedLoss}


def proba_of(row):
    top = max(row)
    terms = [math.exp(z - top) for z in row]
    return [t / sum(terms) for t in terms]


def log_proba_of(row):
    top = max(row)
    total = math.log(sum(math.exp(z - top) for z in row))
    return [z - top - total for z in row]


def confidence_and_hit(row, y):
    proba = proba_of(row)
    return max(proba), float(row.index(max(row)) == y)


def cross_entropy(row, y, *, label_smoothing):
    logs, k = log_proba_of(row), len(row)
    share = [(1 - label_smoothing) * (j == y) + label_smoothing / k for j in range(k)]
    return -sum(s * log for s, log in zip(share, logs, strict=True))


def focal(row, y, *, gamma):
    others = sum(p for j, p in enumerate(proba_of(row)) if j != y)
    return -(others**gamma) * log_proba_of(row)[y]


def sample_dependent_focal(row, y, *, gamma, gamma_low, threshold):
    p = proba_of(row)[y]
    assume(abs(p - threshold) > 1e-9)
    return focal(row, y, gamma=gamma_low if p < threshold else gamma)


def dual_focal(row, y, *, gamma):
    proba = proba_of(row)
    below = [p for j, p in enumerate(proba) if row[j] < row[y]]
    others = sum(p for j, p in enumerate(proba) if j != y)
    return -((others + max(below, default=0.0)) ** gamma) * log_proba_of(row)[y]


def brier(row, y):
    return sum((p - (j == y)) ** 2 for j, p in enumerate(proba_of(row)))


def label_relaxation(row, y, *, alpha):
    proba, logs = proba_of(row), log_proba_of(row)
    assume(abs(proba[y] - (1 - alpha)) > 1e-9)
    if proba[y] >= 1 - alpha:
        return 0.0
    others = sum(p for j, p in enumerate(proba) if j != y)
    nearest = [1 - alpha if j == y else alpha * p / others for j, p in enumerate(proba)]
    return sum(q * (math.log(q) - log) for q, log in zip(nearest, logs, strict=True) if q > 0)


def logit_margin(rows, target, *, margin):
    return np.mean([max(0.0, max(row) - z - margin) for row in rows for z in row])


def mmce(rows, target, *, variant, rooted, bandwidth):
    pairs = [confidence_and_hit(row, y) for row, y in zip(rows, target, strict=True)]
    right = [r for r, c in pairs if c]
    wrong = [r for r, c in pairs if not c]

    def kernel(r, s):
        return math.exp(-abs(r - s) / bandwidth)

    if variant == "plain":
        total = sum((c - r) * (d - s) * kernel(r, s) for r, c in pairs for s, d in pairs)
        squared = total / len(pairs) ** 2
    elif not (right and wrong):
        return 0.0
    else:
        m, n = len(right), len(wrong)
        sums = [
            sum((1 - r) * (1 - s) * kernel(r, s) for r in right for s in right),
            sum(r * s * kernel(r, s) for r in wrong for s in wrong),
            -2 * sum((1 - r) * s * kernel(r, s) for r in right for s in wrong),
        ]
        counts, under_root = [m * m, n * n, m * n], 0.0
        if variant == "official":
            counts, under_root = [c * (c + 1e-5) for c in counts], 1e-10
        squared = sum(s / c for s, c in zip(sums, counts, strict=True)) + under_root
    return math.sqrt(max(squared, 0.0)) if rooted else squared


def mdca(rows, target):
    proba = [proba_of(row) for row in rows]
    n, k = len(rows), len(rows[0])
    gaps = [sum(p[j] for p in proba) / n - list(target).count(j) / n for j in range(k)]
    return sum(map(abs, gaps)) / k


def dca(rows, target):
    pairs = [confidence_and_hit(row, y) for row, y in zip(rows, target, strict=True)]
    return abs(sum(r - c for r, c in pairs)) / len(pairs)


def soft_avuc(rows, target, *, temperature, threshold):
    counts = {"AC": 0.0, "AU": 0.0, "IC": 0.0, "IU": 0.0}
    for row, y in zip(rows, target, strict=True):
        k = len(row)
        proba = [(1 - 1e-5) * p + 1e-5 / k for p in proba_of(row)]
        entropy = -sum(p * math.log(p) for p in proba)
        e = min(max(entropy / math.log(k), 1e-6), 1 - 1e-6)
        slope = (math.log(e / (1 - e)) - math.log(threshold / (1 - threshold))) / temperature
        u = 0.5 * (1 + math.tanh(slope / 2))
        hit = "A" if row.index(max(row)) == y else "I"
        counts[hit + "U"] += u * math.tanh(entropy)
        counts[hit + "C"] += (1 - u) * (1 - math.tanh(entropy))
    return math.log(1 + (counts["AU"] + counts["IC"]) / max(counts["AC"] + counts["IU"], 1e-5))


def soft_ece(rows, target, *, n_bins, temperature):
    pairs = [confidence_and_hit(row, y) for row, y in zip(rows, target, strict=True)]
    shares = []
    for r, _ in pairs:
        far = [-((r - (m + 0.5) / n_bins) ** 2) / temperature for m in range(n_bins)]
        shares.append(proba_of(far))
    total = 0.0
    for m in range(n_bins):
        size = sum(g[m] for g in shares)
        floor = max(size, 1e-5)
        conf = sum(g[m] * r for g, (r, _) in zip(shares, pairs, strict=True)) / floor
        acc = sum(g[m] * c for g, (_, c) in zip(shares, pairs, strict=True)) / floor
        total += size / len(pairs) * (conf - acc) ** 2
    return math.sqrt(total)


def uniform(low, high):
    return st.floats(low, high)


EXPONENTS = st.sampled_from([0.0, 0.5, 1.0, 2.5, 5.0])
# Of each class: the slow one, and what its parameters may be.
ORACLES = {
    "BrierLoss": (brier, {}),
    "CrossEntropy": (cross_entropy, {"label_smoothing": uniform(0, 0.9)}),
    "DualFocalLoss": (dual_focal, {"gamma": EXPONENTS}),
    "FocalLoss": (focal, {"gamma": EXPONENTS}),
    "LabelRelaxationLoss": (label_relaxation, {"alpha": uniform(0.01, 0.9)}),
    "SampleDependentFocalLoss": (
        sample_dependent_focal,
        {"gamma": EXPONENTS, "gamma_low": EXPONENTS, "threshold": uniform(0, 1)},
    ),
    "DCA": (dca, {}),
    "LogitMargin": (logit_margin, {"margin": uniform(0, 6)}),
    "MDCA": (mdca, {}),
    "MMCE": (
        mmce,
        {
            "variant": st.sampled_from(["plain", "weighted", "official"]),
            "rooted": st.booleans(),
            "bandwidth": uniform(0.05, 2),
        },
    ),
    "SoftAvUC": (soft_avuc, {"temperature": uniform(0.1, 2), "threshold": uniform(0.1, 0.9)}),
    "SoftECE": (soft_ece, {"n_bins": st.integers(1, 20), "temperature": uniform(0.001, 1)}),
}


@st.composite
def batches(draw):
    n, k = draw(st.integers(1, 9)), draw(st.integers(2, 5))
    # Thousandths: of classes nearly alike, which is the largest would be a matter of rounding.
    number = st.one_of(
        st.integers(-8000, 8000).map(lambda z: z / 1000), st.sampled_from([0.0, 1.0, -30.0, 40.0])
    )
    rows = draw(st.lists(st.lists(number, min_size=k, max_size=k), min_size=n, max_size=n))
    target = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    return rows, target


def test_every_public_loss_has_an_oracle():
    concrete = {
        name
        for name, thing in ((name, getattr(losses, name)) for name in losses.__all__)
        if isclass(thing)
        and issubclass(thing, (Loss, Penalty))
        and thing.__module__ != Loss.__module__
        and thing not in COMPOSED
    }
    assert concrete == set(ORACLES)


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), batch=batches())
def test_values_are_those_of_the_oracle(name, data, batch):
    slow, strategies = ORACLES[name]
    params = {key: data.draw(strategy, key) for key, strategy in strategies.items()}
    rows, target = batch
    logits, codes = torch.tensor(rows, dtype=torch.float64), torch.tensor(target)
    fast = getattr(losses, name)(**params)
    if isinstance(fast, Penalty):
        expected = slow(rows, target, **params)
    else:
        expected = [slow(row, y, **params) for row, y in zip(rows, target, strict=True)]
        fast.reduction = "none"
    # Of squares below 1e-12 the root is 0 here.
    atol = 1e-6 if params.get("rooted", name == "SoftECE") else 1e-10
    np.testing.assert_allclose(fast(logits, codes), expected, rtol=1e-7, atol=atol)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), batch=batches())
def test_several_heads_are_weighted_means_of_the_rows(data, batch):
    rows, target = batch
    n, k = len(rows), len(rows[0])
    positive = st.lists(uniform(0.1, 5), min_size=k, max_size=k)
    class_weights = data.draw(st.lists(positive, min_size=1, max_size=3))
    scales = [1.0, 0.5, -0.3][: len(class_weights)]
    sample_weight = data.draw(st.lists(uniform(0.1, 4), min_size=n, max_size=n))
    mean_loss = data.draw(st.booleans())

    terms = []
    for own, scale in zip(class_weights, scales, strict=True):
        factors = [s * own[y] for s, y in zip(sample_weight, target, strict=True)]
        values = [
            focal([scale * z for z in row], y, gamma=1.5)
            for row, y in zip(rows, target, strict=True)
        ]
        terms.append(np.dot(factors, values) / sum(factors))
    if mean_loss:
        scale = sum(scales) / len(scales)
        values = [
            focal([scale * z for z in row], y, gamma=1.5)
            for row, y in zip(rows, target, strict=True)
        ]
        terms.append(np.dot(sample_weight, values) / sum(sample_weight))

    logits = torch.tensor(rows, dtype=torch.float64)
    loss = MultiHeadLoss(class_weights, losses.FocalLoss(1.5), mean_loss=mean_loss)
    value = loss(
        torch.stack([scale * logits for scale in scales], 1),
        torch.tensor(target),
        torch.tensor(sample_weight, dtype=torch.float64),
    )
    assert value.item() == pytest.approx(np.mean(terms), rel=1e-9, abs=1e-12)
