"""CPU time and memory of calibration errors against those of other libraries.

    python benchmarks/metrics.py --rows 1000000 --classes 2
    python benchmarks/metrics.py --rows 100000 --classes 100

One thread. Each contestant runs in a process of its own, forked after the data and the imports,
and after a first call on 1,000 rows: the median of --rounds calls in processor seconds, and how
far the largest resident memory rises above what was there before. Labels and probabilities are
in memory in the form that a library takes; ours are checked (finite, in [0, 1], rows that sum to
one), as they always are. A contestant that needs more than --limit seconds is stopped. Two
classes are compared as "positive" where a library takes them so, many by their largest
probability, and all classes one by one where it says so.
"""

import argparse
import contextlib
import importlib
import io
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from skcal import metrics

MISSING: list[str] = []


class Data(NamedTuple):
    """Labels and probabilities of all classes."""

    y: NDArray[np.intp]
    proba: NDArray[np.float64]


Prepare = Callable[[Data], Callable[[], float]]


class Contestant(NamedTuple):
    """A metric of some library: what turns data into a call that returns a number."""

    family: str
    library: str
    prepare: Prepare


def load(module: str) -> Any:
    """Return a module, or None and a note in MISSING."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except Exception as error:  # whatever a foreign package does on import
        MISSING.append(f"{module} ({type(error).__name__}: {error})")
        return None


def made_up(n: int, n_classes: int) -> Data:
    """Return over-confident probabilities."""
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(n, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    proba = np.exp(1.5 * logits)
    return Data(y, proba / proba.sum(axis=1, keepdims=True))


def single(data: Data) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probability and the event of the second of two classes, or of the largest."""
    if data.proba.shape[1] == 2:
        return data.proba[:, 1].copy(), data.y.astype(np.float64)
    return data.proba.max(axis=1), (data.proba.argmax(axis=1) == data.y).astype(np.float64)


# --- Contestants ---------------------------------------------------------------------------


def ours(n_classes: int) -> Iterator[Contestant]:
    one = {"kind": "positive" if n_classes == 2 else "top-label"}
    every = {"kind": "class-wise"}
    ece = metrics.expected_calibration_error
    errors: dict[str, Callable[..., float]] = {
        "ECE": partial(ece, **one),
        "RMS": partial(ece, norm="l2", **one),
        "MCE": partial(metrics.maximum_calibration_error, **one),
        "equal mass, L2, debiased": partial(
            ece, kind="marginal", strategy="quantile", norm="l2", debias=True
        ),
        "sweep": partial(ece, strategy="sweep", **one),
        "ECE, class-wise": partial(ece, **every),
        "ACE (equal mass, class-wise)": metrics.adaptive_calibration_error,
        "sweep, class-wise": partial(ece, strategy="sweep", **every),
        "smooth": partial(metrics.smooth_calibration_error, **one),
        "smooth, class-wise": partial(metrics.smooth_calibration_error, **every),
        "MMCE": partial(metrics.maximum_mean_calibration_error, **one),
        "MMCE, class-wise": partial(metrics.maximum_mean_calibration_error, **every),
        "KS": partial(metrics.ks_calibration_error, **one),
        "cumulative, range": partial(metrics.cumulative_calibration_error, **one),
        "cumulative, class-wise": partial(metrics.cumulative_calibration_error, **every),
        "binned cumulative, class-wise": metrics.binned_cumulative_calibration_error,
        "SKCE": metrics.squared_kernel_calibration_error,
        "SKCE, Euclidean": partial(metrics.squared_kernel_calibration_error, distance="euclidean"),
    }
    for family, error in errors.items():
        yield Contestant(
            family, "skcal", lambda data, error=error: partial(error, data.y, data.proba)
        )


def torchmetrics(n_classes: int) -> Iterator[Contestant]:
    library, torch = load("torchmetrics.functional.classification"), load("torch")
    if library is None or torch is None:
        return
    torch.set_num_threads(1)

    def prepare(data: Data, norm: str) -> Callable[[], float]:
        y = torch.from_numpy(data.y)
        if n_classes == 2:
            p = torch.from_numpy(data.proba[:, 1].copy())
            call = partial(library.binary_calibration_error, p, y, n_bins=15, norm=norm)
        else:
            p = torch.from_numpy(data.proba)
            call = partial(
                library.multiclass_calibration_error, p, y, n_classes, n_bins=15, norm=norm
            )
        return lambda: float(call())

    for family, norm in (("ECE", "l1"), ("RMS", "l2"), ("MCE", "max")):
        yield Contestant(family, "torchmetrics", partial(prepare, norm=norm))


def netcal(n_classes: int) -> Iterator[Contestant]:
    library = load("netcal.metrics")
    if library is None:
        return

    def prepare(data: Data, metric: Any) -> Callable[[], float]:
        p = data.proba[:, 1].copy() if n_classes == 2 else data.proba
        return lambda: float(metric.measure(p, data.y))

    for family, metric in (
        ("ECE", library.ECE(15)),
        ("MCE", library.MCE(15)),
        ("MMCE", library.MMCE()),
    ):
        yield Contestant(family, "netcal", partial(prepare, metric=metric))


def probmetrics(n_classes: int) -> Iterator[Contestant]:
    library, torch = load("probmetrics.metrics"), load("torch")
    distributions = load("probmetrics.distributions")
    if library is None or torch is None or distributions is None:
        return

    def prepare(data: Data, metric: Any) -> Callable[[], float]:
        y = distributions.CategoricalDirac(torch.from_numpy(data.y), n_classes)
        p = distributions.CategoricalProbs(torch.from_numpy(data.proba))
        return lambda: float(metric.compute(y, p))

    yield Contestant("ECE", "probmetrics", partial(prepare, metric=library.CalibrationError(15)))
    if load("relplot") is not None:
        smooth = library.SmoothCalibrationError()
        yield Contestant("smooth", "probmetrics", partial(prepare, metric=smooth))
    if n_classes == 2:
        largest = library.KolmogorovSmirnovCalibrationMetric()
        yield Contestant("KS", "probmetrics", partial(prepare, metric=largest))
        spread = library.KuiperCalibrationMetric()
        yield Contestant("cumulative, range", "probmetrics", partial(prepare, metric=spread))


def relplot(n_classes: int) -> Iterator[Contestant]:
    library = load("relplot")
    if library is None:
        return

    def prepare(data: Data) -> Callable[[], float]:
        p, event = single(data)
        return lambda: float(library.smECE(p, event))

    yield Contestant("smooth", "relplot", prepare)


def uncertainty_calibration(n_classes: int) -> Iterator[Contestant]:
    library, parts = load("calibration"), load("calibration.utils")
    if library is None or parts is None:
        return

    def prepare(data: Data) -> Callable[[], float]:
        return lambda: float(
            parts._get_ce(
                data.proba,
                data.y,
                2,
                True,
                num_bins=15,
                binning_scheme=parts.get_equal_bins,
                mode="marginal",
            )
        )

    yield Contestant("equal mass, L2, debiased", "uncertainty-calibration", prepare)


# --- Measuring -----------------------------------------------------------------------------


def resident(field: str) -> float:
    """Return a line of the process's status, in megabytes."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field))
    return int(line.split()[1]) / 1024


def run(contestant: Contestant, data: Data, rounds: int, answer: Connection) -> None:
    """Send processor seconds, megabytes and the value, or what went wrong."""
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            contestant.prepare(Data(data.y[:1000], data.proba[:1000]))()
            call = contestant.prepare(data)
            before = resident("VmRSS")
            with open("/proc/self/clear_refs", "w") as control:
                control.write("5")  # forget the largest size so far
            seconds = []
            for _ in range(rounds):
                start = time.process_time()
                value = call()
                seconds.append(time.process_time() - start)
            answer.send((float(np.median(seconds)), resident("VmHWM") - before, value))
    except Exception as error:  # one contestant's failure must not end the others
        answer.send(f"{type(error).__name__}: {error}"[:60])


def measure(contestant: Contestant, data: Data, rounds: int, limit: float) -> str:
    """Return a line of results."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=run, args=(contestant, data, rounds, sender))
    process.start()
    sender.close()
    try:
        found = receiver.recv() if receiver.poll(limit) else f"stopped after {limit:g} s"
    except EOFError:
        found = "ended without an answer (out of memory?)"
    process.kill()
    process.join()
    if isinstance(found, str):
        return found
    seconds, megabytes, value = found
    return f"{seconds:.3f} s | {megabytes:.0f} MB | {value:.5f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    data = made_up(options.rows, options.classes)
    peers = (torchmetrics, netcal, probmetrics, relplot, uncertainty_calibration)
    everyone = [*ours(options.classes), *(c for peer in peers for c in peer(options.classes))]
    print(f"{options.rows:,} rows, {options.classes} classes")
    families = list(dict.fromkeys(contestant.family for contestant in everyone))
    print("error | library | time | memory | value")
    for contestant in sorted(everyone, key=lambda c: families.index(c.family)):
        line = measure(contestant, data, options.rounds, options.limit)
        print(f"{contestant.family} | {contestant.library} | {line}", flush=True)
    for missing in dict.fromkeys(MISSING):
        print(f"not installed: {missing}")


if __name__ == "__main__":
    main()
