"""What a search found: a table of its best trials, and Optuna's pictures of the study."""

from __future__ import annotations

import warnings
from collections import Counter
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skcal._options import check_level, check_whole, find_name
from skcal._repeats import mean_and_half_width
from skcal.tuning._optuna import import_optuna
from skcal.tuning._search import OptunaSearch

# Pictures by name: the function of Optuna that draws them.
_PICTURES = {
    "history": "plot_optimization_history",
    "importance": "plot_param_importances",
    "parallel": "plot_parallel_coordinate",
    "epochs": "plot_intermediate_values",
}
Picture = Literal["history", "importance", "parallel", "epochs"]


class SearchReport:
    """The best trials of a search with intervals, and Optuna's pictures of the study.

    Parameters
    ----------
    search : OptunaSearch
        A fitted one.
    n_best : int, default=10
        Trials in the table.
    confidence_level : float, default=0.95
        Of the intervals.

    Attributes
    ----------
    trials : dict of arrays
        An entry for each of the best complete trials, the best first: "trial", its number;
        "score", the mean over folds, with "low" and "high"; "difference", to the best trial, with
        "difference_low" and "difference_high"; and its parameters, by name, or as "param_low" if
        the name is one of these.

    Raises
    ------
    TypeError
        If ``search`` is another one, such as scikit-learn's.
    NotFittedError
        If it has not come to its end.
    ValueError
        If ``n_best`` or ``confidence_level`` are out of range.

    Notes
    -----
    Intervals are Student's over folds, widened for the training rows that folds share as proposed
    by C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning, 2003.
    Those of differences are of the paired differences of each fold, and mostly much narrower. The
    best trial was chosen for its score, which no interval takes into account:
    :func:`tune_and_confirm` measures it again.

    Examples
    --------
    >>> from optuna.distributions import FloatDistribution
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skcal.tuning import OptunaSearch, SearchReport
    >>> X, y = make_classification(random_state=0)
    >>> space = {"C": FloatDistribution(1e-3, 1e3, log=True)}
    >>> search = OptunaSearch(LogisticRegression(), space, n_trials=8, random_state=0).fit(X, y)
    >>> print(SearchReport(search, n_best=3))
    8 trials: ...
    neg_log_loss, mean of 5 folds with 95 % interval; greater is better.
    ...
    >>> SearchReport(search).plot("history")
    <Axes: ...>
    """

    def __init__(self, search: Any, *, n_best: int = 10, confidence_level: float = 0.95) -> None:
        if not isinstance(search, OptunaSearch):
            raise TypeError(f"search must be an OptunaSearch; got {type(search).__name__}.")
        check_is_fitted(search)
        self.search = search
        self.n_best = check_whole(n_best, "n_best")
        self.confidence_level = check_level(confidence_level)
        self.trials = self._best_trials()

    def __str__(self) -> str:
        """Return the table of the best trials in plain text."""
        search, trials = self.search, self.trials
        states = Counter(search.cv_results_["state"])
        kinds = {"COMPLETE": "complete", "PRUNED": "given up", "FAIL": "failed"}
        told = ", ".join(
            f"{states[state]} {kind}" for state, kind in kinds.items() if state in states
        )
        params = [name for name in trials if name not in _COLUMNS]
        heads = ["trial", "score", "interval", "to the best", "interval", *params]
        rows = [
            [
                str(trials["trial"][i]),
                f"{trials['score'][i]:.4f}",
                _interval(trials["low"][i], trials["high"][i]),
                f"{trials['difference'][i]:+.4f}" if i else "",
                _interval(trials["difference_low"][i], trials["difference_high"][i]) if i else "",
                *(_short(trials[name][i]) for name in params),
            ]
            for i in range(len(trials["trial"]))
        ]
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        table = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in [heads, *rows]
        ]
        return "\n".join(
            [
                f"{sum(states.values())} trials: {told}.",
                f"{self._scoring}, mean of {search.n_splits_} folds with "
                f"{100 * self.confidence_level:g} % interval; greater is better.",
                *table,
                "The best was chosen for its score: measure it again on rows of their own.",
            ]
        )

    def __repr__(self) -> str:
        """Return the same: what a notebook shows."""
        return str(self)

    def plot(
        self, kind: Picture, *, backend: Literal["matplotlib", "plotly"] = "matplotlib"
    ) -> Any:
        """Return one of Optuna's pictures.

        Parameters
        ----------
        kind : {"history", "importance", "parallel", "epochs"}
            Scores trial by trial, with the best so far; how much of the scores' variance each
            parameter explains; parameters and scores as lines between parallel axes; or the
            epochs of networks, minus their validation log-loss.
        backend : {"matplotlib", "plotly"}, default="matplotlib"
            "plotly" needs ``skcal[plotly]``.

        Returns
        -------
        matplotlib Axes or plotly Figure

        Raises
        ------
        ImportError
            If plotly is asked for and not there.
        ValueError
            If ``kind`` or ``backend`` is unknown, or there are too few complete trials.
        """
        name = _PICTURES[find_name(kind, _PICTURES, "kind")]
        find_name(backend, ("matplotlib", "plotly"), "backend")
        if kind == "importance" and len(self._complete()) < 2:
            raise ValueError("Importance needs at least two complete trials.")
        study = self.search.study_
        named = {} if kind == "epochs" else {"target_name": self._scoring}
        if backend == "plotly":
            try:
                import plotly  # noqa: F401
            except ImportError as error:
                raise ImportError(
                    "backend='plotly' needs plotly, which is not installed: "
                    "pip install 'skcal[plotly]'."
                ) from error
            return getattr(import_optuna().visualization, name)(study, **named)
        import matplotlib as mpl
        from optuna.visualization import matplotlib as pictures

        with mpl.rc_context(), warnings.catch_warnings():
            # Optuna sets a style for all pictures to come, and calls its own functions
            # experimental; they have been there since 2020.
            warnings.simplefilter("ignore", import_optuna().exceptions.ExperimentalWarning)
            axes = getattr(pictures, name)(study, **named)
        return axes

    def write(self, folder: str | PathLike[str]) -> list[Path]:
        """Write the table and the pictures that the study has to show.

        Parameters
        ----------
        folder : str or path
            Made if it is not there.

        Returns
        -------
        list of Path
            ``report.txt``, ``history.png``, and, of two complete trials or more, ``importance.png``
            and ``parallel.png``; of networks ``epochs.png``, too.
        """
        import matplotlib.pyplot as plt

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        text = folder / "report.txt"
        text.write_text(f"{self}\n", encoding="utf-8")
        written = [text]
        kinds: list[Picture] = ["history"]
        kinds += ["importance", "parallel"] if len(self._complete()) > 1 else []
        kinds += ["epochs"] if any(t.intermediate_values for t in self._complete()) else []
        for kind in kinds:
            figure = self.plot(kind).figure
            path = folder / f"{kind}.png"
            figure.savefig(path, dpi=120, bbox_inches="tight")
            plt.close(figure)
            written.append(path)
        return written

    @property
    def _scoring(self) -> str:
        scoring = self.search.scoring
        return scoring if isinstance(scoring, str) else "score"

    def _complete(self) -> list[Any]:
        states = (import_optuna().trial.TrialState.COMPLETE,)
        return list(self.search.study_.get_trials(deepcopy=False, states=states))

    def _best_trials(self) -> dict[str, NDArray[Any]]:
        results, n_splits = self.search.cv_results_, self.search.n_splits_
        complete = np.flatnonzero(np.asarray(results["state"]) == "COMPLETE")
        order = np.argsort(-results["mean_test_score"][complete], kind="stable")
        best = complete[order][: self.n_best]
        splits = np.stack([results[f"split{fold}_test_score"] for fold in range(n_splits)])
        scores = splits[:, best]
        columns = {
            "trial": np.asarray(results["trial"])[best],
            **self._intervals(scores, ("score", "low", "high")),
            **self._intervals(
                scores - scores[:, :1], ("difference", "difference_low", "difference_high")
            ),
        }
        chosen = [results["params"][place] for place in best]
        for name in dict.fromkeys(name for params in chosen for name in params):
            # One by one: an array of tuples or of pipelines would be one of what they hold.
            values = np.empty(len(chosen), dtype=object)
            for place, params in enumerate(chosen):
                values[place] = params.get(name)
            columns[f"param_{name}" if name in _COLUMNS else name] = values
        return columns

    def _intervals(
        self, scores: NDArray[np.float64], names: tuple[str, str, str]
    ) -> dict[str, NDArray[np.float64]]:
        """Return means over folds (axis 0), and the ends of their intervals."""
        ratio = self.search.test_to_train_
        pairs = [mean_and_half_width(one, ratio, self.confidence_level) for one in scores.T]
        mean, half = np.array(pairs).T
        return dict(zip(names, (mean, mean - half, mean + half), strict=True))


_COLUMNS = (
    "trial",
    "score",
    "low",
    "high",
    "difference",
    "difference_low",
    "difference_high",
)


def _interval(low: float, high: float) -> str:
    return f"[{low:.4f}, {high:.4f}]" if np.isfinite(low) else ""


def _short(value: Any) -> str:
    """Return a value in a line, as the text of an estimator may have several."""
    return f"{value:.4g}" if isinstance(value, float) else " ".join(str(value).split())
