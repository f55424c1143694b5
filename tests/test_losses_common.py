"""What every loss and penalty must do; new ones are found by themselves.

Expected values come from properties and from torch; those of each formula are in
`test_losses.py` and `test_losses_oracles.py`.
"""

import copy
import pickle
from inspect import Parameter, isclass, signature
from itertools import product
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from numpy.testing import assert_allclose
from torch.utils._python_dispatch import TorchDispatchMode

from skcal.neural import losses
from skcal.neural.losses import Loss, MultiHeadLoss, PenalizedLoss, Penalty, RowPenalty


class TwoHeads(torch.nn.Module):
    """The loss of two heads, for the logits of one."""

    def __init__(self, **params):
        super().__init__()
        self.loss = MultiHeadLoss([[2.0, 0.5, 1.0], [0.5, 2.0, 1.0]], **params)

    def forward(self, logits, target, sample_weight=None):
        return self.loss(torch.stack([logits, -0.5 * logits], 1), target, sample_weight)


def options(cls):
    """Return all settings of the parameters that are words or switches."""
    choices = {
        name: (False, True) if hint is bool else get_args(hint)
        for name, hint in get_type_hints(cls.__init__).items()
        if hint is bool or get_origin(hint) is Literal
    }
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def needs_arguments(cls):
    return any(p.default is Parameter.empty for p in signature(cls).parameters.values())


def name_of(cls, params):
    return " ".join([cls.__name__, *(f"{key}={value}" for key, value in params.items())])


CLASSES = [
    thing
    for thing in (getattr(losses, name) for name in losses.__all__)
    if isclass(thing) and issubclass(thing, (Loss, Penalty)) and thing.__module__ != Loss.__module__
]
SIMPLE = {
    name_of(cls, params): (cls, params)
    for cls in CLASSES
    if not needs_arguments(cls)
    for params in options(cls)
}
PENALTIES = {name: made for name, made in SIMPLE.items() if issubclass(made[0], Penalty)}
COMPOSED = {
    PenalizedLoss: {
        f"PenalizedLoss {name}": (PenalizedLoss, {"penalty": cls(**params), "min_batch_size": 0})
        for name, (cls, params) in PENALTIES.items()
    },
    MultiHeadLoss: {
        name_of(MultiHeadLoss, params): (TwoHeads, params) for params in options(MultiHeadLoss)
    },
}
ALL = SIMPLE | {name: made for group in COMPOSED.values() for name, made in group.items()}
LOSSES = {name: made for name, made in ALL.items() if name not in PENALTIES}
HEADS = [name for name in ALL if name.startswith("MultiHeadLoss")]
OF_THE_BATCH = [name for name, (cls, _) in PENALTIES.items() if not issubclass(cls, RowPenalty)]
OFFICIAL = [name for name in ALL if "variant=official" in name]


def make(name, **params):
    cls, own = ALL[name]
    return copy.deepcopy(cls(**own, **params))


def every(names, *, but=()):
    return pytest.mark.parametrize("name", [name for name in names if name not in but])


def batch(n=12, n_classes=3, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, n_classes, generator=generator, dtype=torch.float64)
    target = torch.where(
        torch.rand(n, generator=generator) < 0.6,
        logits.argmax(1),
        torch.randint(n_classes, (n,), generator=generator),
    )
    return logits.to(dtype), target


def value_and_gradient(loss, logits, target, *weights):
    logits = logits.clone().requires_grad_()
    value = loss(logits, target, *weights)
    value.sum().backward()
    return value.detach(), logits.grad


def require_same(got, expected, rtol=1e-10, atol=1e-12):
    for a, b in zip(got, expected, strict=True):
        assert_allclose(a, b, rtol=rtol, atol=atol)


def test_what_needs_arguments_is_composed_here():
    assert {cls for cls in CLASSES if needs_arguments(cls)} == set(COMPOSED)


# Invariances


@every(ALL)
def test_the_order_of_the_rows_does_not_matter(name):
    logits, target = batch()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    value, gradient = value_and_gradient(make(name), logits, target)
    permuted = value_and_gradient(make(name), logits[order], target[order])
    require_same(permuted, (value, gradient[order]))


@every(ALL, but=HEADS)  # a head has weights for each class
def test_the_order_of_the_classes_does_not_matter(name):
    logits, target = batch(n_classes=4)
    order = torch.tensor([2, 0, 3, 1])
    value, gradient = value_and_gradient(make(name), logits, target)
    permuted = value_and_gradient(make(name), logits[:, order], order.argsort()[target])
    require_same(permuted, (value, gradient[:, order]))


@every(ALL)
def test_a_constant_added_to_a_row_does_not_matter(name):
    logits, target = batch()
    shift = torch.linspace(-50, 50, 12, dtype=torch.float64).unsqueeze(1)
    expected = value_and_gradient(make(name), logits, target)
    require_same(value_and_gradient(make(name), logits + shift, target), expected, atol=1e-9)
    assert_allclose(expected[1].sum(1), torch.zeros(12), atol=1e-12)


@every(ALL)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_differences(name, seed):
    logits, target = batch(6, seed=seed)
    weight = torch.rand(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    loss = make(name)
    assert torch.autograd.gradcheck(
        lambda z: loss(z, target, weight), logits.requires_grad_(), eps=1e-7, atol=1e-5
    )


@every(ALL)
def test_it_is_not_negative_and_the_inputs_stay_as_they_are(name):
    for seed in range(10):
        logits, target = batch(seed=seed)
        weight = torch.rand(12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        before = [part.clone() for part in (logits, target, weight)]
        assert make(name)(logits, target, weight) >= 0
        assert all(map(torch.equal, (logits, target, weight), before))


# Weights


@every(ALL, but=OFFICIAL)  # there, weights are proportions of the batch, as documented
def test_a_weight_counts_a_row_as_often(name):
    logits, target = batch()
    counts = torch.arange(12) % 4  # some rows not at all
    rows = torch.repeat_interleave(torch.arange(12), counts)
    value, gradient = value_and_gradient(make(name), logits, target, counts)
    repeated, of_copies = value_and_gradient(make(name), logits[rows], target[rows])
    summed = torch.zeros_like(gradient).index_add_(0, rows, of_copies)
    # Soft bins are not divided by counts below 1e-5, of rows or of copies.
    require_same((value, gradient), (repeated, summed), rtol=1e-5, atol=1e-6)


@every(ALL)
def test_the_scale_of_the_weights_does_not_matter(name):
    logits, target = batch()
    weight = torch.rand(12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = value_and_gradient(make(name), logits, target, weight)
    for scale in (1e-9, 7.0, 1e9):
        require_same(value_and_gradient(make(name), logits, target, scale * weight), expected)
    ones = value_and_gradient(make(name), logits, target, torch.full((12,), 3))
    require_same(ones, value_and_gradient(make(name), logits, target))


@every(ALL)
def test_a_batch_of_which_no_row_counts_costs_nothing(name):
    value, gradient = value_and_gradient(make(name), *batch(), torch.zeros(12))
    assert value == 0
    assert (gradient == 0).all()


@every(LOSSES)
def test_reductions_agree(name):
    logits, target = batch()
    weight = torch.rand(12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mean = make(name)(logits, target, weight)
    total = make(name, reduction="sum")(logits, target, weight)
    assert total.item() == pytest.approx((weight.sum() * mean).item(), rel=1e-12)
    each = make(name, reduction="none")
    if getattr(each, "penalizes_batch", False):
        with pytest.raises(ValueError, match="use reduction='mean' or 'sum'"):
            each(logits, target, weight)
    else:
        rows = each(logits, target, weight)
        assert rows.shape == (12,)
        assert rows.sum().item() == pytest.approx(total.item(), rel=1e-12)


# Numbers at the edge

HIT = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
MISS = HIT.roll(1, dims=0)
CODES = torch.tensor([0, 1, 2])
MIXED = torch.cat([HIT, MISS]), CODES.repeat(2)
EDGES = {
    "one row, right": (HIT[:1], CODES[:1]),
    "one row, wrong": (MISS[:1], CODES[:1]),
    "two rows, right": (HIT[:2], CODES[:2]),
    "two rows, wrong": (MISS[:2], CODES[:2]),
    "all right": (HIT, CODES),
    "all wrong": (MISS, CODES),
    **{
        f"saturated at {gap}, {what}": (gap * logits, codes)
        for gap in (60, 120, 1000)
        for what, (logits, codes) in {
            "right": (HIT, CODES),
            "wrong": (MISS, CODES),
            "mixed": MIXED,
        }.items()
    },
    "all alike": (torch.zeros(6, 3), CODES.repeat(2)),
    "all alike and far from 0": (torch.full((6, 3), 1e6), CODES.repeat(2)),
    "two largest alike": (torch.tensor([[1.0, 1.0, 0.0]] * 3), CODES),
    "calibrated exactly": (torch.tensor([[0.0, 0.0, -1e4]] * 4), torch.tensor([0, 1, 1, 0])),
}


@every(ALL)
@pytest.mark.parametrize("edge", EDGES)
def test_values_and_gradients_are_finite(name, edge):
    for dtype in (torch.float32, torch.float64):
        value, gradient = value_and_gradient(make(name), EDGES[edge][0].to(dtype), EDGES[edge][1])
        assert value.isfinite()
        assert value >= 0
        assert gradient.isfinite().all()


@every(OF_THE_BATCH)
@pytest.mark.parametrize("edge", [edge for edge in EDGES if edge.startswith("saturated")])
def test_saturated_rows_do_not_pull_on_penalties(name, edge):
    _, gradient = value_and_gradient(make(name), *EDGES[edge])
    assert gradient.abs().max() < 1e-12


@every(OF_THE_BATCH)
@pytest.mark.parametrize("edge", [edge for edge in EDGES if edge.endswith("0, right")])
def test_certain_rows_that_are_right_have_no_penalty(name, edge):
    assert make(name)(*EDGES[edge]) < 1e-3  # S-AvUC: the share of uniform in the probabilities


@every([name for name in PENALTIES if "AvUC" not in name])
def test_batches_that_are_calibrated_exactly_have_no_penalty(name):
    value, gradient = value_and_gradient(make(name), *EDGES["calibrated exactly"])
    if "LogitMargin" in name:  # which looks at logits alone
        value, gradient = value_and_gradient(make(name), torch.zeros(4, 2), torch.ones(4).long())
    # The authors of MMCE add 1e-10 under the root.
    floor = 0.0 if name not in OFFICIAL else 1e-10 if "rooted=False" in name else 1e-5
    assert value.item() == pytest.approx(floor, rel=1e-6)
    if not floor:
        assert (gradient == 0).all()


@every([name for name in PENALTIES if "weighted" in name or "official" in name])
@pytest.mark.parametrize(
    "edge", ["one row, right", "one row, wrong", "two rows, right", "all right", "all wrong"]
)
def test_forms_that_compare_right_with_wrong_are_zero_without_both(name, edge):
    value, gradient = value_and_gradient(make(name), *EDGES[edge])
    assert value == 0
    assert (gradient == 0).all()


@every(ALL)
@pytest.mark.parametrize("where", [(0, 0), (3, 2), ...])
def test_nan_is_passed_on(name, where):
    logits, target = batch()
    logits[where] = torch.nan
    assert make(name)(logits, target).isnan()


# Kinds of tensors


@every(ALL, but=HEADS)
def test_a_single_logit_is_that_of_class_one(name):
    logits, target = batch(n_classes=2)
    single = logits[:, 1] - logits[:, 0]
    expected = make(name)(torch.stack([0 * single, single], 1), target)
    for shape in ((12,), (12, 1)):
        value, gradient = value_and_gradient(make(name), single.reshape(shape), target)
        assert value == expected
        assert gradient.shape == shape
        assert gradient.abs().sum() > 0 or expected == 0


@every(ALL)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(name, dtype):
    logits, target = batch(dtype=dtype)
    value, gradient = value_and_gradient(make(name), logits, target)
    expected = value_and_gradient(make(name), logits.float(), target)
    assert value.dtype == torch.float32
    assert value == expected[0]
    # Two heads add up in half precision what they share.
    atol = 1e-3 if name in HEADS else 0
    assert_allclose(gradient.float(), expected[1].to(dtype).float(), rtol=0, atol=atol)


@every(ALL)
def test_single_and_double_precision_agree(name):
    logits, target = batch(64, dtype=torch.float32)
    single = value_and_gradient(make(name), logits, target)
    double = value_and_gradient(make(name), logits.double(), target)
    assert single[0].dtype == torch.float32
    assert double[0].dtype == torch.float64
    require_same(single, double, rtol=1e-4, atol=1e-6)


@every(ALL)
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32])
def test_codes_of_any_whole_numbers(name, dtype):
    logits, target = batch()
    assert make(name)(logits, target.to(dtype)) == make(name)(logits, target)


class LargestTensor(TorchDispatchMode):
    """Remember the size of the largest tensor that an operation returns."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for part in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(part, torch.Tensor):
                self.size = max(self.size, part.numel())
        return out


@every(ALL)
@pytest.mark.parametrize("n", [50, 200])
def test_nothing_larger_than_a_matrix_is_made(name, n):
    logits, target = batch(n)
    loss = make(name)
    bins = max([getattr(part, "n_bins", 0) for part in loss.modules()])
    of_pairs = n if "MMCE" in name else 0
    n_heads = 2 if name in HEADS else 1
    with LargestTensor() as seen:
        value_and_gradient(loss, logits, target)
    assert 3 * n <= seen.size <= n * max(of_pairs, bins, n_heads * 3)


# Objects


@every(ALL)
@pytest.mark.parametrize(
    "through", [copy.deepcopy, copy.copy, lambda loss: pickle.loads(pickle.dumps(loss))]
)
def test_copies_answer_the_same(name, through):
    loss, parts = make(name), batch()
    other = through(loss)
    assert other(*parts) == loss(*parts)
    assert repr(other) == repr(loss)
    other.load_state_dict(loss.state_dict())
    assert not list(loss.parameters())


@every(SIMPLE)
def test_repr_says_how_to_make_it(name):
    loss = make(name)
    if any(True for _ in loss.children()):
        return  # as torch shows modules of modules
    again = eval(repr(loss), vars(losses).copy())
    assert repr(again) == repr(loss)
    assert again(*batch()) == loss(*batch())


@every(LOSSES)
def test_skorch_takes_it_for_cross_entropy(name):
    loss = make(name)
    assert isinstance(getattr(loss, "loss", loss), torch.nn.CrossEntropyLoss)
    with pytest.raises(ValueError, match=r"reduction must be one of .*'none'.*; got 'median'"):
        make(name, reduction="median")
