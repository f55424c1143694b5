"""Neighbour search against scikit-learn, and what the control graphs promise."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from sklearn.neighbors import NearestNeighbors
from torch.utils.flop_counter import FlopCounterMode

from skcal.neural._graph import _split_cells, knn_graph, permute_graph, random_graph


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def clusters(n, d=64, n_clusters=50, seed=0):
    """Rows like the hidden layer of a trained network: clustered, after a ReLU."""
    label = torch.randint(n_clusters, (n,), generator=torch.Generator().manual_seed(seed))
    centres = 2 * normal(n_clusters, d, seed=seed + 1, dtype=torch.float32)
    return (centres[label] + normal(n, d, seed=seed + 2, dtype=torch.float32)).relu()


def as_sets(neighbors):
    return [set(row) for row in np.asarray(neighbors).tolist()]


def assert_valid(neighbors, n, k):
    """Check that each row has k distinct rows other than itself."""
    assert neighbors.shape == (n, k)
    assert neighbors.dtype == torch.int64
    assert neighbors.min() >= 0
    assert neighbors.max() < n
    assert not (neighbors == torch.arange(n).unsqueeze(1)).any()
    ordered = neighbors.sort(dim=1).values
    assert (ordered[:, 1:] > ordered[:, :-1]).all()


# --- Nearest neighbours -----------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("d", [2, 16])
def test_exact_search_equals_scikit_learn(d, k):
    Z = normal(300, d)
    oracle = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(Z.numpy())
    found = knn_graph(Z, k)
    assert_valid(found, 300, k)
    assert as_sets(found) == as_sets(oracle.kneighbors(return_distance=False))


def test_length_does_not_matter_and_the_nearest_come_first():
    Z = normal(100, 5)
    neighbors = knn_graph(Z * torch.rand(100, 1, dtype=torch.float64).add(0.1), 8)
    assert torch.equal(neighbors, knn_graph(Z, 8))
    unit = Z / Z.norm(dim=1, keepdim=True)
    similarity = (unit.unsqueeze(1) * unit[neighbors]).sum(2)
    assert (similarity.diff(dim=1) <= 1e-15).all()


@pytest.mark.parametrize("exact", [True, False])
def test_a_row_is_left_out_by_its_index_and_not_by_its_distance(exact):
    originals = normal(15, 6)
    Z = originals.repeat_interleave(20, dim=0)
    neighbors = knn_graph(Z, 5, exact=exact)
    assert_valid(neighbors, 300, 5)
    group = torch.arange(300) // 20
    assert (group[neighbors] == group.unsqueeze(1)).all()


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("n", [2, 3, 30])
def test_every_other_row_is_a_neighbour_when_all_are_asked_for(n, exact):
    neighbors = knn_graph(normal(n, 4), 100, exact=exact)
    assert_valid(neighbors, n, n - 1)


@pytest.mark.parametrize("exact", [True, False])
def test_a_small_memory_budget_changes_nothing(exact):
    Z = normal(500, 8)
    expected = knn_graph(Z, 7, exact=exact)
    for budget in (1, 30_000):
        assert torch.equal(knn_graph(Z, 7, exact=exact, memory_budget=budget), expected)


@pytest.mark.parametrize("exact", [True, False])
def test_rows_of_zeros_are_no_obstacle(exact):
    Z = normal(400, 5)
    Z[::3] = 0
    assert_valid(knn_graph(Z, 6, exact=exact), 400, 6)
    assert_valid(knn_graph(torch.zeros(400, 5), 6, exact=exact), 400, 6)


def test_one_row_has_no_neighbours():
    for graph in (lambda: knn_graph(normal(1, 3), 2), lambda: random_graph(1, 2)):
        with pytest.raises(ValueError, match="at least two rows; got 1"):
            graph()


def test_search_takes_embeddings_that_carry_a_gradient():
    Z = normal(20, 3).requires_grad_()
    assert torch.equal(knn_graph(Z, 3), knn_graph(Z.detach(), 3))


@pytest.mark.parametrize("k", [10, 30])
def test_inverted_file_finds_nearly_all_neighbours(k):
    Z = clusters(6_000)
    found, expected = knn_graph(Z, k, exact=False), knn_graph(Z, k, exact=True)
    assert_valid(found, 6_000, k)
    hits = (found.unsqueeze(2) == expected.unsqueeze(1)).any(2)
    assert hits.double().mean() >= 0.98
    assert hits.double().mean(1).min() >= 0.5  # no row is left without its neighbourhood


def test_inverted_file_looks_at_a_part_of_the_pairs_only():
    n, d = 15_000, 16
    with FlopCounterMode(display=False) as counter:
        knn_graph(clusters(n, d), 10)
    assert counter.get_total_flops() < 0.6 * (2 * n * n * d)


def test_inverted_file_repeats_itself_for_a_seed():
    Z = normal(4_500, 24, dtype=torch.float32)
    found = knn_graph(Z, 10, seed=1)
    assert torch.equal(knn_graph(Z, 10, seed=1), found)
    assert not torch.equal(knn_graph(Z, 10, seed=2), found)


def test_many_equal_rows_are_cut_into_blocks_of_bounded_size():
    assert_valid(knn_graph(torch.ones(10_000, 4), 10), 10_000, 10)
    cell = torch.tensor([1, 4]).repeat_interleave(torch.tensor([1_000, 7]))
    blocks, owners = _split_cells(cell, 6, cap=64)
    assert max(stop - start for start, stop in blocks) == 64
    assert [row for block in blocks for row in range(*block)] == list(range(1_007))
    assert owners.tolist() == [1] * 16 + [4]


@pytest.mark.parametrize("k", [1_500, 1_999])
def test_few_rows_in_the_nearest_cells_widen_the_search(k):
    assert_valid(knn_graph(normal(2_000, 8), k, exact=False), 2_000, k)


# --- Controls ---------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(2, 1), (12, 3), (12, 11), (12, 40), (400, 3), (1_000, 10)])
def test_random_graph_has_distinct_rows_and_repeats_itself(n, k):
    neighbors = random_graph(n, k, seed=1)
    assert_valid(neighbors, n, min(k, n - 1))
    assert torch.equal(random_graph(n, k, seed=1), neighbors)
    if n > 2:
        assert not torch.equal(random_graph(n, k, seed=2), neighbors)


@pytest.mark.parametrize(("n", "k", "n_seeds"), [(12, 3, 500), (110, 2, 500)])
def test_random_graph_is_uniform(n, k, n_seeds):
    pairs = np.zeros((n, n))
    for seed in range(n_seeds):
        np.add.at(pairs, (np.arange(n)[:, None], random_graph(n, k, seed=seed).numpy()), 1)
    assert pairs.sum() == n * k * n_seeds
    others = pairs[~np.eye(n, dtype=bool)]
    # Drawing without replacement only lowers the statistic: a small one is no fault.
    assert chisquare(others).pvalue > 1e-3
    assert chisquare(pairs.sum(axis=0)).pvalue > 1e-3
    steps = [np.diagonal(np.hstack([pairs, pairs]), h).sum() for h in range(1, n)]
    assert chisquare(steps).pvalue > 1e-3


def test_permuted_graph_is_the_relabelled_graph():
    neighbors = knn_graph(normal(60, 4), 5)
    permuted = permute_graph(neighbors, seed=3)
    assert_valid(permuted, 60, 5)
    pi = torch.randperm(60, generator=torch.Generator().manual_seed(3)).tolist()
    inverse = {image: row for row, image in enumerate(pi)}
    for row in range(60):
        assert permuted[row].tolist() == [pi[j] for j in neighbors[inverse[row]].tolist()]
    assert not torch.equal(permuted, neighbors)
    assert not torch.equal(permute_graph(neighbors, seed=4), permuted)


def test_permuted_graph_keeps_the_hubs():
    neighbors = knn_graph(normal(200, 20), 5)
    in_degree = torch.bincount(neighbors.flatten(), minlength=200).sort().values
    permuted = permute_graph(neighbors, seed=0)
    assert in_degree.max() > 10  # there are hubs to keep
    assert torch.equal(torch.bincount(permuted.flatten(), minlength=200).sort().values, in_degree)
    kept = (permuted.unsqueeze(2) == neighbors.unsqueeze(1)).any(2).double().mean()
    assert kept < 0.1


def test_graphs_leave_the_global_generator_alone():
    Z = clusters(4_500)
    state = torch.get_rng_state()
    permute_graph(knn_graph(Z, 5))
    knn_graph(Z[:50], 5)
    random_graph(20, 5)
    random_graph(1_000, 5)
    assert torch.equal(torch.get_rng_state(), state)
