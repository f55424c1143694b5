"""Training losses: golden values and gradients, documented properties, and use in loops."""

import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from skorch import NeuralNetClassifier
from torch.nn.functional import cross_entropy

from skcal.neural.losses import (
    DCA,
    LOSS_NAMES,
    MDCA,
    MMCE,
    BrierLoss,
    CrossEntropy,
    DualFocalLoss,
    FocalLoss,
    LabelRelaxationLoss,
    LogitMargin,
    MixupLoss,
    PenalizedLoss,
    SampleDependentFocalLoss,
    SoftAvUC,
    SoftECE,
    _soft_avuc,
    make_loss,
)

# Published code was run on these batches, on the processor; the values have six digits.
BATCHES = {
    "A": ([[2, 1, 0], [0.5, 1.5, -1], [-1, 0, 1], [1.2, 1.0, -0.5]], [0, 1, 0, 1]),
    "B": ([[0, 1.5], [0, -0.5], [0, 0.8], [0, -2], [0, 0.3]], [1, 1, 0, 0, 1]),
    "C": ([[12, 0, -3], [-1, 14, 2], [0, 5, 9]], [0, 1, 1]),
}


def batch(name):
    logits, target = BATCHES[name]
    return torch.tensor(logits, dtype=torch.float64), torch.tensor(target)


def added(penalty, weight, base="cross_entropy"):
    return PenalizedLoss(penalty, weight, base, min_batch_size=0)


SIX_DIGITS, SINGLE = 1e-6, 2e-6  # the second is of code that computed in single precision
GOLDEN = {
    "CE": (CrossEntropy(), 1.020151, 0.605575, 1.339428),
    "LS .05": (CrossEntropy(0.05), 1.040151, 0.618075, 1.644984),
    "LS .1": (CrossEntropy(0.1), 1.060151, 0.630575, 1.950539),
    "focal 1": (FocalLoss(1), 0.742699, 0.340427, 1.315335),
    "focal 2": (FocalLoss(2), 0.596797, 0.208766, 1.291680),
    "focal 3": (FocalLoss(3), 0.506239, 0.132752, 1.268451),
    "FLSD-53": (SampleDependentFocalLoss(), 0.428252, 0.132752, 1.223237),
    "dual focal 2": (DualFocalLoss(2), 0.666171, 0.274106, 1.291999),
    "dual focal 5": (DualFocalLoss(5), 0.420524, 0.104628, 1.223992),
    "Brier": (BrierLoss(), 0.570398, 0.436843, 0.642824),
    "label relaxation .1": (LabelRelaxationLoss(0.1), 0.665175, 0.330492, 1.097725),
    "MMCE squared": (MMCE(rooted=False), 0.017979, 0.022977, 0.107121),
    "MMCE": (MMCE(), 0.134086, 0.151582, 0.327294),
    "MMCE weighted": (MMCE("weighted"), 0.268172, 0.453961, 0.981889),
    "MMCE official": (MMCE("official"), 0.134086, 0.254949, 0.981887),
    "MDCA": (MDCA(), 0.150527, 0.084253, 0.218226),
    "CE + MDCA": (added(MDCA(), 1), 1.170678, 0.689828, 1.557654),
    "focal 1 + MDCA": (added(MDCA(), 1, FocalLoss(1)), 0.893226, 0.424680, 1.533561),
    "DCA": (DCA(), 0.129950, 0.117050, 0.327294),
    "MbLS 1": (LogitMargin(1), 0.350000, 0.150000, 6.777778),
    "CE + .1 MbLS 1": (added(LogitMargin(1), 0.1), 1.055151, 0.620575, 2.017206),
    "MbLS 6": (LogitMargin(6), 0, 0, 3.666667),
    "MbLS 10": (LogitMargin(10), 0, 0, 1.555556),
    "S-AvUC .1 .5": (SoftAvUC(0.1, 0.5), 0.662182, 0.693573, 0.374685),
    "S-AvUC 1 .5": (SoftAvUC(1, 0.5), 0.599830, 0.554080, 0.347294),
    "S-AvUC .5 .3": (SoftAvUC(0.5, 0.3), 0.652264, 0.729409, 0.360613),
    "SB-ECE 15 .01": (SoftECE(15, 0.01), 0.224123, 0.243218, 0.328970),
    "SB-ECE 15 .001": (SoftECE(15, 0.001), 0.267346, 0.448407, 0.327530),
    "SB-ECE 5 .01": (SoftECE(5, 0.01), 0.236225, 0.289150, 0.327314),
}
GRADIENTS = {  # on A, of rows 0 and 3: they tell what counts as constant
    "CE": ([-0.083690, 0.061182, 0.022508], [0.124912, -0.147731, 0.022819]),
    "focal 2": ([-0.024572, 0.017964, 0.006608], [0.097598, -0.115428, 0.017830]),
    "FLSD-53": ([-0.010769, 0.007873, 0.002896], [0.073622, -0.087072, 0.013450]),
    "dual focal 2": ([-0.073631, 0.061602, 0.012029], [0.106547, -0.153841, 0.047294]),
    "CE + .1 MbLS 1": ([-0.075356, 0.061182, 0.014174], [0.133245, -0.147731, 0.014486]),
    "MDCA": ([-0.009982, -0.003672, 0.013654], [-0.007601, -0.006223, 0.013824]),
    "MMCE squared": ([0.024762, -0.018103, -0.006660], [0.017405, -0.014230, -0.003175]),
    "MMCE": ([0.092337, -0.067504, -0.024833], [0.064901, -0.053061, -0.011840]),
    "MMCE weighted": ([0.184673, -0.135007, -0.049666], [0.129801, -0.106122, -0.023679]),
    "DCA": ([0.055674, -0.040701, -0.014973], [0.062500, -0.051098, -0.011402]),
    "SB-ECE 15 .01": ([0.168202, -0.122965, -0.045236], [0.018236, -0.014909, -0.003327]),
    "S-AvUC 1 .5": ([-0.161045, 0.080224, 0.080821], [0.058438, 0.007467, -0.065905]),
    "Brier": ([-0.059892, 0.048876, 0.011017], [0.120765, -0.124189, 0.003424]),
}


@pytest.mark.parametrize("on", BATCHES)
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values(name, on):
    loss, *expected = GOLDEN[name]
    atol = SINGLE if name.startswith(("S-AvUC", "SB-ECE")) else SIX_DIGITS
    assert loss(*batch(on)).item() == pytest.approx(expected["ABC".index(on)], abs=atol, rel=0)


@pytest.mark.parametrize("name", GRADIENTS)
def test_golden_gradients(name, monkeypatch):
    monkeypatch.setattr(_soft_avuc, "_UNIFORM", 0.0)  # the reference mixes nothing into P
    logits, target = batch("A")
    logits.requires_grad_()
    GOLDEN[name][0](logits, target).backward()
    assert_allclose(logits.grad[[0, 3]], GRADIENTS[name], atol=1e-6, rtol=0)


@pytest.mark.parametrize(("on", "expected"), [("A", 1.080151), ("B", 0.655575), ("C", 2.256095)])
def test_the_other_convention_of_label_smoothing_as_documented(on, expected):
    logits, target = batch(on)
    k = logits.shape[1]
    loss = CrossEntropy(0.1 * k / (k - 1))(logits, target)
    assert loss.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7])
def test_cross_entropy_is_that_of_torch(epsilon):
    logits, target = batch("C")
    expected = cross_entropy(logits, target, label_smoothing=epsilon, reduction="none")
    loss = CrossEntropy(epsilon, reduction="none")
    assert_allclose(loss(logits, target), expected, rtol=1e-14)


@pytest.mark.parametrize("on", BATCHES)
def test_losses_without_their_parameter_are_cross_entropy(on):
    expected = cross_entropy(*batch(on)).item()
    for loss in (
        CrossEntropy(0),
        FocalLoss(0),
        DualFocalLoss(0),
        SampleDependentFocalLoss(0, 0),
        added(LogitMargin(20), 1),
        added(MDCA(), 0),
        LabelRelaxationLoss(1e-9),
        MixupLoss(0, random_state=0),
    ):
        assert loss(*batch(on)).item() == pytest.approx(expected, abs=1e-6), loss


@pytest.mark.parametrize("gamma", [0.1, 0.7, 3])
def test_one_exponent_on_both_sides_of_the_threshold_is_focal_loss(gamma):
    logits, target = batch("A")
    assert (
        SampleDependentFocalLoss(gamma, gamma)(logits, target).item()
        == FocalLoss(gamma)(logits, target).item()
    )


def test_flsd_jumps_at_its_threshold():
    for p, expected in ((0.1999, 0.528), (0.2001, 0.823)):
        logits = torch.tensor([[p, 1 - p]], dtype=torch.float64).log()
        assert SampleDependentFocalLoss()(logits, torch.tensor([0])).item() == pytest.approx(
            expected, abs=1e-3
        )


@pytest.mark.parametrize("gamma", [0.01, 0.3, 0.5, 0.99])
@pytest.mark.parametrize("loss", [FocalLoss, DualFocalLoss, SampleDependentFocalLoss])
def test_exponents_below_one_have_the_true_gradient_where_p_rounds_to_one(loss, gamma):
    gaps = torch.tensor([15.0, 17.0, 20.0, 30.0, 90.0])
    gradients = []
    for dtype in (torch.float32, torch.float64):
        logits = torch.stack([gaps, 0 * gaps], 1).to(dtype).requires_grad_()
        loss(gamma, reduction="sum")(logits, torch.zeros(5, dtype=torch.int64)).backward()
        gradients.append(logits.grad)
    assert gradients[0].isfinite().all()
    # Double precision holds log(p) up to a gap of about 36, single up to 17: below it they agree.
    assert_allclose(gradients[0], gradients[1], rtol=1e-3, atol=1e-7)


def test_dual_focal_takes_a_tie_for_no_class_below():
    logits, target = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), torch.tensor([0, 1])
    p = logits.softmax(1).double().numpy()
    expected = -np.array(
        [(1 - p[0, 0] + p[0, 2]) ** 2 * np.log(p[0, 0]), (2 / 3) ** 2 * np.log(1 / 3)]
    )
    assert_allclose(DualFocalLoss(2, reduction="none")(logits, target), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("n_classes", "margin", "largest"),
    [(2, 1, 0.731), (3, 2, 0.787), (10, 4, 0.858), (100, 8, 0.968)],
)
def test_the_largest_probability_that_a_margin_leaves_alone(n_classes, margin, largest):
    logits = torch.zeros(1, n_classes)
    logits[0, 0] = margin
    assert logits.softmax(1)[0, 0].item() == pytest.approx(largest, abs=5e-4)
    target = torch.tensor([0])
    assert LogitMargin(margin)(logits, target) == 0
    expected = 0.1 * (n_classes - 1) / n_classes
    assert LogitMargin(margin - 0.1)(logits, target).item() == pytest.approx(expected, rel=1e-5)


def population(n_classes, seed=0):
    """Return predictions with every label at its own probability: calibrated exactly."""
    logits = np.random.default_rng(seed).normal(0, 2, (60, n_classes))
    proba = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    target = np.tile(np.arange(n_classes), 60)
    parts = (np.repeat(logits, n_classes, axis=0), target, proba.ravel())
    return tuple(map(torch.from_numpy, parts))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    ("loss", "direction"),
    [
        (CrossEntropy(), 0),
        (BrierLoss(), 0),
        (PenalizedLoss(MMCE()), 0),
        (PenalizedLoss(DCA()), 0),
        (PenalizedLoss(MDCA(), 10), 0),
        (FocalLoss(0.5), -1),
        (FocalLoss(3), -1),
        (DualFocalLoss(3), -1),
        (CrossEntropy(0.05), -1),
        (PenalizedLoss(LogitMargin(1)), -1),
        (PenalizedLoss(MMCE("weighted")), -1),
        (PenalizedLoss(SoftAvUC()), 1),
    ],
    ids=lambda value: repr(getattr(value, "term", value)),
)
def test_where_the_optimum_is_as_documented(loss, direction, n_classes):
    logits, target, weight = population(n_classes)
    duller, true, sharper = (loss(a * logits, target, weight) for a in (0.97, 1.0, 1.03))
    assert (true < min(duller, sharper)) == (direction == 0)
    if direction:
        assert duller < true < sharper if direction < 0 else duller > true > sharper


def test_what_calibrated_predictions_cost():
    calibrated = population(3)
    for penalty in (MMCE(), MDCA(), DCA()):
        assert penalty(*calibrated).item() == pytest.approx(0, abs=1e-5)
    assert MMCE("weighted")(*calibrated) > 0.1


def test_weighted_mmce_is_the_official_one_times_the_rows_of_a_side():
    rng = np.random.default_rng(3)
    for m in (2, 5, 30):
        logits = torch.from_numpy(rng.normal(0, 2, (2 * m, 3)))
        top = logits.argmax(1)
        target = torch.where(torch.arange(2 * m) < m, top, (top + 1) % 3)
        expected = MMCE("weighted")(logits, target).item()
        assert m * MMCE("official")(logits, target).item() == pytest.approx(expected, rel=1e-3)


def test_mdca_of_two_classes_is_the_gap_of_the_prevalence():
    logits, target = batch("B")
    expected = abs(logits.softmax(1)[:, 1].mean() - target.double().mean())
    assert MDCA()(logits, target).item() == pytest.approx(expected.item(), rel=1e-12)


def test_the_official_mmce_counts_weights_as_proportions_as_documented():
    logits, target = batch("A")
    official = MMCE("official")
    assert official(logits, target, torch.full((4,), 7.0)) == official(logits, target)
    twice = official(logits.repeat(2, 1), target.repeat(2))
    assert twice.item() == pytest.approx(official(logits, target).item() / 2, rel=1e-3)


# In use


def table(n_classes=3):
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(120, 4)).astype(np.float32))
    y = (X[:, :n_classes] + 0.5 * torch.from_numpy(rng.normal(size=(120, n_classes)))).argmax(1)
    return X, y


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_a_loop_of_torch_lowers_each_loss(name):
    X, y = table()
    loss = make_loss(name, **({"random_state": 0} if name == "mixup" else {}))
    model = torch.nn.Linear(4, 3)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    first = loss(model(X), y).item()
    for epoch in range(30):
        loss.set_epoch(epoch)
        mixed = {"mix": loss.draw(len(X))} if name == "mixup" else {}
        value = loss(model(mixed["mix"].of(X) if mixed else X), y, **mixed)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert loss(model(X), y).item() < 0.9 * first
    assert (model(X).argmax(1) == y).double().mean() > 0.75


@pytest.mark.parametrize("penalty", [None, "mmce"])
def test_skorch_itself_returns_probabilities(penalty):
    X, y = table()
    params = {"criterion": FocalLoss, "criterion__gamma": 1.0}
    if penalty:
        params = {"criterion": PenalizedLoss, "criterion__penalty": MMCE()}
    model = torch.nn.Linear(4, 3)
    torch.nn.init.zeros_(model.weight)  # its own start is of torch's generator
    torch.nn.init.zeros_(model.bias)
    net = NeuralNetClassifier(
        model,
        max_epochs=40,
        lr=0.5,
        train_split=None,
        verbose=0,
        **params,
    ).fit(X.numpy(), y.numpy())
    proba = net.predict_proba(X.numpy())
    assert (proba >= 0).all()
    assert_allclose(proba.sum(1), 1, rtol=1e-5)
    assert net.score(X.numpy(), y.numpy()) > 0.75


def test_label_relaxation_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "label_relaxation", None)
    for make in (LabelRelaxationLoss, lambda: make_loss("label_relaxation")):
        with pytest.raises(ImportError, match=r"skcal\[relaxation\]"):
            make()
