"""Fit and predict time, and test log-loss, of calibrators against those of other libraries.

    python benchmarks/posthoc.py --rows 10000 100000 --classes 2 10
    python benchmarks/posthoc.py --rows 1000000 --classes 100 --families temperature isotonic

One thread, CPU seconds, contestants in turn within one process; the median of several rounds
while a fit is short. Scores are 2 (M z + c), of which softmax(z) is calibrated by construction:
M is a noisy identity with small entries beside the diagonal, so that only a matrix undoes it.
Predictions are of 20,000 further rows, and include softmax where a library wants logits. Each
library gets what suits it, probabilities or logits. A contestant that would pass --limit, by
what it took with fewer rows, is skipped, and one that does pass it is stopped. "faster" is its
time over that of the fastest map of this package in the family whose log-loss is at most .001
above that of the contestant; a "worse loss" is .001 or more above the best of this package. A
star marks exact zeros on true classes, which count as 1e-12.
"""

import argparse
import gc
import signal
import time
import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from peers import MISSING, Contestant, Scores, both_forms, everyone, log_loss
from threadpoolctl import threadpool_limits

TEST_ROWS = 20_000
# Spread of z, so that no map can have a log-loss below about .37, 1.14 and 1.92.
SPREAD = {2: 2.06, 10: 2.434, 100: 3.174}
STRETCH, LEAK, SHIFT = 0.1, 0.12, 0.3
TOLERANCE = 1e-3


class Result(NamedTuple):
    """CPU seconds of fit and of prediction, test log-loss, and exact zeros on true classes."""

    fit: float
    predict: float
    loss: float
    zeros: int


def scores(n: int, n_classes: int, seed: int) -> tuple[Scores, NDArray[np.intp]]:
    """Return over-confident, shifted and mixed scores, and labels drawn from the true ones."""
    fixed = np.random.default_rng(12345)  # one distortion for all samples
    matrix = np.diag(1 + STRETCH * fixed.normal(size=n_classes))
    leak = fixed.normal(size=(n_classes, n_classes)) * LEAK / np.sqrt(n_classes)
    matrix += leak - np.diag(np.diag(leak))
    shift = SHIFT * fixed.normal(size=n_classes)
    rng = np.random.default_rng(seed)
    z = SPREAD.get(n_classes, 2.5) * rng.normal(size=(n, n_classes))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    # Without this, the mean of a row of logits would tell more than its probabilities do.
    z -= z.mean(axis=1, keepdims=True)
    return both_forms(2 * (z @ matrix.T + shift)), y


def measure(
    contestant: Contestant,
    cal: tuple[Scores, NDArray[np.intp]],
    test: tuple[Scores, NDArray[np.intp]],
    rounds: int,
) -> Result:
    """Fit and predict in several rounds, fewer when these are long; return medians."""
    fits, predictions = [], []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in range(rounds):
            start = time.process_time()
            predict = contestant.fit(*cal)
            fits.append(time.process_time() - start)
            start = time.process_time()
            proba = np.asarray(predict(test[0]), dtype=np.float64)
            predictions.append(time.process_time() - start)
            if number and fits[-1] + predictions[-1] > 1:
                break  # long enough to be steady
    loss, zeros = log_loss(proba, test[1])
    return Result(float(np.median(fits)), float(np.median(predictions)), loss, zeros)


def stop(number: int, frame: object) -> None:
    """End a fit that takes too long, as soon as it is back in Python."""
    raise TimeoutError("above --limit")


def rivalry(result: Result, own: list[Result]) -> tuple[float, str]:
    """Return how many times faster this package is, and that in words."""
    if result.loss < min(r.loss for r in own) - TOLERANCE:
        return 0.0, "better loss"
    rivals = [r.fit + r.predict for r in own if r.loss <= result.loss + TOLERANCE]
    ratio = (result.fit + result.predict) / min(rivals)
    if result.loss > min(r.loss for r in own) + TOLERANCE:
        return np.inf, f"{ratio:.2g}×, worse loss"
    return ratio, f"{ratio:.2g}×"


def report(family: str, found: dict[Contestant, Result]) -> str:
    """Print one family of one cell, this package's maps first; return its closest rival.

    Who is worse in log-loss is none.
    """
    own = [result for contestant, result in found.items() if contestant.library == "skcal"]
    closest = np.inf, "worse losses only"
    for contestant, result in found.items():
        text = "–"
        if contestant.library != "skcal" and own:
            ratio, text = rivalry(result, own)
            if ratio < closest[0]:
                closest = ratio, f"{text} {contestant.library}"
        print(
            f"| {family} | {contestant.library} | {contestant.name} | {result.fit:.3f} | "
            f"{result.predict:.3f} | {result.loss:.4f}{'*' * (result.zeros > 0)} | {text} |",
            flush=True,
        )
    return closest[1] if len(found) > len(own) else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 10, 100])
    parser.add_argument("--families", nargs="+")
    parser.add_argument("--libraries", nargs="+")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds per contestant")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    contestants = [
        c
        for c in everyone("logits")
        if (args.families is None or c.family in args.families)
        and (args.libraries is None or c.library in args.libraries)
        and c.family not in ("identity", "auto")
    ]
    signal.signal(signal.SIGALRM, stop)
    families = list(dict.fromkeys(c.family for c in contestants))
    summary: dict[str, dict[str, str]] = {}
    with threadpool_limits(1):
        _one_torch_thread()
        # Imports and compilation on first use are not what is measured.
        for n_classes in (2, 3):
            small, small_test = scores(300, n_classes, 1), scores(50, n_classes, 2)
            for contestant in contestants:
                if not (contestant.binary_only and n_classes > 2):
                    try:
                        measure(contestant, small, small_test, rounds=1)
                    except Exception as error:
                        MISSING.append(f"{contestant.library} {contestant.name}: {error!r}")
        for n_classes in args.classes:
            pace: dict[Contestant, float] = {}  # seconds per row, of the largest cell so far
            test = scores(TEST_ROWS, n_classes, 2)
            for n in sorted(args.rows):
                cal = scores(n, n_classes, 1)
                print(f"\n{n:,} rows, {n_classes} classes\n")
                print("| family | library | map | fit s | predict s | log-loss | faster |")
                print("|---|---|---|---|---|---|---|", flush=True)
                for family in families:
                    found = {}
                    for contestant in contestants:
                        if contestant.family != family or (
                            contestant.binary_only and n_classes > 2
                        ):
                            continue
                        name = f"{contestant.library} {contestant.name}"
                        if pace.get(contestant, 0.0) * n > args.limit:
                            print(f"  skipped, about {pace[contestant] * n:.0f} s: {name}")
                            continue
                        start = time.process_time()
                        rounds = args.rounds if n * n_classes <= 1_000_000 else 1
                        # Of the wall: a timer of CPU seconds would coarsen their clock.
                        signal.setitimer(signal.ITIMER_REAL, args.limit * 3)
                        try:
                            found[contestant] = measure(contestant, cal, test, rounds)
                        except Exception as error:
                            print(f"  failed: {name}: {error!r}"[:200])
                            pace[contestant] = np.inf
                            continue
                        finally:
                            signal.setitimer(signal.ITIMER_REAL, 0)
                        result = found[contestant]
                        spent = time.process_time() - start
                        pace[contestant] = max(result.fit, spent / rounds) / n
                        gc.collect()
                    summary.setdefault(family, {})[f"{n:,} × {n_classes}"] = report(family, found)
                del cal
    print("\nThe closest rival: this package is so many times faster than\n")
    cells = list(dict.fromkeys(cell for row in summary.values() for cell in row))
    print("| family | " + " | ".join(cells) + " |")
    print("|---|" + "---|" * len(cells))
    for family, row in summary.items():
        print(f"| {family} | " + " | ".join(row[cell] for cell in cells) + " |")
    for line in dict.fromkeys(MISSING):
        print("Left out:", line)


def _one_torch_thread() -> None:
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


if __name__ == "__main__":
    main()
