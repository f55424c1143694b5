"""Networks trained with Neighborhood Smoothing."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import torch
from sklearn.utils._param_validation import Interval, Options, RealNotInt, StrOptions
from torch import Tensor, nn

from skcal.neural._embedding import embed_rows
from skcal.neural._honest import HonestTargets
from skcal.neural._honest_net import HonestNet
from skcal.neural._rows import Batches, Rows
from skcal.neural.net import NetClassifier
from skcal.neural.smoothing import Graph, NeighborhoodSmoothing, Reduction, Target

# The automatic refresh: a graph every five epochs, or one epoch per this many rows.
_ROWS_PER_EPOCH_BETWEEN_GRAPHS = 4_000


class Homophily(NamedTuple):
    """How often neighbours share a row's label, beside what chance would give."""

    share: float
    chance: float


class NeSCalClassifier(HonestNet):
    r"""Train any torch classification module with Neighborhood Smoothing.

    After a warm-up of plain cross-entropy, each training row is joined to its ``n_neighbors``
    nearest rows in the network's own embedding (cosine similarity), and the loss becomes

    .. math:: L = \frac1B \sum_i \big[ CE(p_i, y_i) + \lambda(e)\,
              JSD(p_i, \bar q_{N(i)}) \big],

    where :math:`\bar q` are cached predictions of the neighbours, constants for the gradient.
    Nothing of it is left at inference: the fitted estimator costs what its module costs.

    Parameters
    ----------
    module : torch.nn.Module class or instance, optional
        Returns logits of shape (n, n_classes). Constructor arguments named ``n_inputs`` and
        ``n_classes`` are filled in; others are given as ``module__<name>``. An instance is
        copied. None builds a small default network. For reproducible fits in threads use
        :class:`skcal.neural.Dropout` in place of ``torch.nn.Dropout``.
    smoothing : float, default=3.0
        The weight :math:`\lambda`; 0 is plain training, bit for bit.
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
        Weight of the past in the moving average of each row's predictions; 0 caches the
        last one.
    refresh : "auto", int or None, default="auto"
        Epochs between graphs; None builds one graph only. "auto" rebuilds every 5 epochs, or
        every ``n / 4,000`` epochs on more than 20,000 rows, which keeps the time spent on
        graphs at about half of the time spent on training or less.
    graph : {"knn", "random", "permuted", "self"}, default="knn"
        All but "knn" are controls: see :class:`NeighborhoodSmoothing`.
    embedding : str, default="penultimate"
        Where rows are compared: "penultimate" (the input of the last linear layer),
        "input", "logits", the name of a submodule (its output) or of a method.
    reduction : {None, "pca", "umap"}, default=None
        Reduce embeddings before neighbours are searched; "umap" needs ``skcal[umap]``.
    n_components : int, default=16
        Dimensions kept by ``reduction``.
    keep_graph : bool, default=False
        Keep graph and cache after ``fit``, as ``neighborhood_``.
    honest_folds : int, default=0
        With 2 or more, the strong mode: train a second network on honest local targets, from
        networks of so many folds (see the notes), and keep it if its validation loss is lower.
        Prediction costs what it costs without; training 4 to 5 times as much with 2 folds.
    honest_weight : float, default=1.0
        Weight of the divergence to honest targets.
    n_jobs : int, optional
        Networks of ``honest_folds`` that are trained side by side.
    criterion : str or torch loss class or instance, default=torch.nn.CrossEntropyLoss
        What is trained on: a name that :func:`~skcal.neural.losses.make_loss` knows ("focal",
        "mmce", "mixup", ...), a loss of :mod:`skcal.neural.losses`, or one of torch that takes
        logits, class codes and ``reduction="none"``. Arguments are given as
        ``criterion__<name>``. Early stopping looks at the log-loss whatever it is.
    optimizer : torch optimizer class, default=torch.optim.AdamW
        Its arguments are given as ``optimizer__<name>``.
    lr : float, default=2e-3
        Learning rate.
    max_epochs : int, default=100
        Most passes over the training rows.
    batch_size : int, default=128
        Rows per step; -1 takes all.
    weight_decay : float, default=0.01
        Pull of the optimizer (AdamW's, times ``lr``) on matrices; biases are left alone.
    lr_schedule : {"constant", "cosine", "plateau"}, default="constant"
        Learning rate over the epochs: as it is, down to zero along half a cosine over
        ``max_epochs``, or multiplied by 0.3 whenever half of ``n_iter_no_change`` epochs
        brought no improvement.
    ema_decay : float in [0, 1), default=0.0
        Weight of the past in the moving average, step by step, of the network's weights. The
        average is what is validated and kept; 0 keeps the weights themselves. Statistics of
        batch normalisation are not averaged.
    max_grad_norm : float, optional
        Longest gradient, over all weights together; a longer one is shortened to it.
    early_stopping : bool, default=True
        Hold out rows, stop when their log-loss has not improved for ``n_iter_no_change``
        epochs, and keep the weights of the best epoch.
    stopping_score : {"log_loss", "scaled_log_loss"}, default="log_loss"
        What early stopping looks at: the validation log-loss, or what temperature scaling
        would leave of it.
    validation_fraction : float, default=0.15
        Share of rows held out for early stopping and calibration.
    validation_split : {"stratified", "last"}, default="stratified"
        Hold out rows at random, stratified by class (whole groups, if ``fit`` is given
        ``groups``); or the last rows, for a table in the order of time.
    n_iter_no_change : int, default=12
        Patience of early stopping, in epochs.
    n_folds : int, default=1
        More than 1 trains one network for each of so many folds, stopped on the rows of the
        fold, and answers with their mean probability; it costs as many fits.
    refit : bool, default=False
        After early stopping, train anew on all rows, those held out too, for the best number
        of epochs.
    calibrate : bool, str or calibrator, default=False
        Learn a map of the probabilities from the rows held out of training (with ``n_folds``
        from all rows, each answered by the network that was trained without it): True is
        temperature scaling, a string one of :func:`~skcal.calibration.make_calibrator`.
        The rows that stop the training are used. Class weights are divided out first, as by
        ``prior_correction``. With ``refit`` the map of the first network serves the second.
    encoder : "auto", transformer or None, default="auto"
        Turns a table into numbers. "auto" is a :class:`TabularEncoder` when ``module`` is
        None; a module of your own gets its numbers as they are.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into ``sample_weight``. They shift the
        probabilities away from the true base rates.
    prior_correction : bool, default=False
        Divide the probabilities by the class weights and renormalise, which takes them back
        to the base rates of the rows: the network trains as ``class_weight`` says, and
        answers with probabilities that can be acted on.
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
        Where the network runs; "auto" is "cuda" where there is one.
    iterator_train, iterator_valid : class, default=Batches
        What cuts rows into batches; arguments are given as ``iterator_train__<name>``.
    predict_nonlinearity : "auto" or callable, default="auto"
        From logits to probabilities; "auto" is softmax.
    compile : bool, default=False
        Compile the module with ``torch.compile``.
    torch_load_kwargs : dict, optional
        Passed to ``torch.load`` by ``load_params``, and for a network pickled on a GPU.
    **kwargs
        Other parameters of :class:`skorch.NeuralNet`, such as ``module__*``,
        ``optimizer__*``, ``iterator_train__*``, ``callbacks__*``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    module_ : torch.nn.Module
        The trained network.
    history_ : skorch.history.History
        One record per epoch: ``train_loss``, ``criterion`` (weighted mean criterion), ``penalty``
        (mean divergence in nats; NaN without a graph), ``smoothing`` (the weight in force),
        ``valid_loss`` (log-loss in nats of the validation rows) and ``valid_acc``.
    honest_losses_ : dict or None
        With ``honest_folds``, the validation losses of both networks: "smoothed" and "honest".
        The lower one is that of ``module_``.
    graph_homophily_ : Homophily(share, chance) or None
        Share of the last graph's neighbours that have the row's label, and the share
        expected by chance. None if no graph was built.
    fold_histories_ : list of History
        One per fold, if ``n_folds`` is more than 1; ``history_``, ``n_iter_`` and
        ``best_epoch_`` are of the last fold then. With ``refit``, that of the network which
        was stopped on held-out rows.
    calibrator_ : calibrator or None
        The fitted map, if ``calibrate``.
    n_iter_ : int
        Epochs trained.
    best_epoch_ : int
        Epoch whose weights are kept, counted from 1.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if the table had string names.
    encoder_ : transformer
        The fitted encoder, if there is one.
    neighborhood_ : NeighborhoodSmoothing or HonestTargets
        Graph and cache over the training rows, if ``keep_graph``.

    See Also
    --------
    NeSCalMLP : A network ready for tables.
    NeighborhoodSmoothing : The penalty alone, for a training loop of one's own.
    CalibratedClassifier : Calibration after training.

    Notes
    -----
    The published description builds the graph once, measures the divergence to each
    neighbour and caches last predictions; :meth:`published` sets those parameters. The
    defaults here, the mean target, the moving average and the refreshed graph, are this
    package's choice: of the forms tried on tables they had the mildest worst case.

    Honest local targets are this package's own. A network is trained without each fold; within the
    fold, and in that network's embedding, the nearest neighbours of each row are found. The row's
    target is half the frequency of its neighbours' labels, half the mean prediction of that
    network for the neighbours and the row. No label that a target is made of was seen by the
    network behind it. A fresh network is trained on the criterion plus ``honest_weight`` times
    :math:`KL(t_i \| p_i)` from the first epoch on. Where the rows outside of a fold are too few to
    learn from, such targets do harm, and the validation rows say so.

    References
    ----------
    I. Horowitz and A. Gal, "Neighborhood Smoothing for Calibration", arXiv:2610.09020.

    Examples
    --------
    >>> from skcal import NeSCalClassifier
    >>> from skcal.datasets import make_calibration_data
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self, n_inputs, n_classes, width=32):
    ...         super().__init__()
    ...         self.body = nn.Sequential(nn.Linear(n_inputs, width), nn.Tanh())
    ...         self.head = nn.Linear(width, n_classes)
    ...
    ...     def forward(self, X):
    ...         return self.head(self.body(X))
    >>> X, y, _ = make_calibration_data(400, random_state=0)
    >>> model = NeSCalClassifier(Net, module__width=16, max_epochs=20, random_state=0).fit(X, y)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    """

    _parameter_constraints = NetClassifier._parameter_constraints | {
        "smoothing": [Interval(Real, 0, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "warmup": [
            Interval(Integral, 0, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="both"),
        ],
        "schedule": [StrOptions({"constant", "cosine"})],
        "target": [StrOptions({"mean", "each"})],
        "cache_decay": [Interval(Real, 0, 1, closed="left")],
        "refresh": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), None],
        "graph": [StrOptions({"knn", "random", "permuted", "self"})],
        "reduction": [StrOptions({"pca", "umap"}), None],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "keep_graph": ["boolean"],
        "honest_folds": [Options(Integral, {0}), Interval(Integral, 2, None, closed="left")],
        "honest_weight": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        module: Any = None,
        *,
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
        honest_folds: int = 0,
        honest_weight: float = 1.0,
        n_jobs: int | None = None,
        criterion: Any = nn.CrossEntropyLoss,
        optimizer: Any = torch.optim.AdamW,
        lr: float = 2e-3,
        max_epochs: int = 100,
        batch_size: int = 128,
        weight_decay: float = 0.01,
        lr_schedule: str = "constant",
        ema_decay: float = 0.0,
        max_grad_norm: float | None = None,
        early_stopping: bool = True,
        stopping_score: str = "log_loss",
        validation_fraction: float = 0.15,
        validation_split: str = "stratified",
        n_iter_no_change: int = 12,
        n_folds: int = 1,
        refit: bool = False,
        calibrate: Any = False,
        encoder: Any = "auto",
        class_weight: Any = None,
        prior_correction: bool = False,
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
            module,
            embedding=embedding,
            criterion=criterion,
            optimizer=optimizer,
            lr=lr,
            max_epochs=max_epochs,
            batch_size=batch_size,
            weight_decay=weight_decay,
            lr_schedule=lr_schedule,
            ema_decay=ema_decay,
            max_grad_norm=max_grad_norm,
            early_stopping=early_stopping,
            stopping_score=stopping_score,
            validation_fraction=validation_fraction,
            validation_split=validation_split,
            n_iter_no_change=n_iter_no_change,
            n_folds=n_folds,
            refit=refit,
            calibrate=calibrate,
            encoder=encoder,
            class_weight=class_weight,
            prior_correction=prior_correction,
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
        self.smoothing = smoothing
        self.n_neighbors = n_neighbors
        self.warmup = warmup
        self.schedule = schedule
        self.target = target
        self.cache_decay = cache_decay
        self.refresh = refresh
        self.graph = graph
        self.reduction = reduction
        self.n_components = n_components
        self.keep_graph = keep_graph
        self.honest_folds = honest_folds
        self.honest_weight = honest_weight
        self.n_jobs = n_jobs

    @classmethod
    def published(cls, *args: Any, **params: Any) -> Self:
        """Return an estimator with the published form of the method.

        One graph, built after the warm-up; the divergence to each neighbour; the last
        prediction in the cache. The paper's abstract leaves the other settings open: the
        warm-up of a fifth of the epochs and ``smoothing=1`` are this package's choice.

        Parameters
        ----------
        *args, **params
            Passed to the constructor; they override the published form.
        """
        form: dict[str, Any] = {"target": "each", "cache_decay": 0.0, "refresh": None}
        ours: dict[str, Any] = {"warmup": 0.2, "smoothing": 1.0}
        return cls(*args, **(form | ours | params))

    # -- the smoothing, hooked into the training loop -------------------------------------

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Start without a graph, or with honest targets."""
        super().on_train_begin(net, X=X, y=y, **kwargs)
        self._smoother: NeighborhoodSmoothing | HonestTargets | None = self._honest
        if self.smoothing > 0 or self.honest_folds:
            # A misspelt embedding shows before training, not after the warm-up.
            embed_rows(self.module_, X.X[:2], self.embedding, device=self.device)

    def on_epoch_begin(self, net: Any, dataset_train: Any = None, **kwargs: Any) -> None:
        """Set the weight of the penalty and build the graph when it is due."""
        super().on_epoch_begin(net, dataset_train=dataset_train, **kwargs)
        epoch = len(self.history) - 1
        if self._honest is not None:
            self._weight = float(self.honest_weight)
            return
        self._weight = self._smoothing_weight(epoch)
        if self._weight > 0 and self._graph_is_due(epoch, len(dataset_train)):
            self._update_graph(dataset_train)

    def get_loss(
        self, y_pred: Tensor, y_true: Tensor, X: Any = None, training: bool = False
    ) -> Tensor:
        """Return the weighted mean loss of a batch, with the penalty in training."""
        loss = super().get_loss(y_pred, y_true, X=X, training=training)
        if not training or self._smoother is None:
            return loss
        if X.get("mix") is not None:  # neighbours are those of the rows themselves
            y_pred = self.module_(X["X"].to(self.device))
        y_pred = self._pool(y_pred)
        penalty = self._smoother.penalty(
            y_pred, X["index"].to(y_pred.device), weight=X["weight"].to(y_pred)
        )
        self._loss_parts["penalty"] = penalty.detach()
        return torch.add(loss, penalty, alpha=self._weight)

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Record the weight in force, and that without a graph no penalty was measured."""
        self.history.record("smoothing", self._weight)
        if self._smoother is None:
            self.history.record("penalty", math.nan)
        super().on_epoch_end(net, **kwargs)

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Describe the graph, then drop it."""
        super().on_train_end(net, X=X, y=y, **kwargs)
        self.graph_homophily_ = None
        self.__dict__.pop("neighborhood_", None)
        if self._smoother is not None:
            self.graph_homophily_ = Homophily(*self._smoother.homophily(X.y.to(self.device)))
            if self.keep_graph:
                self.neighborhood_ = self._smoother
        self._smoother = self._honest = None

    def _warmup_epochs(self) -> int:
        if isinstance(self.warmup, Integral):
            return int(self.warmup)
        # The graph of a network that has not trained at all would tell nothing.
        return max(1, round(self.warmup * self._value("max_epochs"))) if self.warmup else 0

    def _smoothing_weight(self, epoch: int) -> float:
        warmup = self._warmup_epochs()
        if epoch < warmup:
            return 0.0
        if self.schedule == "constant":
            return float(self.smoothing)
        progress = min(1.0, (epoch - warmup) / max(1, self._value("max_epochs") - warmup))
        return float(self.smoothing) * 0.5 * (1 + math.cos(math.pi * progress))

    def _graph_is_due(self, epoch: int, n_rows: int) -> bool:
        if self._smoother is None:
            return True
        if self.refresh is None:
            return False
        every = (
            max(5, math.ceil(n_rows / _ROWS_PER_EPOCH_BETWEEN_GRAPHS))
            if self.refresh == "auto"
            else self.refresh
        )
        return (epoch - self._warmup_epochs()) % every == 0

    def _update_graph(self, rows: Rows) -> None:
        embeddings, logits = embed_rows(self.module_, rows.X, self.embedding, device=self.device)
        if not isinstance(self._smoother, NeighborhoodSmoothing):
            self._smoother = NeighborhoodSmoothing(
                n_neighbors=self.n_neighbors,
                target=self.target,
                cache_decay=self.cache_decay,
                graph=self.graph,
                reduction=self.reduction,
                n_components=self.n_components,
                random_state=self._seed + 3,
            )
        self._smoother.update_graph(embeddings, logits)
