"""The network for tables, against plain numpy and an encoding cell by cell."""

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, softmax
from torch import nn

from skcal.neural import Dropout, TabularNet
from skcal.neural._fold_ensemble import FoldEnsemble
from skcal.neural.tabular_net import code_width, mean_log_proba

# Numbers of 4, 1, 0, 2 and 7 bins: the second and the third column are not embedded.
EDGES = [
    torch.tensor([-2.0, -1.0, 0.5, 0.75, 2.0]),
    torch.tensor([0.0, 1.0]),
    torch.tensor([3.0]),
    torch.tensor([-1.0, 0.0, 1.0]),
    torch.linspace(-3, 3, 8),
]
MIXED = {"bins": EDGES, "blocks": [1, 1, 1, 1, 1, 3], "cardinalities": [5, 100]}


def numbers(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape), dtype=torch.float32)


def mixed_table(n=64, seed=0):
    """Five numbers, a category of three levels, and two columns of codes: MIXED's table."""
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.normal(size=(n, 5)), np.eye(3)[rng.integers(3, size=n)]])
    X[:, 1], X[:, 2] = rng.integers(2, size=n), 3
    codes = np.column_stack([rng.integers(5, size=n), rng.integers(100, size=n)])
    return torch.tensor(np.hstack([X, codes]), dtype=torch.float32)


def scramble(net, seed=0):
    """Give all parameters values of no pattern, so that none of them can be left out."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in net.parameters():
        parameter.data.normal_(0, 0.5, generator=generator)
    return net


def as_numpy(tensor):
    return tensor.detach().double().numpy()


def first_inputs(net, X):
    """What reaches the first layer."""
    seen = []
    hook = net.body.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    net(X)
    hook.remove()
    return as_numpy(seen[0])


def slow_encoding(x, edges):
    """Equation 1 of Gorishniy, Rubachev and Babenko (2022), for one cell between the edges.

    A cell beyond them is encoded as the edge.
    """
    x = min(max(x, float(edges[0])), float(edges[-1]))
    n_bins, encoding = len(edges) - 1, []
    for t in range(1, n_bins + 1):
        left, right = float(edges[t - 1]), float(edges[t])
        if x < left and t > 1:
            encoding.append(0.0)
        elif x >= right and t < n_bins:
            encoding.append(1.0)
        else:
            encoding.append((x - left) / (right - left))
    return encoding


# --- Hidden layers and members ----------------------------------------------------------


def test_one_member_is_the_plain_formula():
    net, X = (
        scramble(TabularNet(4, 3, hidden_sizes=(7, 5), n_members=1, dropout=0.0)),
        numbers(9, 4),
    )
    layers = [part for part in net.modules() if isinstance(part, nn.Linear)]
    hidden = as_numpy(X)
    for layer in layers[:-1]:
        hidden = np.maximum(hidden @ as_numpy(layer.weight).T + as_numpy(layer.bias), 0)
    logits = hidden @ as_numpy(layers[-1].weight).T + as_numpy(layers[-1].bias)
    assert [layer.out_features for layer in layers] == [7, 5, 3]
    assert_allclose(as_numpy(net(X)), logits, rtol=1e-4, atol=1e-5)
    assert_allclose(as_numpy(net.eval()(X)), logits, rtol=1e-4, atol=1e-5)


def members_apart(net, X):
    """Logits (n, members, K): each member is a network of its own, with a scaled matrix W."""
    shared, apart = [part for part in net.body if hasattr(part, "r")], []
    for m in range(net.n_members):
        hidden = as_numpy(X)
        for layer in shared:
            weight = np.diag(as_numpy(layer.s)[m]) @ as_numpy(layer.weight)
            weight = weight @ np.diag(as_numpy(layer.r)[m])
            hidden = np.maximum(hidden @ weight.T + as_numpy(layer.bias)[m], 0)
        apart.append(hidden @ as_numpy(net.head.weight)[m] + as_numpy(net.head.bias)[m])
    return np.stack(apart, axis=1)


@pytest.mark.parametrize("hidden_sizes", [(), (6,), (7, 5, 6)])
def test_members_are_separate_networks_of_scaled_matrices(hidden_sizes):
    net, X = TabularNet(4, 3, hidden_sizes=hidden_sizes, n_members=3, dropout=0.0), numbers(9, 4)
    scramble(net).double()
    X = X.double()
    apart = members_apart(net, X)
    assert_allclose(as_numpy(net(X)), apart, rtol=1e-12, atol=1e-12)
    mean = softmax(apart, axis=2).mean(axis=1)
    assert_allclose(as_numpy(net.eval()(X)), np.log(mean), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 20, 150])
@pytest.mark.parametrize("n_members", [1, 2, 8])
def test_shapes_and_sums(n_members, n_classes):
    net = TabularNet(10, n_classes, n_members=n_members, **MIXED)
    X = mixed_table(12)
    expected = (12, n_classes) if n_members == 1 else (12, n_members, n_classes)
    assert net(X).shape == expected
    logits = net.eval()(X)
    assert logits.shape == (12, n_classes)
    if n_members > 1:
        assert_allclose(logits.exp().sum(dim=1).detach(), 1, rtol=1e-5)


def test_hidden_values_are_dropped_in_training_only():
    net, X = TabularNet(4, 3, dropout=0.4, n_members=2), numbers(9, 4)
    assert [part.p for part in net.modules() if isinstance(part, Dropout)] == [0.4, 0.4]
    assert not torch.equal(net(X), net(X))
    net.eval()
    assert torch.equal(net(X), net(X))
    assert not [p for p in TabularNet(4, 3, dropout=0).modules() if isinstance(p, Dropout)]


# --- The mean of members ----------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(2, 30)),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
    seed=st.integers(0, 1000),
)
def test_the_mean_is_that_of_probabilities(shape, scale, seed):
    logits = np.random.default_rng(seed).normal(scale=scale, size=shape)
    expected = np.log(softmax(logits, axis=2).mean(axis=1))
    assert_allclose(mean_log_proba(torch.tensor(logits)), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_logits_stay_finite(dtype):
    huge = torch.tensor([[[1e4, -1e4], [-1e4, 1e4]], [[0, -1e4], [0, -1e4]]], dtype=dtype)
    expected = [[np.log(0.5), np.log(0.5)], [0, -1e4]]
    assert_allclose(mean_log_proba(huge), expected, rtol=1e-6)
    one_sided = torch.tensor([[[1e4, -1e4], [1e4, -1e4], [1e4, -1e4]]], dtype=dtype)
    assert_allclose(mean_log_proba(one_sided), [[0, -2e4]], rtol=1e-6)


def test_huge_logits_of_the_network_stay_finite():
    net = scramble(TabularNet(4, 3, n_members=4, hidden_sizes=(8,), dropout=0))
    net.head.weight.data *= 1e5
    with torch.no_grad():
        assert net.train()(numbers(50, 4)).abs().max() > 1e4
        assert net.eval()(numbers(50, 4)).isfinite().all()


def test_a_fold_ensemble_answers_with_the_mean_probability():
    nets = [scramble(TabularNet(4, 3, n_members=m), seed=m).eval() for m in (1, 2, 4)]
    ensemble, X = FoldEnsemble(nets).eval(), numbers(20, 4)
    probabilities = [softmax(as_numpy(net(X)), axis=1) for net in nets]
    assert_allclose(ensemble(X).exp().detach(), np.mean(probabilities, axis=0), rtol=1e-4)
    assert len(list(ensemble.parameters())) == sum(len(list(net.parameters())) for net in nets)


# --- Columns ----------------------------------------------------------------------------


def embedded_slowly(net, X, edges):
    """The linear part, and the learned curve over the slow encoding, one column."""
    columns = []
    for position, (column, ends) in enumerate(edges):
        parts = net.numbers
        # The package keeps a column's last bin in the last row, and pads before it.
        curve = as_numpy(parts.linear.weight)[position]
        curve = np.vstack([curve[: len(ends) - 2], curve[-1:]])
        slope, start = (as_numpy(p)[position] for p in (parts.linear0.weight, parts.linear0.bias))
        cells = as_numpy(X)[:, column]
        codes = np.array([slow_encoding(cell, ends) for cell in cells])
        columns.append(codes @ curve + np.outer(cells, slope) + start)
    return np.hstack(columns)


def test_embedded_columns_come_first_then_the_rest_in_order_then_codes():
    net, X = scramble(TabularNet(10, 3, d_embedding=6, **MIXED)), mixed_table(200)
    X[:, :5] *= 2  # beyond the edges too
    X[:8, 0] = torch.tensor([-2.0, -1.0, 0.5, 0.75, 2.0, -7.0, 7.0, 0.6])  # and upon them
    embedded = embedded_slowly(net, X, [(0, EDGES[0]), (3, EDGES[3]), (4, EDGES[4])])
    vectors = [
        as_numpy(table.weight)[X[:, column].int()]
        for table, column in zip(net.codes, (8, 9), strict=True)
    ]
    plain = as_numpy(X)[:, [1, 2, 5, 6, 7]]
    expected = np.hstack([embedded, plain, *vectors])
    assert expected.shape[1] == 3 * 6 + 5 + 3 + 10
    assert (X[:, 8] == 0).any()
    assert_allclose(first_inputs(net, X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_edges", [3, 4, 25])
def test_columns_of_equally_many_bins(n_edges):
    edges = [torch.sort(numbers(n_edges, seed=seed)).values for seed in range(3)]
    net, X = scramble(TabularNet(3, 2, bins=edges)).double(), 3 * numbers(100, 3).double()
    expected = embedded_slowly(net, X, list(enumerate(edges)))
    # torch keeps the slopes of the bins in float32: steep ones lose a few digits.
    assert_allclose(first_inputs(net, X), expected, rtol=1e-4, atol=1e-3)


def test_columns_of_one_or_two_values_are_not_embedded():
    two = torch.tensor([0.0, 1.0])
    net = TabularNet(3, 2, bins=[two, torch.tensor([3.0]), two])
    assert net.numbers is None
    X = torch.tensor([[0.0, 3.0, 1.0], [1.0, 3.0, 0.0]])
    assert_array_equal(first_inputs(net, X), X)


def test_at_the_start_a_piecewise_embedding_is_a_line():
    torch.manual_seed(0)
    net = TabularNet(1, 2, bins=[torch.tensor([-1.0, -0.7, 0.1, 1.0])], d_embedding=5)
    line = torch.linspace(-3, 3, 61)[:, None]
    embedded = first_inputs(net, line)
    steps = np.diff(embedded, axis=0)
    assert_allclose(steps, np.broadcast_to(steps[0], steps.shape), atol=1e-6)
    assert len(np.unique(steps[0])) == 5
    bent = np.diff(first_inputs(scramble(net), line), axis=0)
    assert np.abs(bent - bent[0]).max() > 0.01


def test_a_narrow_last_bin_does_not_blow_up_what_lies_beyond():
    edges = torch.tensor([-1.0, 0.0, 1.0, 1.0001])
    net = scramble(TabularNet(1, 2, bins=[edges], d_embedding=5))
    ends, beyond = torch.tensor([[-1.0], [1.0001]]), torch.tensor([[-3.0], [3.0]])
    line = as_numpy(net.numbers.linear0.weight) * as_numpy(beyond - ends)
    moved = first_inputs(net, beyond) - first_inputs(net, ends)
    assert_allclose(moved, line, atol=1e-3)


def test_periodic_embeddings_follow_their_formula():
    net, X = scramble(TabularNet(4, 2, periodic=[0, 2], d_embedding=5)), numbers(30, 4)
    columns = []
    for position, column in enumerate((0, 2)):
        frequencies = as_numpy(net.numbers.periodic.weight)[position]
        turns = 2 * np.pi * np.outer(as_numpy(X)[:, column], frequencies)
        waves = np.hstack([np.cos(turns), np.sin(turns)])
        weight, bias = (as_numpy(p)[position] for p in net.numbers.linear.parameters())
        columns.append(np.maximum(waves @ weight + bias, 0))
    expected = np.hstack([*columns, as_numpy(X)[:, [1, 3]]])
    assert_allclose(first_inputs(net, X), expected, rtol=1e-4, atol=1e-4)
    start = TabularNet(400, 2, periodic=range(400)).numbers.periodic.weight
    assert start.std().item() == pytest.approx(0.1, rel=0.05)


def test_codes_are_looked_up():
    net = TabularNet(2, 2, cardinalities=[3, 30], n_members=1)
    X = torch.tensor([[0.0, 29.0], [2.0, 0.0], [0.0, 0.0]])
    short, long = (as_numpy(table.weight) for table in net.codes)
    assert short.shape == (3, 2)
    assert long.shape == (30, 6)
    expected = np.hstack([short[[0, 2, 0]], long[[29, 0, 0]]])
    assert_array_equal(first_inputs(net, X), expected.astype(np.float32))


def test_a_vector_is_as_long_as_the_root_of_its_levels():
    widths = {1: 2, 2: 2, 4: 2, 5: 3, 9: 3, 65: 9, 100: 10, 1000: 32, 1024: 32, 10**6: 32}
    assert {n: code_width(n) for n in widths} == widths


# --- How training starts ----------------------------------------------------------------


@pytest.mark.parametrize("embedded", [True, False])
def test_members_start_from_one_factor_per_column_of_the_table(embedded):
    torch.manual_seed(0)
    blocks, spans = [1, 1, 3, 2], [1, 1, 3, 2, 3, 10]
    bins = [torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([0.0, 1.0])] if embedded else []
    net = TabularNet(9, 3, bins=bins, d_embedding=6, blocks=blocks, cardinalities=[5, 100])
    first, second = (part for part in net.body if hasattr(part, "r"))
    r, spans = as_numpy(first.r), [6, *spans[1:]] if embedded else spans
    factors, ends = [], np.cumsum(spans)
    assert r.shape == (8, ends[-1])
    for start, end in zip(ends - spans, ends, strict=True):
        assert (r[:, start:end] == r[:, [start]]).all()
        factors.append(r[:, start])
    factors = np.array(factors)
    assert len(np.unique(factors, axis=0)) == len(spans)  # blocks differ
    # Members differ; of a few signs, two members may draw the same.
    assert len(np.unique(factors, axis=1).T) >= (8 if embedded else 5)
    if embedded:
        assert len(np.unique(factors)) == len(spans) * 8
    else:
        assert set(factors.flat) == {-1.0, 1.0}
    # Nothing else differs, save the heads.
    assert (second.r == 1).all()
    for layer in (first, second):
        assert (layer.s == 1).all()
        assert (layer.bias == layer.bias[0]).all()
    assert len(torch.unique(net.head.weight)) == net.head.weight.numel()


def test_a_level_of_a_category_without_a_block_has_its_own_factor():
    torch.manual_seed(0)
    first = next(part for part in TabularNet(6, 3).body if hasattr(part, "r"))
    assert len(np.unique(as_numpy(first.r), axis=1).T) == 6


@pytest.mark.parametrize("n_members", [1, 4])
@pytest.mark.parametrize("kind", ["piecewise", "periodic", "plain"])
def test_every_parameter_learns_from_the_first_step(kind, n_members):
    torch.manual_seed(0)
    more = {
        "piecewise": {"bins": EDGES},
        "periodic": {"periodic": [0, 3, 4]},
        "plain": {},
    }[kind]
    net = TabularNet(10, 3, n_members=n_members, cardinalities=[5, 100], dropout=0, **more)
    net(mixed_table(500)).logsumexp(dim=-1).sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_the_same_seed_starts_the_same_network():
    nets = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        nets.append(TabularNet(10, 3, **MIXED).eval()(mixed_table()))
    assert torch.equal(nets[0], nets[1])
    assert not torch.equal(nets[0], nets[2])


# --- Copies, precision, silence ---------------------------------------------------------


def reloaded(net):
    stream = io.BytesIO()
    torch.save(net.state_dict(), stream)
    stream.seek(0)
    other = TabularNet(10, 3, **MIXED)
    other.load_state_dict(torch.load(stream))
    return other.eval()


@pytest.mark.parametrize(
    "copier", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net)), reloaded]
)
def test_copies_answer_the_same(copier):
    net, X = scramble(TabularNet(10, 3, **MIXED)).eval(), mixed_table()
    before = net(X)
    copied = copier(net)
    assert torch.equal(copied(X), before)
    scramble(copied, seed=1)
    assert not torch.equal(copied(X), before)
    assert torch.equal(net(X), before)


def test_float64_goes_all_the_way():
    net, X = scramble(TabularNet(10, 3, **MIXED)).eval(), mixed_table()
    single = net(X)
    double = net.double()(X.double())
    assert double.dtype == torch.float64
    assert_allclose(single.detach(), double.detach(), rtol=1e-4, atol=1e-4)
    assert (single != double).any()
    assert net.train()(X.double()).dtype == torch.float64


def test_edges_may_be_float64():
    X, edges = mixed_table(), [ends.double() for ends in EDGES]
    net = scramble(TabularNet(10, 3, **MIXED | {"bins": edges})).eval()
    same = scramble(TabularNet(10, 3, **MIXED)).eval()
    assert torch.equal(net(X), same(X))


def test_packages_underneath_keep_silent():
    """In a process of its own: warnings of an import come once."""
    code = (
        "import torch\n"
        "from skcal.neural import TabularNet\n"
        "bins = [torch.tensor([0., 1., 2.]), torch.tensor([0., 1., 2., 3.])]\n"
        "TabularNet(2, 2, bins=bins).eval()(torch.zeros(3, 2))\n"
        "TabularNet(2, 2, periodic=[1])(torch.zeros(3, 2))\n"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- Words for mistakes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n_members": 0}, "n_members must be at least 1; got 0"),
        ({"bins": EDGES}, "4 hold no codes; got 5"),
        ({"bins": EDGES[:1], "periodic": [0]}, "one of the two"),
        ({"periodic": [3, 4]}, r"between 0 and 3, those without codes; got \[3, 4\]"),
        ({"periodic": [-1]}, "between 0 and 3"),
        ({"blocks": [1, 2]}, r"sum to the 4 columns without codes; got \[1, 2\]"),
        ({"cardinalities": [2] * 7}, "no more than the n_inputs columns"),
    ],
)
def test_columns_that_do_not_fit_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        TabularNet(6, 3, **{"cardinalities": [3, 4]} | wrong)


def test_logits_and_their_log_probabilities_have_the_same_mean():
    logits = numbers(6, 4, 3).double()
    normal = torch.tensor(log_softmax(logits.numpy(), axis=2))
    assert_allclose(mean_log_proba(logits), mean_log_proba(normal), rtol=1e-12)
