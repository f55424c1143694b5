"""Neighbour graphs on embeddings: exact and inverted-file search, and two controls."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

# Up to this many rows every pair is compared; above it, an inverted file is as accurate as
# training needs and several times faster (benchmarks/graph.py).
EXACT_LIMIT = 4_096
_KMEANS_ROUNDS = 6
_ROWS_PER_CELL = 64


def knn_graph(
    embeddings: Tensor,
    n_neighbors: int,
    *,
    seed: int = 0,
    exact: bool | None = None,
    memory_budget: int = 256 * 2**20,
) -> Tensor:
    """Return each row's nearest other rows by cosine similarity.

    Parameters
    ----------
    embeddings : Tensor of shape (n, d)
        Rows need not be normalised.
    n_neighbors : int
        Clipped to ``n - 1``. A row is never its own neighbour, but its duplicates may be.
    seed : int, default=0
        Seed of the inverted file's cells. Exact search draws nothing.
    exact : bool, optional
        Compare every pair. By default only up to 4,096 rows.
    memory_budget : int, default=268435456
        Bytes that one block of similarities may take.

    Returns
    -------
    Tensor of shape (n, min(n_neighbors, n - 1)), int64
        Nearest first.
    """
    n = len(embeddings)
    k = clip_neighbors(n, n_neighbors)
    Z = normalize(embeddings.detach(), dim=1)
    if exact or (exact is None and n <= EXACT_LIMIT):
        return _exact(Z, k, memory_budget)
    return _inverted_file(Z, k, seed, memory_budget)


def random_graph(n: int, n_neighbors: int, *, seed: int = 0) -> Tensor:
    """Return ``n_neighbors`` distinct other rows for each row, drawn uniformly.

    The control that keeps the penalty and throws the neighbourhoods away.

    Returns
    -------
    Tensor of shape (n, min(n_neighbors, n - 1)), int64
    """
    k = clip_neighbors(n, n_neighbors)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.arange(n).unsqueeze(1)
    if n <= 50 * k:
        # Few rows: a full shuffle of the n - 1 others is cheap and needs no second draw.
        steps = torch.rand(n, n - 1, generator=generator).argsort(dim=1)[:, :k] + 1
        return (rows + steps) % n
    steps = torch.randint(1, n, (n, k), generator=generator)
    while True:
        ordered = steps.sort(dim=1).values
        repeated = (ordered[:, 1:] == ordered[:, :-1]).any(dim=1)
        if not repeated.any():
            return (rows + steps) % n
        steps[repeated] = torch.randint(1, n, (int(repeated.sum()), k), generator=generator)


def permute_graph(neighbors: Tensor, *, seed: int = 0) -> Tensor:
    r"""Relabel the rows of a graph by a random permutation.

    The stricter control: with a permutation :math:`\pi` the new graph
    :math:`N'(i) = \pi(N(\pi^{-1}(i)))` keeps every in-degree (and so the hubs) and
    scrambles only which rows they belong to.

    Returns
    -------
    Tensor of the same shape, int64
    """
    n = len(neighbors)
    generator = torch.Generator().manual_seed(seed)
    permutation = torch.randperm(n, generator=generator).to(neighbors.device)
    permuted = torch.empty_like(neighbors)
    permuted[permutation] = permutation[neighbors]
    return permuted


def clip_neighbors(n: int, n_neighbors: int) -> int:
    """Return the number of neighbours that ``n`` rows can have.

    Raises
    ------
    ValueError
        If there are fewer than two rows.
    """
    if n < 2:
        raise ValueError(f"A neighbour graph needs at least two rows; got {n}.")
    return min(n_neighbors, n - 1)


def _exact(Z: Tensor, k: int, memory_budget: int) -> Tensor:
    n = len(Z)
    chunk = max(1, memory_budget // (n * Z.element_size()))
    neighbors = torch.empty(n, k, dtype=torch.int64, device=Z.device)
    for start in range(0, n, chunk):
        similarity = Z[start : start + chunk] @ Z.T
        similarity.diagonal(start).fill_(-torch.inf)
        neighbors[start : start + chunk] = similarity.topk(k, dim=1).indices
    return neighbors


def _inverted_file(Z: Tensor, k: int, seed: int, memory_budget: int) -> Tensor:
    """Search only the cells of a spherical k-means whose centres are nearest."""
    n = len(Z)
    n_cells = int(2 * math.sqrt(n))
    # Chosen for a recall of .98 on embeddings of trained networks (benchmarks/graph.py): with
    # more rows, more of a row's neighbours lie beyond a fixed number of cells.
    n_probes = round(48 * max(1.0, n / 10_000) ** 0.3)
    centers = _spherical_kmeans(Z, n_cells, seed)
    cell = _nearest_center(Z, centers, memory_budget)
    order = cell.argsort(stable=True)
    blocks, owners = _split_cells(cell, n_cells, cap=4 * -(-n // n_cells))
    block_centers = centers[owners]
    probes = (block_centers @ block_centers.T).fill_diagonal_(torch.inf)
    ranked = probes.topk(min(len(blocks), n_probes), dim=1).indices.tolist()
    Z_sorted = Z[order]
    neighbors = torch.empty(n, k, dtype=torch.int64, device=Z.device)
    for own, (start, stop) in enumerate(blocks):
        # The block itself comes first, so that a row's own column is its own position.
        chosen = ranked[own]
        while sum(blocks[b][1] - blocks[b][0] for b in chosen) <= k:
            chosen = probes[own].topk(min(len(blocks), 2 * len(chosen))).indices.tolist()
        candidates = torch.cat([torch.arange(*blocks[b], device=Z.device) for b in chosen])
        pool = torch.cat([Z_sorted[slice(*blocks[b])] for b in chosen])
        chunk = max(1, memory_budget // (len(pool) * Z.element_size()))
        for first in range(start, stop, chunk):
            last = min(first + chunk, stop)
            similarity = Z_sorted[first:last] @ pool.T
            similarity.diagonal(first - start).fill_(-torch.inf)
            nearest = similarity.topk(k, dim=1).indices
            neighbors[order[first:last]] = order[candidates[nearest]]
    return neighbors


def _spherical_kmeans(Z: Tensor, n_cells: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(Z), generator=generator).to(Z.device)
    sample = Z[shuffled[: n_cells * _ROWS_PER_CELL]]
    centers = sample[:n_cells].clone()
    for _ in range(_KMEANS_ROUNDS):
        cell = (sample @ centers.T).argmax(dim=1)
        total = torch.zeros_like(centers).index_add_(0, cell, sample)
        # An empty cell keeps its centre; the next round may fill it.
        empty = torch.bincount(cell, minlength=n_cells) == 0
        centers = torch.where(empty.unsqueeze(1), centers, normalize(total, dim=1))
    return centers


def _nearest_center(Z: Tensor, centers: Tensor, memory_budget: int) -> Tensor:
    chunk = max(1, memory_budget // (len(centers) * Z.element_size()))
    return torch.cat([(part @ centers.T).argmax(dim=1) for part in Z.split(chunk)])


def _split_cells(cell: Tensor, n_cells: int, cap: int) -> tuple[list[tuple[int, int]], Tensor]:
    """Cut the sorted rows into blocks of one cell each, none longer than ``cap``.

    Without the cap, many equal rows would fill one cell and its search would be quadratic.
    """
    blocks, owners, start = [], [], 0
    for owner, size in enumerate(torch.bincount(cell, minlength=n_cells).tolist()):
        for first in range(start, start + size, cap):
            blocks.append((first, min(first + cap, start + size)))
            owners.append(owner)
        start += size
    return blocks, torch.tensor(owners, device=cell.device)
