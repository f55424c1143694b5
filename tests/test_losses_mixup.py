"""Losses of mixed rows and of several heads: golden values, weights, seeds, and shares."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.nn.functional import cross_entropy

from skcal.neural.losses import (
    FocalLoss,
    LogitMargin,
    Mix,
    MixupLoss,
    MultiHeadLoss,
    PenalizedLoss,
    make_loss,
    partition_weights,
)

LOGITS = torch.tensor(
    [[2, 1, 0], [0.5, 1.5, -1], [-1, 0, 1], [1.2, 1.0, -0.5]], dtype=torch.float64
)
TARGET = torch.tensor([0, 1, 0, 1])


def test_mixup_golden_value_and_soft_targets():
    mix = Mix(torch.tensor([1, 2, 3, 0]), 0.3)
    loss = MixupLoss()(LOGITS, TARGET, mix=mix)
    assert loss.item() == pytest.approx(1.160151, abs=1e-6)
    one_hot = torch.eye(3, dtype=torch.float64)[TARGET]
    assert loss.item() == pytest.approx(cross_entropy(LOGITS, mix.of(one_hot)).item(), rel=1e-14)


def test_mixup_weighs_each_label_by_its_row():
    weight = torch.tensor([1.0, 0.0, 3.0, 0.5], dtype=torch.float64)
    mix = Mix(torch.tensor([1, 3, 2, 0]), 0.6)
    first, second = (
        weight[rows] * cross_entropy(LOGITS, TARGET[rows], reduction="none")
        for rows in (torch.arange(4), mix.partner)
    )
    expected = 0.6 * first + 0.4 * second
    for reduction, value in (
        ("none", expected),
        ("sum", expected.sum()),
        ("mean", expected.sum() / weight.sum()),
    ):
        got = MixupLoss(reduction=reduction)(LOGITS, TARGET, weight, mix=mix)
        assert_allclose(got, value, rtol=1e-14)


def test_mixup_takes_other_losses_of_the_rows():
    mix = Mix(torch.tensor([1, 2, 3, 0]), 0.3)
    for base in (FocalLoss(1), PenalizedLoss(LogitMargin(1), 0.1), torch.nn.MultiMarginLoss()):
        expected = 0.3 * base(LOGITS, TARGET) + 0.7 * base(LOGITS, TARGET[mix.partner])
        assert MixupLoss(base=base)(LOGITS, TARGET, mix=mix).item() == pytest.approx(
            expected.item(), rel=1e-12
        )


def test_mixtures_are_drawn_from_beta_and_from_a_generator_of_their_own():
    numpy_before, torch_before = repr(np.random.get_state()), torch.get_rng_state()  # noqa: NPY002
    loss = MixupLoss(0.3, random_state=5)
    shares = np.array([loss.draw(1).share for _ in range(4000)])
    MixupLoss(0.3).draw(9)
    assert repr(np.random.get_state()) == numpy_before  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert shares.mean() == pytest.approx(0.5, abs=0.03)
    assert shares.var() == pytest.approx(1 / (4 * 1.6), rel=0.05)  # of Beta(a, a): 1 / (8a + 4)
    loss.seed(5)
    again = MixupLoss(0.3, random_state=5)
    for _ in range(3):
        a, b = loss.draw(20), again.draw(20)
        assert a.share == b.share
        assert torch.equal(a.partner, b.partner)
        assert sorted(a.partner.tolist()) == list(range(20))
    assert MixupLoss(0.3).draw(20).share != MixupLoss(0.3).draw(20).share
    assert MixupLoss(0).draw(20).share == 1


def test_a_mixture_moves_to_the_device_of_its_rows():
    mix = MixupLoss(random_state=0).draw(5)
    moved = mix.to("meta")
    assert (moved.partner.device.type, moved.share) == ("meta", mix.share)
    assert torch.equal(mix.to("cpu").partner, mix.partner)


def test_mixup_refuses_what_belongs_to_another_batch():
    with pytest.raises(ValueError, match="mix is of 3 rows, but the batch has 4"):
        MixupLoss()(LOGITS, TARGET, mix=MixupLoss().draw(3))


HEADS = torch.tensor(
    [
        [[2, 0, -1], [0, 1, 0], [0.5, 0.5, 2], [-1, 0, 1]],
        [[1, 0.5, 0], [0, 2, 0], [0, 0, 1], [1, 0, 1]],
    ],
    dtype=torch.float64,
).transpose(0, 1)
HEAD_TARGET, HEAD_WEIGHTS = torch.tensor([0, 1, 2, 1]), [[2, 0.5, 0.5], [0.5, 2, 2]]


def test_multi_head_golden_values():
    total = MultiHeadLoss(HEAD_WEIGHTS)(HEADS, HEAD_TARGET)
    assert total.item() == pytest.approx(0.6598680812, abs=1e-10)
    for head, expected in enumerate([0.4296308417, 0.8686312929]):
        alone = MultiHeadLoss(HEAD_WEIGHTS[head : head + 1], mean_loss=False)
        value = alone(HEADS[:, head : head + 1], HEAD_TARGET)
        assert value.item() == pytest.approx(expected, abs=1e-10)
    both = MultiHeadLoss(HEAD_WEIGHTS, mean_loss=False)(HEADS, HEAD_TARGET)
    assert both.item() == pytest.approx((0.4296308417 + 0.8686312929) / 2, abs=1e-10)


def test_one_head_without_weights_is_its_loss():
    for base in ("cross_entropy", FocalLoss(1.5), torch.nn.CrossEntropyLoss()):
        loss = MultiHeadLoss([[3.0, 3.0, 3.0]], base)
        expected = make_loss(base)(HEADS[:, 0], HEAD_TARGET)
        assert loss(HEADS[:, :1], HEAD_TARGET).item() == pytest.approx(expected.item())


def test_the_heads_that_are_best_answer_as_documented():
    # Each head at its optimum: no gradient, and the mean of the logits is the truth.
    truth = torch.tensor([0.5, 0.2, 0.2, 0.1], dtype=torch.float64)
    weights = partition_weights(4, 2, random_state=0)
    logits = (torch.from_numpy(weights) * truth).log().repeat(4, 1, 1).requires_grad_()
    MultiHeadLoss(weights)(logits, torch.arange(4), truth).backward()
    assert_allclose(logits.grad.sum(0), np.zeros((2, 4)), atol=1e-15)
    assert_allclose(logits[0].detach().mean(0).softmax(0), truth, rtol=1e-12)
    assert logits[0].detach().softmax(1).mean(0).max() < truth.max()


@pytest.mark.parametrize(("n_classes", "n_heads"), [(7, 3), (2, 2), (2, 4), (5, 1)])
def test_classes_are_shared_out_evenly(n_classes, n_heads):
    weights = partition_weights(n_classes, n_heads, random_state=1)
    strong = (weights == n_heads) & (weights.min(axis=1, keepdims=True) < 1)
    shares = strong.sum(axis=1)
    assert weights.shape == (n_heads, n_classes)
    if n_heads > 1:
        assert (strong.sum(axis=0) == 1).all()  # each class is one head's
        assert shares.max() - shares.min() <= 1
        assert_allclose(weights[~strong & (shares > 0)[:, None]], 1 / n_heads)
    assert (weights[shares == 0] == 1).all()
    assert (weights == partition_weights(n_classes, n_heads, random_state=1)).all()


def test_another_head_weight_and_other_classes_by_another_seed():
    weights = partition_weights(6, 3, 10.0, random_state=0)
    assert set(np.unique(weights)) == {0.1, 10.0}
    assert any((partition_weights(6, 3, 10.0, random_state=s) != weights).any() for s in (1, 2))


def test_class_weights_are_copied_and_may_be_read_only():
    weights = np.array(HEAD_WEIGHTS)
    loss = MultiHeadLoss(weights)
    before = loss(HEADS, HEAD_TARGET)
    weights[:] = [[1, 5, 1], [2, 2, 9]]
    assert loss(HEADS, HEAD_TARGET) == before
    weights.flags.writeable = False
    MultiHeadLoss(weights)
    tensor = torch.tensor(HEAD_WEIGHTS, dtype=torch.float64)
    loss = MultiHeadLoss(tensor)
    tensor += 1
    assert loss(HEADS, HEAD_TARGET) == before
