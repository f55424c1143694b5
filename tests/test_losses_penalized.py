"""When penalties begin, which batches have one, what is refused, and losses by name."""

import copy
from inspect import isclass, signature

import numpy as np
import pytest
import torch

from skcal.neural import losses
from skcal.neural.losses import (
    DCA,
    LOSS_NAMES,
    MDCA,
    MMCE,
    BrierLoss,
    CrossEntropy,
    FocalLoss,
    LogitMargin,
    Loss,
    MixupLoss,
    MultiHeadLoss,
    PenalizedLoss,
    Penalty,
    SoftAvUC,
    SoftECE,
    make_loss,
    partition_weights,
)

LOGITS = 2 * torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TARGET = torch.arange(20) % 3
CE, DCA_TERM, MDCA_TERM, MARGIN_TERM = (
    loss(LOGITS, TARGET).item() for loss in (CrossEntropy(), DCA(), MDCA(), LogitMargin(1))
)
PUBLIC = [getattr(losses, name) for name in losses.__all__]
CLASSES = [thing for thing in PUBLIC if isclass(thing) and issubclass(thing, (Loss, Penalty))]


def values(loss, epochs):
    found = []
    for epoch in epochs:
        loss.set_epoch(epoch)
        found.append(loss(LOGITS, TARGET).item())
    return found


# Warm-up


def test_a_penalty_begins_after_the_warm_up_and_ends_when_the_epochs_begin_anew():
    loss = PenalizedLoss(DCA(), 0.5, warmup_epochs=2)
    assert loss(LOGITS, TARGET).item() == CE
    on = CE + 0.5 * DCA_TERM
    assert values(loss, [0, 1, 2, 3, 0]) == pytest.approx([CE, CE, on, on, CE], rel=1e-14)


def test_each_penalty_of_a_nest_has_its_own_warm_up():
    inner = PenalizedLoss(DCA(), 1.0, warmup_epochs=1)
    loss = PenalizedLoss(LogitMargin(1), 1.0, base=inner, warmup_epochs=2)
    loss = PenalizedLoss(MDCA(), 1.0, base=loss, warmup_epochs=3)
    expected = np.cumsum([CE, DCA_TERM, MARGIN_TERM, MDCA_TERM])
    assert values(loss, range(4)) == pytest.approx(expected, rel=1e-14)
    assert inner.epoch == 0  # a base is copied


@pytest.mark.parametrize("around", ["mixup", "heads"])
def test_the_epoch_reaches_the_base_of_mixtures_and_heads(around):
    base = PenalizedLoss(LogitMargin(1), 1.0, warmup_epochs=2)
    if around == "mixup":
        loss, logits = MixupLoss(base=base), LOGITS
    else:
        loss, logits = MultiHeadLoss(np.ones((1, 3)), base), LOGITS.unsqueeze(1)
    found = []
    for epoch in range(3):
        loss.set_epoch(epoch)
        found.append(loss(logits, TARGET).item())
    assert found == pytest.approx([CE, CE, CE + MARGIN_TERM], rel=1e-14)


def test_losses_of_torch_are_told_no_epoch():
    for loss in (PenalizedLoss(DCA(), base=torch.nn.CrossEntropyLoss()), FocalLoss()):
        loss.set_epoch(3)
        copy.deepcopy(loss).set_epoch(0)


# Small batches


@pytest.mark.parametrize("penalty", [MMCE(), MDCA(), DCA(), SoftAvUC(), SoftECE()])
def test_small_batches_have_no_penalty_of_the_batch(penalty):
    loss = PenalizedLoss(penalty, 1.0, min_batch_size=10)
    for n in (1, 2, 9):
        assert loss(LOGITS[:n], TARGET[:n]) == CrossEntropy()(LOGITS[:n], TARGET[:n])
    both = CrossEntropy()(LOGITS[:10], TARGET[:10]) + penalty(LOGITS[:10], TARGET[:10])
    assert loss(LOGITS[:10], TARGET[:10]).item() == pytest.approx(both.item(), rel=1e-14)


def test_a_penalty_of_the_rows_is_for_any_batch():
    loss = PenalizedLoss(LogitMargin(1), 1.0, min_batch_size=100)
    assert loss(LOGITS, TARGET).item() == pytest.approx(CE + MARGIN_TERM, rel=1e-14)
    rows = PenalizedLoss(LogitMargin(1), 1.0, reduction="none")(LOGITS, TARGET)
    assert rows.mean().item() == pytest.approx(CE + MARGIN_TERM, rel=1e-14)


def test_the_sum_counts_the_penalty_of_a_batch_by_its_weights():
    weight = torch.linspace(0, 2, 20, dtype=torch.float64)
    penalty = DCA()(LOGITS, TARGET, weight)
    loss = PenalizedLoss(DCA(), 0.5, reduction="sum")
    expected = CrossEntropy(reduction="sum")(LOGITS, TARGET, weight) + 0.5 * penalty * weight.sum()
    assert loss(LOGITS, TARGET, weight).item() == pytest.approx(expected.item(), rel=1e-14)


def test_losses_of_torch_as_a_base_weigh_their_classes():
    class_weight = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    base = torch.nn.CrossEntropyLoss(class_weight, label_smoothing=0.1)
    loss = PenalizedLoss(DCA(), 0, base)
    rows = torch.nn.CrossEntropyLoss(class_weight, label_smoothing=0.1, reduction="none")
    assert loss(LOGITS, TARGET).item() == pytest.approx(rows(LOGITS, TARGET).mean().item())
    assert base.reduction == "mean"  # the user's own stays as it is


# What is refused


def refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("made", [CrossEntropy(), BrierLoss(), MixupLoss(), MMCE(), LogitMargin()])
def test_batches_that_do_not_fit_are_refused(made):
    y = TARGET
    for logits in (LOGITS[0, 0], LOGITS.unsqueeze(0), LOGITS[:0], LOGITS[:, :0]):
        shape = tuple(logits.shape)
        rows = y[: len(logits)] if logits.ndim else y
        match = r"\(n, n_classes\), one row or more; got \(" + str(shape)[1:-1]
        refused(lambda z=logits, t=rows: made(z, t), ValueError, match)
    refused(lambda: made(LOGITS.long(), y), TypeError, "floating-point numbers; got torch.int64")
    for target in (y[:-1], y.unsqueeze(1), torch.nn.functional.one_hot(y)):
        refused(lambda t=target: made(LOGITS, t), ValueError, r"shape \(20,\); got \(")
    for target in (y.double(), y == 1):
        refused(lambda t=target: made(LOGITS, t), TypeError, r"Convert it by target.long\(\)")
    for target, got in ((y + 1, "1 to 3"), (y - 1, "-1 to 1"), (y - 100, "-100 to -98")):
        match = f"codes from 0 to 2, .* 3 columns .*; got {got}"
        refused(lambda t=target: made(LOGITS, t), ValueError, match)
    for weight in (torch.ones(19), torch.ones(20, 1)):
        refused(lambda w=weight: made(LOGITS, y, w), ValueError, "one weight per row, shape")
    refused(lambda: made(LOGITS, y, y - 1.5), ValueError, "at least 0; got -1.5 among them")


def test_heads_of_another_shape_are_refused():
    loss = MultiHeadLoss(np.ones((2, 3)))
    for shape in ((20, 3), (20, 3, 2), (20, 2, 4), (2, 3)):
        match = r"\(n, n_heads, n_classes\) = \(n, 2, 3\); got \("
        refused(lambda s=shape: loss(torch.zeros(s), TARGET), ValueError, match)
    refused(lambda: loss(torch.zeros(20, 2, 3), TARGET + 1), ValueError, "codes from 0 to 2")


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("name", "params", "match"),
    [
        *(("focal", {"gamma": bad}, "gamma is an exponent") for bad in (-1, NAN, INF)),
        *(("dual_focal", {"gamma": bad}, "gamma is an exponent") for bad in (-0.1, NAN, INF)),
        *(("flsd", {key: -1}, f"{key} is an exp") for key in ("gamma", "gamma_low")),
        *(("flsd", {"threshold": bad}, "is a probability") for bad in (-0.1, 1.1, NAN)),
        *(("label_smoothing", {"label_smoothing": b}, r"\[0, 1\)") for b in (-0.1, 1, 5.0, NAN)),
        *(("label_relaxation", {"alpha": bad}, r"in \(0, 1\)") for bad in (0, 1, NAN)),
        *(("mixup", {"alpha": bad}, "alpha must be at least 0") for bad in (-1, NAN, INF)),
        ("mmce", {"variant": "rooted"}, "'plain', 'weighted' or 'official'; got 'rooted'"),
        *(("mmce", {"bandwidth": bad}, "bandwidth must be more than 0") for bad in (0, -1, NAN)),
        *(("mbls", {"margin": bad}, "margin must be at least 0") for bad in (-1, NAN)),
        *(("soft_avuc", {"temperature": bad}, "more than 0") for bad in (0, -1, NAN)),
        *(("soft_avuc", {"threshold": bad}, r"in \(0, 1\)") for bad in (0, 1, NAN)),
        *(("soft_ece", {"temperature": bad}, "more than 0") for bad in (0, -1, NAN)),
        *(("soft_ece", {"n_bins": bad}, "whole number of at least 1") for bad in (0, 2.5, INF)),
        *(
            ("mdca", {key: bad}, f"{key} must be at least 0, and finite")
            for key in ("penalty_weight", "warmup_epochs", "min_batch_size")
            for bad in (-1, NAN, INF)
        ),
    ],
)
def test_parameters_out_of_range_are_refused(name, params, match):
    refused(lambda: make_loss(name, **params), ValueError, match)


@pytest.mark.parametrize(
    "weights", [[1.0, 2.0], [[1.0, 0.0]], [[1.0, -1]], [[1.0, NAN]], [[1.0, INF]], [[2.0]], [[]]]
)
def test_class_weights_that_are_none_are_refused(weights):
    refused(lambda: MultiHeadLoss(weights), ValueError, "one row of positive numbers per head")


def test_shares_of_no_head_are_refused():
    refused(lambda: partition_weights(3, 0), ValueError, "n_heads must be at least 1; got 0")
    for bad in (0, -1, NAN, INF):
        refused(lambda b=bad: partition_weights(3, 2, b), ValueError, "head_weight must be more")


class MeanOfRows(torch.nn.Module):
    """A loss of one's own that knows no rows."""

    def forward(self, logits, target):
        return torch.nn.functional.cross_entropy(logits, target)


class Column(Loss):
    """A loss of one's own whose rows would be broadcast."""

    def rows(self, logits, target):
        return logits[:, :1]


@pytest.mark.parametrize("bad", [MeanOfRows(), Column()])
def test_a_loss_that_does_not_answer_row_by_row_is_refused(bad):
    match = rf"{type(bad).__name__} must return one loss per row, shape \(20,\); got \("
    refused(lambda: PenalizedLoss(DCA(), base=bad)(LOGITS, TARGET), ValueError, match)
    refused(lambda: MixupLoss(base=bad)(LOGITS, TARGET), ValueError, match)
    heads = MultiHeadLoss(np.ones((1, 3)), bad)
    refused(lambda: heads(LOGITS.unsqueeze(1), TARGET), ValueError, match)
    if isinstance(bad, Loss):
        refused(lambda: bad(LOGITS, TARGET), ValueError, match)


def test_bases_that_would_not_do_what_they_say_are_refused():
    heads = MultiHeadLoss(np.ones((2, 3)))
    for of in (
        lambda base: PenalizedLoss(DCA(), base=base),
        lambda base: MixupLoss(base=base),
        lambda base: MultiHeadLoss(np.ones((2, 3)), base),
    ):
        for base in ("mixup", MixupLoss()):
            refused(lambda b=base, of=of: of(b), ValueError, "mixup goes around the other loss")
        refused(lambda of=of: of(heads), ValueError, "the loss of several heads")
        refused(lambda of=of: of(MMCE()), TypeError, r"needs a loss: PenalizedLoss\(MMCE\(\)\)")
    for base in ("mmce", PenalizedLoss(LogitMargin(), base="dca")):
        refused(lambda b=base: MixupLoss(base=b), ValueError, "neither right nor wrong")
        refused(lambda b=base: MultiHeadLoss([[1, 1]], b), ValueError, "batch as a whole")
    refused(lambda: PenalizedLoss(MMCE), TypeError, r"such as MMCE\(\)")
    refused(lambda: PenalizedLoss("mmce"), TypeError, "got 'mmce'")


@pytest.mark.parametrize("base", [c for c in CLASSES if c.__module__ == Loss.__module__])
def test_a_subclass_without_its_method_says_which(base):
    own = type("Own", (base,), {})
    refused(
        lambda: own()(LOGITS, TARGET), NotImplementedError, r"Own must implement (rows|penalty)"
    )


# By name


def test_every_public_class_has_a_name_or_takes_another_loss():
    named = {type(make_loss(name)) for name in LOSS_NAMES} | {
        type(make_loss(name).term) for name in LOSS_NAMES if hasattr(make_loss(name), "term")
    }
    rest = {c for c in CLASSES if c.__module__ != Loss.__module__} - named
    assert rest == {MultiHeadLoss}  # needs its class weights


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_names_take_all_parameters_of_what_they_stand_for(name):
    loss = make_loss(name)
    for part in (loss, getattr(loss, "term", loss)):
        for key, parameter in signature(type(part)).parameters.items():
            if key in ("penalty", "reduction") or parameter.default is None:
                continue
            value = getattr(part, key) if key != "base" else "brier"
            again = make_loss(name, **{key: value})
            got = again if part is loss else again.term
            assert isinstance(got.base, BrierLoss) if key == "base" else getattr(got, key) == value
    assert make_loss(name, reduction="sum").reduction == "sum"
    near = "reductoin"
    refused(lambda: make_loss(name, **{near: 1}), ValueError, "Did you mean 'reduction'")
    refused(lambda: make_loss(name, zzz=1), ValueError, r"has no parameter 'zzz'\. It has \[")
    for none in ("penalty", "args", "kwargs"):
        refused(lambda n=none: make_loss(name, **{n: 1}), ValueError, f"has no parameter {none!r}")


@pytest.mark.parametrize("wrong", ["2", None, [1.0]])
@pytest.mark.parametrize(("name", "parameter"), [("focal", "gamma"), ("mmce", "warmup_epochs")])
def test_parameters_that_are_no_numbers_are_refused(name, parameter, wrong):
    refused(lambda: make_loss(name, **{parameter: wrong}), TypeError, f"{parameter} of the loss")


def test_defaults_of_names():
    assert make_loss("label_smoothing").label_smoothing == 0.05
    assert make_loss("label_smoothing", label_smoothing=0.2).label_smoothing == 0.2
    assert make_loss("mmce").penalty_weight == 2
    assert make_loss("mmce", variant="official").penalty_weight == 2
    assert make_loss("mmce", variant="weighted").penalty_weight == 0.1
    assert make_loss("mbls").penalty_weight == 0.1
    loss = make_loss("soft_avuc", temperature=0.5, base=FocalLoss(1), warmup_epochs=3)
    assert (loss.term.temperature, loss.base.gamma, loss.warmup_epochs) == (0.5, 1, 3)


def test_names_that_are_not_known_get_a_hint():
    refused(lambda: make_loss("focl"), ValueError, "'focl'; .*Did you mean 'focal'?")
    refused(lambda: make_loss("cross-entropy"), ValueError, "Did you mean 'cross_entropy'?")
    refused(lambda: make_loss("MMCE"), ValueError, "Did you mean 'mmce'?")
    refused(lambda: make_loss("log_loss"), ValueError, "Did you mean 'cross_entropy'?")
    refused(lambda: make_loss("zzz"), ValueError, r"the names are \['brier', .*'soft_ece'\]\.$")
    refused(lambda: PenalizedLoss(DCA(), base="focl"), ValueError, "Did you mean 'focal'?")


def test_classes_and_instances():
    given = FocalLoss(1.5)
    made = make_loss(given)
    assert made is not given
    assert made.gamma == 1.5
    assert make_loss(FocalLoss, gamma=1).gamma == 1
    assert isinstance(make_loss(torch.nn.CrossEntropyLoss), torch.nn.CrossEntropyLoss)
    refused(lambda: make_loss(given, gamma=1), ValueError, r"\['gamma'\] beside it. Give the class")
    for bad in (None, 3, FocalLoss.rows, object):
        refused(lambda b=bad: make_loss(b), TypeError, "a name or a torch loss, class or instance")
    for penalty in (MDCA, MDCA()):
        refused(lambda p=penalty: make_loss(p), TypeError, r"PenalizedLoss\(MDCA\(\)\)")
