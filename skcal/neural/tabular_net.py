"""The network behind NeSCalMLP: embedded columns, then an ensemble that shares its weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from rtdl_num_embeddings import PeriodicEmbeddings, PiecewiseLinearEmbeddings
from tabm import EnsembleView, LinearBatchEnsemble, LinearEnsemble
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from skcal.neural.modules import Dropout

NumEmbedding = Literal["piecewise", "piecewise-tree", "periodic"]

# Frequencies per column, and their standard deviation: those of RealMLP's embeddings.
_N_FREQUENCIES = 16
_FREQUENCY_SCALE = 0.1


class _MemberLayer(LinearBatchEnsemble):
    """The layer of the package tabm, with its last two steps in one pass over memory."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.bias, (x * self.r) @ self.weight.T, self.s)


class _Piecewise(PiecewiseLinearEmbeddings):
    """The embedding of the package: a line, plus a learned height for each bin passed.

    Our choice: beyond the outermost edges only the line goes on. The paper goes on with the
    last bin, by one height per width of that bin; where the bin is narrow, a cell little above
    all others would move every probability to 0 or 1.
    """

    def forward(self, x: Tensor) -> Tensor:
        # How far each bin is passed; bins that pad shorter columns have slope and start 0.
        passed = torch.addcmul(self.impl.bias, self.impl.weight, x[..., None]).clamp(0, 1)
        return self.linear0(x) + self.linear(passed)


class TabularNet(nn.Module):
    r"""A network for encoded tables: column embeddings, shared hidden layers, several members.

    Numbers are embedded column by column, codes of long categories looked up in a table of
    learned vectors, and what is left (flags, one-hot levels) is taken as it is. With more than
    one member the hidden layers are those of TabM: all members share each weight matrix
    :math:`W` and scale its inputs and outputs by vectors :math:`r_m, s_m` of their own,

    .. math:: h_m = \mathrm{ReLU}(s_m \odot W (r_m \odot x) + b_m).

    Parameters
    ----------
    n_inputs : int
        Columns of the encoded table.
    n_classes : int
    hidden_sizes : sequence of int, default=(128, 128)
        Width of each hidden layer.
    dropout : float in [0, 1), default=0.1
        Share of hidden values dropped in training.
    n_members : int, default=8
        Members of the ensemble; 1 is a plain network.
    bins : sequence of Tensor, optional
        One for each of the leading numeric columns: the sorted edges of its bins, for
        piecewise-linear embeddings, which go on in a line beyond the outermost edges; a
        column of fewer than three edges is not embedded.
    periodic : sequence of int, default=()
        Columns with periodic embeddings.
    d_embedding : int, default=8
        Size of the embedding of a number.
    blocks : sequence of int, optional
        How many of the columns, in order, belong to one column of the table. Members differ
        at the start by one random factor for each.
    cardinalities : sequence of int, default=()
        For each of the trailing columns, which hold codes, the number of codes.

    Raises
    ------
    ValueError
        If ``bins``, ``periodic``, ``blocks`` or ``cardinalities`` do not fit the columns.

    References
    ----------
    Y. Gorishniy, A. Kotelnikov and A. Babenko, "TabM: Advancing Tabular Deep Learning with
    Parameter-Efficient Ensembling", ICLR 2025.
    Y. Gorishniy, I. Rubachev and A. Babenko, "On Embeddings for Numerical Features in Tabular
    Deep Learning", NeurIPS 2022.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural import TabularNet
    >>> net = TabularNet(4, 3, n_members=2, bins=[torch.linspace(-1, 1, 5)] * 4)
    >>> net(torch.zeros(5, 4)).shape  # in training: the logits of every member
    torch.Size([5, 2, 3])
    >>> net.eval()(torch.zeros(5, 4)).exp().sum(dim=1)  # then: the members' mean probability
    tensor([1., 1., 1., 1., 1.], grad_fn=<SumBackward1>)
    """

    _embedded: Tensor
    _others: Tensor

    def __init__(
        self,
        n_inputs: int,
        n_classes: int,
        *,
        hidden_sizes: Sequence[int] = (128, 128),
        dropout: float = 0.1,
        n_members: int = 8,
        bins: Sequence[Tensor] = (),
        periodic: Sequence[int] = (),
        d_embedding: int = 8,
        blocks: Sequence[int] | None = None,
        cardinalities: Sequence[int] = (),
    ) -> None:
        super().__init__()
        if n_members < 1:
            raise ValueError(f"n_members must be at least 1; got {n_members}.")
        n_dense = n_inputs - len(cardinalities)
        _check_columns(n_dense, bins, periodic, blocks)
        piecewise = [column for column, edges in enumerate(bins) if len(edges) > 2]
        embedded = list(piecewise or periodic)
        self.numbers: nn.Module | None = None
        if piecewise:
            edges = [bins[column] for column in piecewise]
            self.numbers = _Piecewise(edges, d_embedding, activation=False, version="B")
        elif embedded:
            self.numbers = PeriodicEmbeddings(
                len(embedded),
                d_embedding,
                n_frequencies=_N_FREQUENCIES,
                frequency_init_scale=_FREQUENCY_SCALE,
                lite=False,
            )
        self.codes = nn.ModuleList(nn.Embedding(n, code_width(n)) for n in cardinalities)
        with torch.no_grad():
            for table in self.codes:
                assert isinstance(table, nn.Embedding)
                # Code 0 is a level that training did not see, unless rare ones were merged: it
                # says nothing, where a random vector would say something.
                table.weight[0] = 0
        widths = [code_width(n) for n in cardinalities]
        others = [column for column in range(n_dense) if column not in set(embedded)]
        self.register_buffer("_embedded", torch.tensor(embedded, dtype=torch.int64), False)
        self.register_buffer("_others", torch.tensor(others, dtype=torch.int64), False)
        self._n_dense = n_dense
        self._in_order = embedded == list(range(len(embedded)))
        # Columns in the order in which they reach the first layer.
        spans = [d_embedding] * len(embedded) + _spans(others, blocks, n_dense) + widths
        width = sum(spans)
        layers: list[nn.Module] = [EnsembleView(k=n_members)] if n_members > 1 else []
        for position, size in enumerate(hidden_sizes):
            if n_members == 1:
                layers.append(nn.Linear(width, size))
            elif position == 0:
                kind = "normal" if embedded else "random-signs"
                layers.append(
                    _MemberLayer(
                        width,
                        size,
                        k=n_members,
                        scaling_init=(kind, "ones"),
                        first_scaling_init_chunks=spans,
                    )
                )
            else:
                layers.append(_MemberLayer(width, size, k=n_members, scaling_init="ones"))
            layers.append(nn.ReLU())
            if dropout:
                layers.append(Dropout(dropout))
            width = size
        self.body = nn.Sequential(*layers)
        self.head = (
            nn.Linear(width, n_classes)
            if n_members == 1
            else LinearEnsemble(width, n_classes, k=n_members)
        )
        self.n_members = n_members

    def forward(self, X: Tensor) -> Tensor:
        """Return logits.

        Parameters
        ----------
        X : Tensor of shape (n, n_inputs)

        Returns
        -------
        Tensor
            Of shape (n, n_members, n_classes) in training with several members. Else of shape
            (n, n_classes); the logarithm of the members' mean probability with several.
        """
        return self.classify(self.embed_columns(X))

    def classify(self, embedded: Tensor) -> Tensor:
        """Return logits as ``forward`` does, from what ``embed_columns`` returned."""
        logits = self.head(self.body(embedded))
        if self.n_members == 1 or self.training:
            return logits
        return mean_log_proba(logits)

    def embed_columns(self, X: Tensor) -> Tensor:
        """Return what the first layer reads of each row, shape (n, width)."""
        parts = []
        n_embedded = len(self._embedded)
        if self._in_order:  # a slice costs a single row much less than a selection
            numbers, others = X[:, :n_embedded], X[:, n_embedded : self._n_dense]
        else:
            numbers, others = X[:, self._embedded], X[:, self._others]
        if self.numbers is not None:
            parts.append(self.numbers(numbers).flatten(1))
        if others.shape[1]:
            parts.append(others)
        for column, table in enumerate(self.codes, start=self._n_dense):
            parts.append(table(X[:, column].long()))
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


def mean_log_proba(logits: Tensor) -> Tensor:
    """Return the logarithm of the members' mean probability, (n, K), from (n, members, K)."""
    return log_softmax(logits, dim=-1).logsumexp(dim=1) - math.log(logits.shape[1])


def code_width(n_codes: int) -> int:
    """Return the size of the learned vector of a category with so many codes: its root."""
    return min(32, max(2, math.ceil(math.sqrt(n_codes))))


def _check_columns(
    n_dense: int, bins: Sequence[Tensor], periodic: Sequence[int], blocks: Sequence[int] | None
) -> None:
    """Refuse descriptions of columns other than the ``n_dense`` without codes."""
    if n_dense < 0:
        raise ValueError("cardinalities must be no more than the n_inputs columns.")
    if len(bins) and len(periodic):
        raise ValueError("Numbers are embedded by bins or periodic functions; give one of the two.")
    if len(bins) > n_dense:
        raise ValueError(
            f"bins are of the leading columns, and {n_dense} hold no codes; got {len(bins)}."
        )
    if not set(periodic) <= set(range(n_dense)):
        raise ValueError(
            f"periodic must hold columns between 0 and {n_dense - 1}, those without codes; got "
            f"{list(periodic)}."
        )
    if blocks is not None and sum(blocks) != n_dense:
        raise ValueError(
            f"blocks must sum to the {n_dense} columns without codes; got {list(blocks)}."
        )


def _spans(others: list[int], blocks: Sequence[int] | None, n_dense: int) -> list[int]:
    """Return how many of the columns that are left belong together, in order."""
    owner = [
        block
        for block, size in enumerate([1] * n_dense if blocks is None else blocks)
        for _ in range(size)
    ]
    spans: list[int] = []
    last = None
    for column in others:
        if owner[column] == last:
            spans[-1] += 1
        else:
            spans.append(1)
        last = owner[column]
    return spans
