"""The penalty against slow loops, autograd, scipy and hand-made batches."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from sklearn.decomposition import PCA
from torch import nn
from torch.nn.functional import cross_entropy

from skcal import NeighborhoodSmoothing
from skcal.neural._graph import knn_graph, permute_graph, random_graph
from skcal.neural.smoothing import jsd_to_neighbors, reduce_embeddings

TARGETS = ("mean", "each")
LN2 = math.log(2)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0, scale=1.0, dtype=torch.float64):
    return scale * torch.randn(*shape, generator=seeded(seed), dtype=dtype)


# --- Independent implementations --------------------------------------------------------


def slow_jsd(p, q):
    """JSD of two lists of probabilities, with 0 ln 0 = 0."""
    total = 0.0
    for a, b in zip(p, q, strict=True):
        m = (a + b) / 2
        total += 0.5 * (a * math.log(a / m) if a > 0 else 0.0)
        total += 0.5 * (b * math.log(b / m) if b > 0 else 0.0)
    return total


def slow_divergence(p, neighbors, target):
    """Divergence of a row to its neighbours, all lists of floats."""
    if target == "each":
        return sum(slow_jsd(p, q) for q in neighbors) / len(neighbors)
    return slow_jsd(p, [sum(column) / len(neighbors) for column in zip(*neighbors, strict=True)])


def naive_jsd(log_p, log_q):
    """JSD in log space, left to autograd."""
    log_m = torch.logaddexp(log_p, log_q) - LN2
    return 0.5 * (log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)).sum(-1)


def naive_divergence(logits, neighbor_log_q, target):
    log_p = logits.log_softmax(1)
    if target == "each":
        return naive_jsd(log_p.unsqueeze(1), neighbor_log_q).mean(1)
    return naive_jsd(log_p, neighbor_log_q.logsumexp(1) - math.log(neighbor_log_q.shape[1]))


def value_and_gradient(function, logits):
    logits = logits.clone().requires_grad_()
    value = function(logits)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


# --- The divergence ---------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        ((0.5, 0.5), (0.9, 0.1), 0.10174922507919676),
        ((0.7, 0.2, 0.1), (0.1, 0.3, 0.6), 0.23064548790411),
        ((1.0, 0.0), (0.0, 1.0), LN2),
        ((0.2, 0.8), (0.2, 0.8), 0.0),
    ],
)
def test_divergence_has_known_values(p, q, expected, target):
    logits = torch.tensor([p], dtype=torch.float64).log().clamp(min=-800)
    log_q = torch.tensor([[q, q, q]], dtype=torch.float64).log()
    found = jsd_to_neighbors(logits, log_q, target=target).item()
    assert found == pytest.approx(expected, abs=1e-14)
    assert found == pytest.approx(jensenshannon(p, q) ** 2, abs=1e-14)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n_classes", [2, 3, 33, 100])
def test_divergence_equals_a_slow_loop(n_classes, target):
    logits = normal(7, n_classes, seed=1, scale=3)
    log_q = normal(7, 4, n_classes, seed=2, scale=3).log_softmax(2)
    found = jsd_to_neighbors(logits, log_q, target=target)
    expected = [
        slow_divergence(p, q, target)
        for p, q in zip(logits.softmax(1).tolist(), log_q.exp().tolist(), strict=True)
    ]
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), atol=1e-13, rtol=0
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("n_classes", [2, 5, 40])
def test_gradient_equals_autograd(n_classes, scale, target):
    logits = normal(9, n_classes, seed=3, scale=scale)
    log_q = normal(9, 6, n_classes, seed=4, scale=scale).log_softmax(2)
    value, gradient = value_and_gradient(
        lambda z: jsd_to_neighbors(z, log_q, target=target), logits
    )
    expected, slope = value_and_gradient(lambda z: naive_divergence(z, log_q, target), logits)
    torch.testing.assert_close(value, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(gradient, slope, atol=1e-12, rtol=0)


def test_gradient_has_the_closed_form():
    logits, log_q = normal(5, 4, seed=5), normal(5, 3, 4, seed=6).log_softmax(2)
    p, q = logits.softmax(1), log_q.exp().mean(1)
    g = 0.5 * (2 * p / (p + q)).log()
    _, gradient = value_and_gradient(lambda z: jsd_to_neighbors(z, log_q, target="mean"), logits)
    torch.testing.assert_close(gradient, p * (g - (p * g).sum(1, keepdim=True)), atol=1e-15, rtol=0)


def test_each_row_of_the_divergence_has_its_own_gradient():
    logits, log_q = normal(5, 4, seed=5), normal(5, 3, 4, seed=6).log_softmax(2)
    weights = torch.tensor([1.0, 0.0, 3.0, -2.0, 0.5], dtype=torch.float64)
    found = value_and_gradient(
        lambda z: weights * jsd_to_neighbors(z, log_q, target="each"), logits
    )
    expected = value_and_gradient(lambda z: weights * naive_divergence(z, log_q, "each"), logits)
    torch.testing.assert_close(found[1], expected[1], atol=1e-13, rtol=0)


logit = st.floats(-1e4, 1e4, width=32)


@st.composite
def rows_and_neighbors(draw):
    n_classes, k = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    row = st.lists(logit, min_size=n_classes, max_size=n_classes)
    logits = draw(st.lists(row, min_size=1, max_size=3))
    neighbors = [[draw(row) for _ in range(k)] for _ in logits]
    return torch.tensor(logits), torch.tensor(neighbors).log_softmax(2)


@settings(deadline=None, max_examples=80)
@given(rows_and_neighbors())
def test_divergence_is_bounded_and_the_mean_target_never_larger(case):
    logits, log_q = case
    values = {}
    for target in TARGETS:
        value, gradient = value_and_gradient(
            lambda z, target=target: jsd_to_neighbors(z, log_q, target=target), logits
        )
        assert gradient.isfinite().all()
        assert gradient.abs().max() <= 0.5  # p |ln(p/m)| / 2 and <p, g> stay below 1/2
        assert (value >= 0).all()
        assert (value <= LN2 + 1e-6).all()
        values[target] = value
    assert (values["mean"] <= values["each"] + 1e-6).all()


@pytest.mark.parametrize("target", TARGETS)
def test_extreme_logits_in_float32_have_finite_gradients(target):
    corner = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [1e4, 1e4, 1e4]])
    log_q = corner[torch.tensor([[1, 2], [0, 2], [0, 1]])].log_softmax(2)
    value, gradient = value_and_gradient(
        lambda z: jsd_to_neighbors(z, log_q, target=target), corner
    )
    assert value.isfinite().all()
    assert gradient.isfinite().all()
    assert value[0] > 0.3


def test_disjoint_predictions_are_ln2_apart_to_the_bit():
    value = jsd_to_neighbors(
        torch.tensor([[900.0, -900.0]]), torch.tensor([[[-1800.0, 0.0]]]), target="each"
    )
    assert value.item() == pytest.approx(LN2, abs=1e-7)


# --- The penalty and its cache ----------------------------------------------------------


def ring(n, k=2):
    """A symmetric graph in which row i has the k rows beside it."""
    steps = [s for h in range(1, k // 2 + 1) for s in (h, -h)]
    return (torch.arange(n).unsqueeze(1) + torch.tensor(steps)) % n


def on_graph(neighbors, logits, **params):
    """A smoothing with a graph made by hand and a full cache."""
    smoothing = NeighborhoodSmoothing(**params).update_graph(normal(len(logits), 3, seed=9), logits)
    smoothing.neighbors_ = neighbors
    return smoothing


def test_cached_neighbours_cost_half_the_gradient_on_a_symmetric_graph():
    logits, neighbors = normal(12, 3, seed=7, scale=2), ring(12, 4)

    def two_sided(z):
        log_p = z.log_softmax(1)
        return naive_jsd(log_p.unsqueeze(1), log_p[neighbors]).mean()

    smoothing = on_graph(neighbors, logits, target="each", cache_decay=0)
    value, ours = value_and_gradient(lambda z: smoothing.penalty(z, torch.arange(12)), logits)
    expected, full = value_and_gradient(two_sided, logits)
    assert value.item() == pytest.approx(expected.item(), abs=1e-14)
    torch.testing.assert_close(full, 2 * ours, atol=1e-14, rtol=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.7])
@pytest.mark.parametrize("target", TARGETS)
def test_batches_read_the_cache_before_they_write_it(target, decay, weighted):
    n, n_classes = 12, 3
    neighbors = knn_graph(normal(n, 4, seed=1), 3)
    first = normal(n, n_classes, seed=2, scale=2)
    smoothing = on_graph(neighbors, first, target=target, cache_decay=decay)
    cache = dict(enumerate(first.softmax(1).tolist()))
    n_mutual = 0
    for step in range(8):
        index = torch.randperm(n, generator=seeded(step))[:5]
        logits = normal(5, n_classes, seed=10 + step, scale=2)
        weight = torch.rand(5, generator=seeded(step)).double() + 0.1 if weighted else None
        value, gradient = value_and_gradient(
            lambda z, i=index, w=weight: smoothing.penalty(z, i, weight=w), logits
        )

        shares = [1.0] * 5 if weight is None else weight.tolist()
        read = {i: [cache[j] for j in neighbors[i].tolist()] for i in index.tolist()}
        proba = logits.softmax(1).tolist()
        expected = sum(
            share * slow_divergence(p, read[i], target)
            for share, p, i in zip(shares, proba, index.tolist(), strict=True)
        ) / len(shares)
        assert value.item() == pytest.approx(expected, abs=1e-13)

        log_q = torch.tensor([read[i] for i in index.tolist()], dtype=torch.float64).log()
        share = torch.tensor(shares, dtype=torch.float64)
        _, slope = value_and_gradient(
            lambda z, q=log_q, s=share: (s * naive_divergence(z, q, target)).mean(),
            logits,
        )
        torch.testing.assert_close(gradient, slope, atol=1e-13, rtol=0)

        for p, i in zip(proba, index.tolist(), strict=True):
            n_mutual += any(j in index.tolist() for j in neighbors[i].tolist())
            cache[i] = [
                decay * old + (1 - decay) * new for old, new in zip(cache[i], p, strict=True)
            ]
        written = torch.tensor([cache[i] for i in range(n)], dtype=torch.float64)
        torch.testing.assert_close(smoothing.log_proba_.exp(), written, atol=1e-13, rtol=0)
    assert n_mutual > 5  # the batches did hold rows beside their neighbours


def test_two_neighbours_in_one_batch_see_each_others_previous_prediction():
    before = torch.tensor([[2.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    now = torch.tensor([[5.0, 0.0], [5.0, 0.0]], dtype=torch.float64)
    smoothing = on_graph(torch.tensor([[1], [0]]), before, cache_decay=0)
    penalty = smoothing.penalty(now, torch.tensor([0, 1])).item()
    p, old = now.softmax(1).tolist(), before.softmax(1).tolist()
    assert penalty == pytest.approx((slow_jsd(p[0], old[1]) + slow_jsd(p[1], old[0])) / 2)
    assert penalty > 0.1  # they agree now; had they read each other's new values it were 0
    assert smoothing.penalty(now, torch.tensor([0, 1])).item() == pytest.approx(0, abs=1e-15)


def test_weights_act_as_repetition():
    first, logits = normal(6, 3, seed=3), normal(6, 3, seed=4)
    rows = torch.tensor([0, 1, 1, 1, 4])
    repeated = on_graph(ring(6), first).penalty(logits[rows], rows)
    weighted = on_graph(ring(6), first).penalty(
        logits[[0, 1, 4]],
        torch.tensor([0, 1, 4]),
        weight=torch.tensor([1.0, 3.0, 1.0]).double() * 3 / 5,
    )
    assert weighted.item() == pytest.approx(repeated.item(), abs=1e-15)


@pytest.mark.parametrize("target", TARGETS)
def test_penalty_keeps_nothing_per_neighbour_for_the_backward_pass(target):
    B, k, K = 16, 8, 5
    smoothing = NeighborhoodSmoothing(n_neighbors=k, target=target)
    smoothing.update_graph(normal(40, 3), normal(40, K, seed=1))
    logits = normal(B, K, seed=2).requires_grad_()
    sizes = []

    def pack(tensor):
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        smoothing.penalty(logits, torch.arange(B)).backward()
    assert sizes
    assert max(sizes) <= B * K


def test_penalty_leaves_the_logits_alone():
    logits = normal(6, 3, seed=1)
    kept = logits.clone()
    on_graph(ring(6), normal(6, 3, seed=2)).penalty(logits, torch.arange(6))
    assert torch.equal(logits, kept)


def test_cache_holds_log_probabilities_and_no_gradient():
    logits = normal(6, 3, seed=1).requires_grad_()
    smoothing = on_graph(ring(6), logits)
    smoothing.penalty(2 * logits, torch.arange(6)).backward()
    assert not smoothing.log_proba_.requires_grad
    torch.testing.assert_close(
        smoothing.log_proba_.exp().sum(1), torch.ones(6, dtype=torch.float64)
    )
    assert (smoothing.log_proba_ <= 0).all()


def test_refreshed_graph_keeps_the_past_in_the_cache():
    old, new = normal(6, 3, seed=1), normal(6, 3, seed=2)
    for decay in (0.0, 0.25):
        smoothing = NeighborhoodSmoothing(cache_decay=decay).update_graph(old, old)
        smoothing.update_graph(new, new)
        expected = decay * old.softmax(1) + (1 - decay) * new.softmax(1)
        torch.testing.assert_close(smoothing.log_proba_.exp(), expected)


def test_without_logits_the_first_pass_fills_the_cache_at_no_penalty():
    logits = normal(10, 3, seed=1, scale=3)
    smoothing = NeighborhoodSmoothing(n_neighbors=3).update_graph(normal(10, 4))
    assert smoothing.log_proba_ is None
    for rows in torch.arange(10).split(4):
        value, gradient = value_and_gradient(
            lambda z, rows=rows: smoothing.penalty(z, rows), logits[rows]
        )
        assert value == 0
        assert not gradient.any()
    torch.testing.assert_close(smoothing.log_proba_, logits.log_softmax(1))
    value, gradient = value_and_gradient(
        lambda z: smoothing.penalty(z, torch.arange(4)), logits[:4]
    )
    assert value > 0
    assert gradient.any()


def test_penalty_works_without_gradients_and_in_float32():
    logits = normal(6, 3, seed=1)
    exact = on_graph(ring(6), logits).penalty(2 * logits, torch.arange(6))
    with torch.no_grad():
        single = on_graph(ring(6), logits.float()).penalty(2 * logits.float(), torch.arange(6))
    assert single.dtype == torch.float32
    assert single.item() == pytest.approx(exact.item(), abs=1e-6)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"target": "median"}, "target must be 'mean' or 'each'"),
        ({"graph": "ring"}, "graph must be"),
        ({"reduction": "tsne"}, "reduction must be"),
        ({"cache_decay": 1.0}, "cache_decay must lie in"),
        ({"cache_decay": -0.1}, "cache_decay must lie in"),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1"),
        ({"n_components": 0}, "n_components must be at least 1"),
    ],
)
def test_wrong_parameters_are_refused(params, words):
    with pytest.raises(ValueError, match=words):
        NeighborhoodSmoothing(**params)


def test_calls_that_cannot_be_right_are_refused():
    smoothing = NeighborhoodSmoothing()
    with pytest.raises(RuntimeError, match="update_graph before penalty"):
        smoothing.penalty(normal(2, 2), torch.arange(2))
    with pytest.raises(ValueError, match="at least two rows"):
        NeighborhoodSmoothing().update_graph(normal(1, 2))
    with pytest.raises(ValueError, match="5 embeddings but logits for 4 rows"):
        NeighborhoodSmoothing().update_graph(normal(5, 2), normal(4, 2))
    smoothing.update_graph(normal(5, 2), normal(5, 2))
    with pytest.raises(ValueError, match="holds 5 rows and the embeddings 6"):
        smoothing.update_graph(normal(6, 2))


def test_more_neighbours_than_rows_are_clipped():
    smoothing = NeighborhoodSmoothing(n_neighbors=50).update_graph(normal(4, 2), normal(4, 2))
    assert smoothing.neighbors_.shape == (4, 3)


def train_by_hand(strength):
    """The loop of the class's docstring; returns the penalty of each epoch with a graph."""
    g = seeded(0)
    X = torch.randn(120, 4, generator=g)
    y = (X[:, 0] + torch.randn(120, generator=g) > 0).long()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        body, head = nn.Sequential(nn.Linear(4, 32), nn.ReLU()), nn.Linear(32, 2)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.02)
    smoothing, penalties = NeighborhoodSmoothing(n_neighbors=10), []
    for epoch in range(24):
        if epoch == 8:
            with torch.no_grad():
                smoothing.update_graph(body(X), head(body(X)))
        total = 0.0
        for rows in torch.randperm(120, generator=g).split(40):
            logits = head(body(X[rows]))
            loss = cross_entropy(logits, y[rows])
            if epoch >= 8:
                penalty = smoothing.penalty(logits, rows)
                total += penalty.item() / 3
                loss = loss + strength * penalty
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch >= 8:
            penalties.append(total)
    return penalties


def test_penalty_falls_in_a_loop_of_plain_torch():
    with_penalty, without = train_by_hand(10.0), train_by_hand(0.0)
    assert with_penalty[0] == pytest.approx(without[0], rel=0.5)
    assert with_penalty[-1] < 0.7 * max(with_penalty[:3])
    assert with_penalty[-1] < 0.5 * without[-1]


# --- Homophily --------------------------------------------------------------------------


def test_homophily_equals_a_slow_count():
    y = torch.tensor([0, 0, 1, 2, 1, 0, 2, 2, 1, 0, 0])
    n = len(y)
    smoothing = NeighborhoodSmoothing(n_neighbors=3).update_graph(normal(n, 4))
    share, chance = smoothing.homophily(y)
    same = [int(y[i] == y[j]) for i in range(n) for j in smoothing.neighbors_[i].tolist()]
    pairs = [int(y[i] == y[j]) for i in range(n) for j in range(n) if i != j]
    assert share == pytest.approx(sum(same) / len(same))
    assert chance == pytest.approx(sum(pairs) / len(pairs))


# --- Graphs and reductions --------------------------------------------------------------


def test_controls_are_the_random_and_the_relabelled_graph():
    Z = normal(40, 4)
    state = torch.get_rng_state()
    graphs = {
        graph: NeighborhoodSmoothing(n_neighbors=5, graph=graph, random_state=3)
        .update_graph(Z)
        .neighbors_
        for graph in ("knn", "random", "permuted", "self")
    }
    assert torch.equal(torch.get_rng_state(), state)
    assert graphs["self"].tolist() == [[row] for row in range(40)]
    knn = knn_graph(Z, 5)
    assert torch.equal(graphs["knn"], knn)
    assert torch.equal(graphs["random"], random_graph(40, 5, seed=3))
    assert torch.equal(graphs["permuted"], permute_graph(knn, seed=3))
    other = NeighborhoodSmoothing(n_neighbors=5, graph="random", random_state=4).update_graph(Z)
    assert not torch.equal(other.neighbors_, graphs["random"])


@pytest.mark.parametrize("target", TARGETS)
def test_the_graph_of_oneself_pulls_to_the_own_moving_average(target):
    first, second, third = (normal(30, 3, seed=seed) for seed in range(3))
    smoothing = NeighborhoodSmoothing(graph="self", target=target, cache_decay=0.7)
    smoothing.update_graph(normal(30, 4), first)
    rows = torch.arange(30)
    smoothing.penalty(second, rows)
    found = smoothing.penalty(third, rows)
    past = 0.7 * first.softmax(1) + 0.3 * second.softmax(1)
    expected = naive_jsd(third.log_softmax(1), past.log()).mean()
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("n", [50, 7])
def test_pca_equals_that_of_scikit_learn(n):
    Z = normal(n, 20).relu()
    reduced = reduce_embeddings(Z, "pca", 5, 0)
    expected = torch.from_numpy(PCA(5).fit_transform(Z.numpy()))
    assert reduced.shape == (n, 5)
    # Up to the signs of the components, which no distance or cosine sees.
    torch.testing.assert_close(reduced.abs(), expected.abs(), atol=1e-10, rtol=1e-6)
    torch.testing.assert_close(reduced @ reduced.T, expected @ expected.T)


def test_pca_searches_the_components():
    Z = normal(60, 12).relu()
    smoothing = NeighborhoodSmoothing(n_neighbors=4, reduction="pca", n_components=3)
    found = smoothing.update_graph(Z).neighbors_
    expected = knn_graph(torch.from_numpy(PCA(3).fit_transform(Z.numpy())), 4)
    assert torch.equal(found, expected)
    assert not torch.equal(found, knn_graph(Z, 4))


def test_pca_of_constant_rows_is_quiet_and_finite():
    Z = torch.ones(10, 6)
    assert not reduce_embeddings(Z, "pca", 2, 0).any()
    graph = NeighborhoodSmoothing(n_neighbors=3, reduction="pca", n_components=2).update_graph(Z)
    assert graph.neighbors_.shape == (10, 3)


@pytest.mark.parametrize("reduction", ["pca", "umap"])
def test_few_dimensions_need_no_reduction(reduction):
    Z = normal(10, 3)
    assert reduce_embeddings(Z, reduction, 3, 0) is Z


def test_missing_umap_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ImportError, match=r"pip install 'skcal\[umap\]'"):
        NeighborhoodSmoothing(reduction="umap", n_components=2).update_graph(normal(20, 5))


@pytest.mark.parametrize(("n", "n_neighbors", "n_components"), [(40, 15, 4), (5, 4, 3)])
def test_umap_is_asked_for_what_the_rows_allow(monkeypatch, n, n_neighbors, n_components):
    asked = {}

    class FakeUMAP:
        def __init__(self, **params):
            asked.update(params)

        def fit_transform(self, Z):
            return Z[:, : asked["n_components"]]

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=FakeUMAP))
    Z = normal(n, 6, dtype=torch.float32)
    found = reduce_embeddings(Z, "umap", 4, 7)
    assert torch.equal(found, Z[:, :n_components])
    expected = {"n_neighbors": n_neighbors, "n_components": n_components, "random_state": 7}
    assert asked == expected | {"n_jobs": 1}


@pytest.mark.slow
def test_umap_reduces_without_a_warning_and_leaves_the_generators_alone():
    pytest.importorskip("umap", exc_type=ImportError)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    clusters = normal(3, 20, seed=1, scale=5, dtype=torch.float32)
    label = torch.arange(90) % 3
    Z = clusters[label] + normal(90, 20, seed=2, dtype=torch.float32)
    smoothing = NeighborhoodSmoothing(n_neighbors=5, reduction="umap", n_components=2)
    neighbors = smoothing.update_graph(Z).neighbors_
    assert smoothing.homophily(label)[0] > 0.95
    again = NeighborhoodSmoothing(n_neighbors=5, reduction="umap", n_components=2)
    assert torch.equal(again.update_graph(Z).neighbors_, neighbors)
    for n in (2, 3, 5, 12):
        NeighborhoodSmoothing(n_neighbors=2, reduction="umap").update_graph(Z[:n])
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002
