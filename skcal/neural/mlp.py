"""The network for tables."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import nn

from skcal.neural._bins import bin_edges
from skcal.neural._presets import PRESETS, batch_size_for, ensemble_for, max_epochs_for
from skcal.neural._rows import Batches, Rows
from skcal.neural.nescal import NeSCalClassifier
from skcal.neural.net import NetClassifier
from skcal.neural.smoothing import Graph, Reduction, Target
from skcal.neural.tabular_net import NumEmbedding, TabularNet
from skcal.tabular import TabularEncoder

Auto = Literal["auto"]

# Parameters that a preset, or the size of the table, settles.
_AUTOMATIC = {*PRESETS["default"], "batch_size", "max_epochs"}
# Longer categories get learned vectors; levels of fewer rows are merged.
_MAX_ONE_HOT = 64
_MIN_FREQUENCY = 5


_OR_AUTO = {
    name: [StrOptions({"auto"}), *NeSCalClassifier._parameter_constraints[name]]
    for name in ("lr", "max_epochs", "batch_size", "n_iter_no_change", "n_folds")
} | {"calibrate": [StrOptions({"preset"}), *NeSCalClassifier._parameter_constraints["calibrate"]]}


class NeSCalMLP(NeSCalClassifier):
    r"""A network for tables, trained with Neighborhood Smoothing.

    Takes arrays and mixed DataFrames as they come: it scales and embeds numbers, encodes
    categories, flags missing cells, trains an ensemble that shares its weights, stops on the
    validation log-loss of its mean, and answers ``predict_proba``. What the smoothing does is
    described in :class:`NeSCalClassifier`.

    Parameters
    ----------
    preset : {"default", "fast", "strong"}, default="default"
        What the parameters left at "auto" stand for; see the notes.
    n_members : int or "auto", default="auto"
        Members of an ensemble inside the network, which share all weight matrices; 1 is a
        plain network.
    hidden_sizes : sequence of int or "auto", default="auto"
        Width of each hidden layer.
    num_embedding : {"auto", "piecewise", "piecewise-tree", "periodic"} or None, default="auto"
        How a number enters the network: by a learned piecewise-linear curve over bins of
        about equal shares of the rows, or over the leaves of a decision tree on that column; by
        learned frequencies; or, with None, as it is.
    n_bins : int, default=24
        Most bins of a column. A value that many rows share is an edge of its own.
    d_embedding : int, default=8
        Size of the embedding of a number.
    dropout : float in [0, 1), default=0.2
        Share of hidden values dropped in training.
    smoothing : float, default=0.3
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
    graph : {"knn", "random", "permuted", "self"}, default="knn"
        All but "knn" are controls.
    embedding : {"penultimate", "input", "logits"} or str, default="penultimate"
        Where rows are compared.
    reduction : {None, "pca", "umap"}, default=None
        Reduce embeddings before neighbours are searched.
    n_components : int, default=16
        Dimensions kept by ``reduction``.
    keep_graph : bool, default=False
        Keep graph and cache after ``fit``, as ``neighborhood_``.
    honest_folds : int, default=0
        With 2 or more, the strong mode: train a second network on honest local targets, from
        networks of so many folds, and keep it if its validation loss is lower.
    honest_weight : float, default=1.0
        Weight of the divergence to honest targets.
    n_jobs : int, optional
        Networks of ``honest_folds`` that are trained side by side.
    loss : str or torch loss class or instance, default="cross_entropy"
        What is trained on, and smoothed: a name that :func:`~skcal.neural.losses.make_loss`
        knows ("focal", "mmce", "mixup", ...), a loss of :mod:`skcal.neural.losses`, or one of
        torch that takes logits, class codes and ``reduction="none"``. Arguments are given as
        ``loss__<name>``. Early stopping looks at the log-loss whatever it is.
    optimizer : torch optimizer class, default=torch.optim.AdamW
        Its arguments are given as ``optimizer__<name>``.
    lr : float or "auto", default="auto"
        Learning rate.
    max_epochs : int or "auto", default="auto"
        Most passes over the training rows. "auto" is 200, and 20,000,000 / n beyond 100,000
        rows, but at least 10.
    batch_size : int or "auto", default="auto"
        Rows per step; -1 takes all. "auto" is the power of two nearest to n / 48 (by its
        logarithm), between 128 and 1,024.
    weight_decay : float, default=0.01
        Pull of the optimizer (AdamW's, times ``lr``) on matrices; biases are left alone.
    lr_schedule : {"constant", "cosine", "plateau"}, default="constant"
        Learning rate over the epochs: as it is, down to zero along half a cosine over
        ``max_epochs``, or multiplied by 0.3 whenever half of ``n_iter_no_change`` epochs
        brought no improvement.
    ema_decay : float in [0, 1), default=0.99
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
    n_iter_no_change : int or "auto", default="auto"
        Patience of early stopping, in epochs.
    n_folds : int or "auto", default="auto"
        More than 1 trains one network for each of so many folds, stopped on the rows of the
        fold, and answers with their mean probability; it costs as many fits.
    refit : bool, default=False
        After early stopping, train anew on all rows, those held out too, for the best number
        of epochs.
    calibrate : bool, str or calibrator, default="preset"
        Learn a map of the probabilities from the rows held out of training (with ``n_folds``
        from all rows, each answered by the network that was trained without it): True is
        temperature scaling, a string one of :func:`~skcal.calibration.make_calibrator`,
        such as "sms" or "auto"; "preset" leaves the choice to the preset.
        The rows that stop the training are used. Class weights are divided out first, as by
        ``prior_correction``. With ``refit`` the map of the first network serves the second.
    encoder : "auto" or transformer, default="auto"
        Turns a table into numbers; "auto" is ``TabularEncoder(min_frequency=5,
        max_one_hot=64)``: levels of fewer than 5 rows are merged, and a column of more than 64
        levels gets a learned vector for each.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into ``sample_weight``; "balanced" counts all rows
        given to ``fit``.
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
        Other parameters of :class:`skorch.NeuralNet`, such as ``optimizer__*``,
        ``iterator_train__*``, ``callbacks__*``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    module_ : TabularNet or FoldEnsemble
        The trained network, or those of the folds.
    history_ : skorch.history.History
        One record per epoch: ``train_loss``, ``criterion``, ``penalty``, ``smoothing``,
        ``valid_loss`` and ``valid_acc``.
    honest_losses_ : dict or None
        With ``honest_folds``, the validation losses of both networks: "smoothed" and "honest".
    graph_homophily_ : Homophily(share, chance) or None
        Share of the last graph's neighbours that have the row's label, and the share
        expected by chance.
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
    encoder_ : TabularEncoder
        The fitted encoder.
    neighborhood_ : NeighborhoodSmoothing
        Graph and cache over the training rows, if ``keep_graph``.

    See Also
    --------
    NeSCalClassifier : The same training for any torch module.
    CalibratedClassifier : Calibration after training.

    Notes
    -----
    The presets stand for these values of the parameters left at "auto" ("preset" for
    ``calibrate``); those given otherwise are kept.

    ================  ===========  ===========  ===========
    parameter         default      fast         strong
    ================  ===========  ===========  ===========
    n_members         8            1            8
    hidden_sizes      (128, 128)   (256, 256)   (128, 128)
    num_embedding     "piecewise"  "piecewise"  "piecewise"
    lr                4e-3         1e-3         4e-3
    n_iter_no_change  12           12           12
    n_folds           1            1            5
    calibrate         False        False        True
    ================  ===========  ===========  ===========

    With more than 10 classes and at least 5,000 rows the ensembles have 4 members of
    ``hidden_sizes=(256, 256)``.

    "fast" trains one network instead of an ensemble; "strong" trains five ensembles, each
    stopped on another fifth of the rows, averages them, and scales the temperature of the mean
    by that of the single ensembles, learned on all rows, each answered by the ensemble that was
    trained without it.

    References
    ----------
    I. Horowitz and A. Gal, "Neighborhood Smoothing for Calibration", arXiv:2610.09020.
    Y. Gorishniy, A. Kotelnikov and A. Babenko, "TabM: Advancing Tabular Deep Learning with
    Parameter-Efficient Ensembling", ICLR 2025.
    Y. Gorishniy, I. Rubachev and A. Babenko, "On Embeddings for Numerical Features in Tabular
    Deep Learning", NeurIPS 2022.

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

    _loss_parameter = "loss"
    prefixes_: ClassVar[list[str]] = [*NeSCalClassifier.prefixes_, "loss"]

    _parameter_constraints = (
        NeSCalClassifier._parameter_constraints
        | _OR_AUTO
        | {
            "preset": [StrOptions(set(PRESETS))],
            "hidden_sizes": [StrOptions({"auto"}), "array-like"],
            "n_members": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
            "num_embedding": [
                StrOptions({"auto", "piecewise", "piecewise-tree", "periodic"}),
                None,
            ],
            "n_bins": [Interval(Integral, 2, None, closed="left")],
            "d_embedding": [Interval(Integral, 1, None, closed="left")],
            "dropout": [Interval(Real, 0, 1, closed="left")],
            "encoder": [StrOptions({"auto"}), *NetClassifier._parameter_constraints["encoder"][2:]],
        }
    )

    def __init__(
        self,
        *,
        preset: str = "default",
        n_members: Any = "auto",
        hidden_sizes: Sequence[int] | Auto = "auto",
        num_embedding: NumEmbedding | Auto | None = "auto",
        n_bins: int = 24,
        d_embedding: int = 8,
        dropout: float = 0.2,
        smoothing: float = 0.3,
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
        loss: Any = "cross_entropy",
        optimizer: Any = torch.optim.AdamW,
        lr: Any = "auto",
        max_epochs: Any = "auto",
        batch_size: Any = "auto",
        weight_decay: float = 0.01,
        lr_schedule: str = "constant",
        ema_decay: float = 0.99,
        max_grad_norm: float | None = None,
        early_stopping: bool = True,
        stopping_score: str = "log_loss",
        validation_fraction: float = 0.15,
        validation_split: str = "stratified",
        n_iter_no_change: Any = "auto",
        n_folds: Any = "auto",
        refit: bool = False,
        calibrate: Any = "preset",
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
            honest_folds=honest_folds,
            honest_weight=honest_weight,
            n_jobs=n_jobs,
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
        self.loss = loss
        self.preset = preset
        self.n_members = n_members
        self.hidden_sizes = hidden_sizes
        self.num_embedding = num_embedding
        self.n_bins = n_bins
        self.d_embedding = d_embedding
        self.dropout = dropout

    def _get_param_names(self) -> list[str]:
        # What fit refuses is no parameter; but a clone must not lose it, and be accepted.
        hidden = {"module": None, "criterion": nn.CrossEntropyLoss}
        names = super()._get_param_names()
        return [n for n in names if n not in hidden or getattr(self, n) is not hidden[n]]

    def _validate_own_params(self) -> None:
        super()._validate_own_params()
        if self.module is not None:
            raise ValueError(
                f"{type(self).__name__} builds its own network; train another module with "
                "NeSCalClassifier(module, ...)."
            )
        of_criterion = [n for n in self._params_to_validate if n.startswith("criterion__")]
        if self.criterion is not nn.CrossEntropyLoss or of_criterion:
            raise ValueError(
                f"{type(self).__name__} calls its criterion loss: set loss=... and loss__<name>=..."
            )
        sizes = () if isinstance(self.hidden_sizes, str) else self.hidden_sizes
        if not all(isinstance(s, Integral) and not isinstance(s, bool) and s >= 1 for s in sizes):
            raise ValueError(
                f"hidden_sizes must hold whole numbers of at least 1; got {self.hidden_sizes!r}."
            )

    # -- automatic parameters ------------------------------------------------------------

    def _value(self, name: str) -> Any:
        value = getattr(self, name)
        # "auto" is the name of a calibrator.
        left_open = "preset" if name == "calibrate" else "auto"
        if not (isinstance(value, str) and value == left_open) or name not in _AUTOMATIC:
            return value
        preset = self.preset if isinstance(self.preset, str) else ""
        settled = PRESETS.get(preset, {}).get(name, value)
        return getattr(self, "_by_size", {}).get(name, settled)

    def _settle(self, rows: Rows) -> None:
        """Choose what depends on the size of the table."""
        n_train = len(rows)
        self._by_size = {
            "batch_size": batch_size_for(n_train),
            "max_epochs": max_epochs_for(n_train),
        }
        if self.preset != "fast":
            self._by_size |= ensemble_for(n_train, len(self.classes_))

    def _default_encoder(self) -> TabularEncoder:
        return TabularEncoder(
            dtype=self.dtype, min_frequency=_MIN_FREQUENCY, max_one_hot=_MAX_ONE_HOT
        )

    def _describe(self, rows: Rows) -> None:
        # Of the rows to train on alone: bins by trees have seen their labels.
        self._columns = self._column_arguments(rows)

    def _column_arguments(self, rows: Rows) -> dict[str, Any]:
        """Return what the network is told of the columns of the encoded table."""
        encoder = self.encoder_
        n_numeric = rows.X.shape[1]  # what another encoder gives is numbers
        columns: dict[str, Any] = {}
        if isinstance(encoder, TabularEncoder):
            n_numeric = encoder.n_numeric_
            n_flags = int(np.sum(encoder.has_missing_))
            columns = {
                "blocks": [1] * (n_numeric + n_flags) + list(encoder.one_hot_sizes_),
                "cardinalities": list(encoder.cardinalities_),
            }
        kind = self._value("num_embedding")
        if kind is None or n_numeric == 0:
            return columns
        numbers, weights = rows.X[:, :n_numeric].numpy(), rows.weight.numpy()
        if kind == "periodic":
            varies = numbers.min(axis=0) < numbers.max(axis=0)
            return columns | {"periodic": np.flatnonzero(varies).tolist()}
        codes = rows.y.numpy() if kind == "piecewise-tree" else None
        return columns | {"bins": bin_edges(numbers, weights, self.n_bins, codes)}

    # -- the network ---------------------------------------------------------------------

    def _module_class(self) -> Any:
        return TabularNet

    def get_params_for(self, prefix: str) -> dict[str, Any]:
        """Return the arguments of a part; the network's are parameters of the estimator."""
        params = super().get_params_for(prefix)
        if prefix == "module":
            own = {
                "hidden_sizes": self._value("hidden_sizes"),
                "dropout": self.dropout,
                "n_members": self._value("n_members"),
                "d_embedding": self.d_embedding,
            }
            return own | self._columns | params
        return params
