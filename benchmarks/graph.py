"""CPU time and recall of the neighbour graph.

    python benchmarks/graph.py

One thread. Recall is the share of the exact ten nearest rows found, on 2,000 rows drawn at
random. Embeddings are those of a network trained on a synthetic table, and ReLU clusters.
"""

import argparse
import resource
import time

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import normalize

from skcal import NeSCalMLP
from skcal.datasets import make_calibration_data
from skcal.neural._graph import knn_graph

N_NEIGHBORS, N_QUERIES = 10, 2_000


def clusters(n: int, d: int) -> Tensor:
    g = torch.Generator().manual_seed(0)
    centers = torch.randn(50, d, generator=g)
    rows = centers[torch.randint(0, 50, (n,), generator=g)] + torch.randn(n, d, generator=g)
    return torch.relu(rows)


def trained(n: int, d: int) -> Tensor:
    X, y, _ = make_calibration_data(n, n_features=30, n_informative=10, n_classes=5, random_state=0)
    net = NeSCalMLP(
        n_members=1,
        num_embedding=None,
        hidden_sizes=(d, d),
        smoothing=0,
        max_epochs=8,
        early_stopping=False,
        random_state=0,
    )
    return torch.from_numpy(net.fit(X[:20_000], y[:20_000]).embed(X))


def recall(embeddings: Tensor, neighbors: Tensor) -> float:
    Z = normalize(embeddings, dim=1)
    rows = torch.randperm(len(Z), generator=torch.Generator().manual_seed(1))[:N_QUERIES]
    similarity = Z[rows] @ Z.T
    similarity[torch.arange(len(rows)), rows] = -torch.inf
    exact = similarity.topk(N_NEIGHBORS, dim=1).indices
    found = (neighbors[rows].unsqueeze(2) == exact.unsqueeze(1)).any(dim=2)
    return float(found.double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[4_000, 10_000, 30_000, 100_000])
    parser.add_argument("--width", type=int, default=128)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'embedding':<12}{'rows':>9}{'search':>16}{'CPU s':>9}{'recall':>9}{'peak MB':>9}")
    with threadpool_limits(1):
        for name, make in (("trained", trained), ("clusters", clusters)):
            for n in args.rows:
                embeddings = make(n, args.width)
                for exact in (False, True):
                    if exact and n > 30_000:
                        continue  # a minute per fit
                    times = []
                    for _ in range(3):
                        start = time.process_time()
                        neighbors = knn_graph(embeddings, N_NEIGHBORS, exact=exact)
                        times.append(time.process_time() - start)
                    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                    search = "exact" if exact else "inverted file"
                    print(
                        f"{name:<12}{n:>9}{search:>16}{np.median(times):>9.2f}"
                        f"{recall(embeddings, neighbors):>9.4f}{peak:>9}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
