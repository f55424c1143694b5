"""How a network's training went, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skcal._validation import FloatArray, IntArray
from skcal.plots._drawing.axes import draw_legend, join_axes, mark_curve, new_axes
from skcal.plots._drawing.panels import cut_panel
from skcal.plots._drawing.style import line_style, log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

_MARKED = 10
# Under this name an axes remembers its panel of penalties.
_MEMORY = "_skcal_penalty_panel"
# Where the highest loss is this many times the lowest, the first epochs would hide the rest.
_WIDE = 5
_TRAIN, _VALID = "training criterion", "validation log-loss (nats)"


class TrainingHistoryDisplay:
    """Loss curves of a fitted network: what it was trained on, and what held-out rows say.

    Where the validation log-loss has turned upwards while the training criterion still falls,
    the network learns its rows by heart. The epoch whose weights were kept is marked, and the
    epochs of Neighborhood Smoothing are shaded; its penalty has a panel below. Losses of very
    different size are on a logarithmic scale. Make one with :meth:`from_estimator` or
    :meth:`from_history`.

    Parameters
    ----------
    train_loss : array-like of shape (n_epochs,)
        Mean training criterion of each epoch, without the penalty. NaN leaves a gap, here and
        below.
    valid_loss : array-like of shape (n_epochs,), optional
        Log-loss of the validation rows, in nats.
    valid_scaled_loss : array-like of shape (n_epochs,), optional
        The same after the temperature that is best for these rows.
    penalty : array-like of shape (n_epochs,), optional
        Mean divergence between neighbours, in nats, not multiplied by its weight.
    smoothing : array-like of shape (n_epochs,), optional
        Weight of the penalty.
    best_epoch : int, optional
        Epoch whose weights were kept, counted from 1.
    name : str, optional
        Name of the network in the legend.

    Attributes
    ----------
    smoothing_start : int or None
        First epoch in which the penalty had a weight, counted from 1.
    ax_ : matplotlib Axes
        Axes of the losses.
    figure_ : matplotlib Figure
        Figure that holds them.
    train_line_ : matplotlib Line2D
        The training criterion.
    valid_line_ : matplotlib Line2D or None
        The validation log-loss.
    valid_scaled_line_ : matplotlib Line2D or None
        The validation log-loss after a temperature.
    penalty_ax_ : matplotlib Axes or None
        Axes of the penalty, below the losses.
    penalty_line_ : matplotlib Line2D or None
        The penalty.
    best_epoch_line_ : matplotlib Line2D or None
        The mark of the epoch that was kept.
    smoothing_span_ : matplotlib Rectangle or None
        The shade of the epochs with smoothing.

    See Also
    --------
    skcal.NeSCalMLP : Records such a history, as ``history_``.

    Notes
    -----
    The two curves are not measured alike. The training criterion is the mean over an epoch in
    which the weights change, with dropout and with class weights; the validation log-loss is
    measured after the epoch, without. Early on it can be the lower one.

    Examples
    --------
    >>> from skcal import NeSCalMLP
    >>> from skcal.datasets import make_calibration_data
    >>> from skcal.plots import TrainingHistoryDisplay
    >>> X, y, _ = make_calibration_data(400, random_state=0)
    >>> model = NeSCalMLP(smoothing=3, warmup=2, max_epochs=20, random_state=0).fit(X, y)
    >>> display = TrainingHistoryDisplay.from_estimator(model)
    >>> display.smoothing_start
    3
    >>> display.figure_.savefig("history.png")  # doctest: +SKIP
    """

    def __init__(
        self,
        train_loss: ArrayLike,
        *,
        valid_loss: ArrayLike | None = None,
        valid_scaled_loss: ArrayLike | None = None,
        penalty: ArrayLike | None = None,
        smoothing: ArrayLike | None = None,
        best_epoch: int | None = None,
        name: str | None = None,
    ) -> None:
        self.train_loss: FloatArray = np.asarray(train_loss, dtype=float)
        n_epochs = len(self.train_loss)
        self.valid_loss = _known(valid_loss, n_epochs, "valid_loss")
        self.valid_scaled_loss = _known(valid_scaled_loss, n_epochs, "valid_scaled_loss")
        self.penalty = _known(penalty, n_epochs, "penalty")
        self.smoothing = _known(smoothing, n_epochs, "smoothing")
        if best_epoch is not None and (
            not isinstance(best_epoch, Integral)
            or isinstance(best_epoch, bool)
            or not 1 <= best_epoch <= n_epochs
        ):
            raise ValueError(
                f"best_epoch must be one of the {n_epochs} epochs, counted from 1; got "
                f"{best_epoch!r}."
            )
        self.best_epoch = best_epoch
        self.name = name
        self.smoothing_start: int | None = None
        if self.smoothing is not None and (self.smoothing > 0).any():
            self.smoothing_start = int(np.argmax(self.smoothing > 0)) + 1

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> TrainingHistoryDisplay:
        """Draw the history of a fitted network.

        Parameters
        ----------
        estimator : object
            Fitted network with ``history_``, one of :mod:`skcal.neural` or of skorch.
        name : str, optional
            Name in the legend.
        ax, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        TrainingHistoryDisplay

        Raises
        ------
        TypeError
            If the estimator keeps no history.
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        ValueError
            As in :meth:`from_history`.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "history_"):
            raise TypeError(
                f"{type(estimator).__name__} has no history_; a training history needs a fitted "
                "network, such as NeSCalMLP. Of a pipeline pass the last step, of a calibrated "
                "classifier the network inside."
            )
        return cls.from_history(
            estimator.history_,
            best_epoch=getattr(estimator, "best_epoch_", None),
            name=name,
            ax=ax,
            **line_kwargs,
        )

    @classmethod
    def from_history(
        cls,
        history: Sequence[Mapping[str, Any]],
        *,
        best_epoch: int | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> TrainingHistoryDisplay:
        """Draw records of epochs.

        Parameters
        ----------
        history : sequence of dict
            One record per epoch, such as a skorch ``History``: the training criterion as
            ``criterion``, or else as ``train_loss``, and where there are any ``valid_loss``,
            ``valid_scaled_loss``, ``penalty`` and ``smoothing``.
        best_epoch : int, optional
            Epoch whose weights were kept, counted from 1.
        name : str, optional
            Name in the legend.
        ax, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        TrainingHistoryDisplay

        Raises
        ------
        TypeError
            If the history is not a sequence of records.
        ValueError
            If it has no epoch, no training loss, or no epoch `best_epoch`.
        """
        records = [] if isinstance(history, Mapping) else list(history)
        if isinstance(history, Mapping) or not all(isinstance(r, Mapping) for r in records):
            raise TypeError(
                "history must be a sequence of dicts, one per epoch, such as the history_ of a "
                f"fitted network; got {type(history).__name__}."
            )
        if not records:
            raise ValueError("The history has no epoch; fit the network first.")
        criterion = (
            "criterion" if any("criterion" in record for record in records) else "train_loss"
        )
        if not any(criterion in record for record in records):
            raise ValueError(
                "The history has no training loss; expected 'criterion' or 'train_loss' in its "
                f"records, which have {sorted(records[0])}."
            )

        def column(key: str) -> FloatArray:
            return np.array([record.get(key, np.nan) for record in records], dtype=float)

        return cls(
            column(criterion),
            valid_loss=column("valid_loss"),
            valid_scaled_loss=column("valid_scaled_loss"),
            penalty=column("penalty"),
            smoothing=column("smoothing"),
            best_epoch=best_epoch,
            name=name,
        ).plot(ax, **line_kwargs)

    def plot(
        self, ax: Axes | None = None, *, name: str | None = None, **line_kwargs: Any
    ) -> TrainingHistoryDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. Pass the ``ax_`` of another display to lay the two over each other.
            By default a new figure.
        name : str, optional
            Name in the legend, instead of the display's own.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for the validation log-loss, or for the training criterion
            if there is no validation. The other lines have its colour.

        Returns
        -------
        TrainingHistoryDisplay
            Itself.

        Raises
        ------
        ValueError
            If `ax` already shows something else.
        """
        from matplotlib.ticker import MaxNLocator

        ax = new_axes(6.0, 4.8) if ax is None else ax
        number = join_axes(ax, "Mean loss per row, by epoch")
        cleared = _panel_of(ax) if number == 0 else None
        if cleared is not None:  # start afresh in the panel too
            cleared.clear()
        name = self.name if name is None else name
        n_epochs = len(self.train_loss)
        epochs = np.arange(1, n_epochs + 1)
        style = line_style(
            number, line_kwargs, linewidth=1.8, markevery=max(n_epochs // _MARKED, 1)
        )
        is_alone = self.valid_loss is None
        shown = self.train_loss if self.valid_loss is None else self.valid_loss
        style.setdefault("label", _entry(name, _TRAIN if is_alone else _VALID))
        (line,) = ax.plot(epochs, shown, **style)
        mark_curve(line)
        looks: dict[str, Any]
        thin: dict[str, Any] = {
            "color": line.get_color(),
            "linestyle": line.get_linestyle(),
            "linewidth": 1.0,
        }
        scaled = None
        if self.valid_scaled_loss is not None:
            (scaled,) = ax.plot(
                epochs,
                self.valid_scaled_loss,
                label=_entry(name, "the same at its best temperature"),
                marker=line.get_marker(),
                markersize=line.get_markersize(),
                markerfacecolor="white",
                markevery=line.get_markevery(),
                **thin,
            )
        train = line
        if not is_alone:
            (train,) = ax.plot(epochs, self.train_loss, label=_entry(name, _TRAIN), **thin)
            if n_epochs == 1:  # a line of one point is not seen
                train.set_marker(".")
        self.smoothing_span_: Rectangle | None = None
        if self.smoothing_start is not None:
            start = self.smoothing_start
            label = _entry(name, f"smoothing from epoch {start}")
            looks = {"facecolor": line.get_color(), "alpha": 0.07, "zorder": 0}
            self.smoothing_span_ = ax.axvspan(start - 0.5, n_epochs + 0.5, label=label, **looks)
        self.best_epoch_line_: Line2D | None = None
        if self.best_epoch is not None:
            label = _entry(name, f"weights kept: epoch {self.best_epoch}")
            looks = {**thin, "linestyle": "-."}
            self.best_epoch_line_ = ax.axvline(self.best_epoch, label=label, **looks)
        self.penalty_line_: Line2D | None = self._draw_penalty(ax, epochs, thin)
        panel = _panel_of(ax)
        ax.set(xlabel="Epoch" if panel is None else "", ylabel="Mean loss per row")
        if panel is not None:
            ax.tick_params(labelbottom=False)
            panel.set_xlabel("Epoch")
        if ax.get_yscale() == "linear" and self._is_wide():
            log_scale(ax)
        if ax.get_yscale() == "log":
            ax.set_ylabel("Mean loss per row (log)")
        ends = [np.max(one.get_xdata(), initial=1) for one in ax.lines]
        ax.set_xlim(0.5, max(ends) + 0.5)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        draw_legend(ax)

        self.ax_: Axes = ax
        self.figure_: Figure | SubFigure = ax.figure
        self.train_line_: Line2D = train
        self.valid_line_: Line2D | None = None if is_alone else line
        self.valid_scaled_line_: Line2D | None = scaled
        return self

    def _is_wide(self) -> bool:
        """Return whether the losses are of very different size."""
        every = [self.train_loss, self.valid_loss, self.valid_scaled_loss]
        losses = np.concatenate([curve for curve in every if curve is not None])
        losses = losses[np.isfinite(losses)]
        return len(losses) > 0 and bool(0 < _WIDE * losses.min() < losses.max())

    def _draw_penalty(self, ax: Axes, epochs: IntArray, style: dict[str, Any]) -> Line2D | None:
        """Draw the penalty below the losses: it is much smaller, and means something else."""
        from matplotlib.ticker import MaxNLocator

        self.penalty_ax_: Axes | None = None
        if self.penalty is None:
            return None
        panel = _panel_of(ax)
        if panel is None:
            panel = cut_panel(ax)
            setattr(ax, _MEMORY, panel)
        (line,) = panel.plot(epochs, self.penalty, **style)
        if np.isfinite(self.penalty).sum() == 1:
            line.set_marker(".")
        highest = max(float(np.nanmax(one.get_ydata())) for one in panel.lines)
        panel.set_ylim(0, 1.1 * highest or 1.0)
        panel.set_ylabel("Penalty\n(nats)")
        panel.yaxis.set_major_locator(MaxNLocator(nbins=3))
        self.penalty_ax_ = panel
        return line


def _panel_of(ax: Axes) -> Axes | None:
    """Return the panel of penalties of an axes, if it has one."""
    panel: Axes | None = getattr(ax, _MEMORY, None)
    return panel if panel in ax.figure.axes else None


def _known(values: ArrayLike | None, n_epochs: int, what: str) -> FloatArray | None:
    """Return one value per epoch, or None where not one of them is known."""
    if values is None:
        return None
    array = np.asarray(values, dtype=float)
    if array.shape != (n_epochs,):
        raise ValueError(
            f"{what} must have one value for each of the {n_epochs} epochs; got shape "
            f"{array.shape}."
        )
    return None if np.isnan(array).all() else array


def _entry(name: str | None, text: str) -> str:
    """Return a legend entry, with the name before it if there is one."""
    return text[0].upper() + text[1:] if name is None else f"{name}: {text}"
