"""The network for tables."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import nn

from skcal.neural._rows import Batches
from skcal.neural.modules import MLP
from skcal.neural.nescal import NeSCalClassifier
from skcal.neural.net import NetClassifier
from skcal.neural.smoothing import Graph, Reduction, Target


class NeSCalMLP(NeSCalClassifier):
    r"""A multilayer perceptron for tables, trained with Neighborhood Smoothing.

    Takes arrays and mixed DataFrames as they come: it scales numbers, encodes categories,
    flags missing cells, trains with early stopping on the validation log-loss, and answers
    ``predict_proba``. What the smoothing does is described in :class:`NeSCalClassifier`.

    Parameters
    ----------
    hidden_sizes : sequence of int, default=(128, 128)
        Width of each hidden layer.
    dropout : float in [0, 1), default=0.1
        Share of hidden values dropped in training.
    smoothing : float, default=3.0
        Weight :math:`\lambda` of the penalty; 0 is plain cross-entropy, bit for bit.
    n_neighbors : int, default=10
        Neighbours per row.
    warmup : float or int, default=0.1
        Epochs of plain cross-entropy before the graph is built: a float is a share of
        ``max_epochs``, an int a number of epochs.
    schedule : {"constant", "cosine"}, default="constant"
        Keep :math:`\lambda`, or let it fall to zero along half a cosine.
    target : {"mean", "each"}, default="mean"
        Divergence to the mean of the neighbours' predictions, or to each, averaged.
    cache_decay : float in [0, 1), default=0.7
        Weight of the past in the moving average of each row's predictions.
    refresh : "auto", int or None, default="auto"
        Epochs between graphs; None builds one graph only.
    graph : {"knn", "random", "permuted"}, default="knn"
        "random" and "permuted" are controls.
    embedding : {"penultimate", "input", "logits"} or str, default="penultimate"
        Where rows are compared.
    reduction : {None, "pca", "umap"}, default=None
        Reduce embeddings before neighbours are searched.
    n_components : int, default=16
        Dimensions kept by ``reduction``.
    keep_graph : bool, default=False
        Keep graph and cache after ``fit``, as ``neighborhood_``.
    criterion : torch loss class, default=torch.nn.CrossEntropyLoss
        Takes logits and class codes, and ``reduction="none"``.
    optimizer : torch optimizer class, default=torch.optim.AdamW
        Its arguments are given as ``optimizer__<name>``.
    lr : float, default=2e-3
        Learning rate.
    max_epochs : int, default=100
        Most passes over the training rows.
    batch_size : int, default=128
        Rows per step; -1 takes all.
    early_stopping : bool, default=True
        Stop when the validation log-loss has not improved for ``n_iter_no_change`` epochs,
        and keep the weights of the best epoch.
    validation_fraction : float, default=0.15
        Share of rows held out for early stopping, stratified by class.
    n_iter_no_change : int, default=12
        Patience of early stopping, in epochs.
    refit : bool, default=False
        After early stopping, train anew on all rows, those held out too, for the best number
        of epochs.
    encoder : "auto" or transformer, default="auto"
        Turns a table into numbers; "auto" is a :class:`TabularEncoder`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into ``sample_weight``.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the network and of its probabilities.
    random_state : int, RandomState instance or None, default=None
        Seeds everything: splits, weights, batches, dropout and graphs.
    callbacks : list of skorch callbacks, optional
        Called during training. Callbacks of scikit-learn are set by ``set_callbacks``.
    warm_start : bool, default=False
        Go on from the present weights when ``fit`` is called again.
    verbose : int, default=0
        1 prints a line per epoch.
    device : str, default="cpu"
        Where the network runs.
    iterator_train, iterator_valid : class, default=Batches
        What cuts rows into batches; arguments are given as ``iterator_train__<name>``.
    predict_nonlinearity : "auto" or callable, default="auto"
        From logits to probabilities; "auto" is softmax.
    compile : bool, default=False
        Compile the module with ``torch.compile``.
    torch_load_kwargs : dict, optional
        Passed to ``torch.load`` by ``load_params``, and for a network pickled on a GPU.
    **kwargs
        Other parameters of :class:`skorch.NeuralNet`, such as ``optimizer__*``,
        ``iterator_train__*``, ``callbacks__*``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    module_ : MLP
        The trained network.
    history_ : skorch.history.History
        One record per epoch: ``train_loss``, ``ce``, ``penalty``, ``smoothing``,
        ``valid_loss`` and ``valid_acc``.
    graph_homophily_ : Homophily(share, chance) or None
        Share of the last graph's neighbours that have the row's label, and the share
        expected by chance.
    n_iter_ : int
        Epochs trained.
    best_epoch_ : int
        Epoch whose weights are kept, counted from 1.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if the table had string names.
    encoder_ : TabularEncoder
        The fitted encoder.
    neighborhood_ : NeighborhoodSmoothing
        Graph and cache over the training rows, if ``keep_graph``.

    See Also
    --------
    NeSCalClassifier : The same training for any torch module.
    CalibratedClassifier : Calibration after training.

    References
    ----------
    I. Horowitz and A. Gal, "Neighborhood Smoothing for Calibration", arXiv:2610.09020.

    Examples
    --------
    >>> from skcal import NeSCalMLP
    >>> from skcal.datasets import load_credit
    >>> X, y = load_credit(return_X_y=True)  # numbers, categories and missing cells
    >>> model = NeSCalMLP(max_epochs=15, random_state=0).fit(X, y)
    >>> model.classes_.tolist()
    ['bad', 'good']
    >>> model.predict_proba(X.head(3)).shape
    (3, 2)
    """

    _parameter_constraints = NeSCalClassifier._parameter_constraints | {
        "hidden_sizes": ["array-like"],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "encoder": [StrOptions({"auto"}), *NetClassifier._parameter_constraints["encoder"][2:]],
    }

    def __init__(
        self,
        *,
        hidden_sizes: Sequence[int] = (128, 128),
        dropout: float = 0.1,
        smoothing: float = 3.0,
        n_neighbors: int = 10,
        warmup: float = 0.1,
        schedule: str = "constant",
        target: Target = "mean",
        cache_decay: float = 0.7,
        refresh: Any = "auto",
        graph: Graph = "knn",
        embedding: str = "penultimate",
        reduction: Reduction | None = None,
        n_components: int = 16,
        keep_graph: bool = False,
        criterion: Any = nn.CrossEntropyLoss,
        optimizer: Any = torch.optim.AdamW,
        lr: float = 2e-3,
        max_epochs: int = 100,
        batch_size: int = 128,
        early_stopping: bool = True,
        validation_fraction: float = 0.15,
        n_iter_no_change: int = 12,
        refit: bool = False,
        encoder: Any = "auto",
        class_weight: Any = None,
        dtype: str = "float32",
        random_state: Any = None,
        callbacks: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        device: Any = "cpu",
        iterator_train: Any = Batches,
        iterator_valid: Any = Batches,
        predict_nonlinearity: Any = "auto",
        compile: bool = False,
        torch_load_kwargs: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            smoothing=smoothing,
            n_neighbors=n_neighbors,
            warmup=warmup,
            schedule=schedule,
            target=target,
            cache_decay=cache_decay,
            refresh=refresh,
            graph=graph,
            embedding=embedding,
            reduction=reduction,
            n_components=n_components,
            keep_graph=keep_graph,
            criterion=criterion,
            optimizer=optimizer,
            lr=lr,
            max_epochs=max_epochs,
            batch_size=batch_size,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            refit=refit,
            encoder=encoder,
            class_weight=class_weight,
            dtype=dtype,
            random_state=random_state,
            callbacks=callbacks,
            warm_start=warm_start,
            verbose=verbose,
            device=device,
            iterator_train=iterator_train,
            iterator_valid=iterator_valid,
            predict_nonlinearity=predict_nonlinearity,
            compile=compile,
            torch_load_kwargs=torch_load_kwargs,
            **kwargs,
        )
        self.hidden_sizes = hidden_sizes
        self.dropout = dropout

    def _get_param_names(self) -> list[str]:
        return [name for name in super()._get_param_names() if name != "module"]

    def _validate_own_params(self) -> None:
        super()._validate_own_params()
        if not all(isinstance(size, Integral) and size >= 1 for size in self.hidden_sizes):
            raise ValueError(
                f"hidden_sizes must hold whole numbers of at least 1; got {self.hidden_sizes!r}."
            )

    def _module_class(self) -> Any:
        return MLP

    def get_params_for(self, prefix: str) -> dict[str, Any]:
        """Return the arguments of a part; the network's are parameters of the estimator."""
        params = super().get_params_for(prefix)
        if prefix == "module":
            return {"hidden_sizes": self.hidden_sizes, "dropout": self.dropout} | params
        return params
