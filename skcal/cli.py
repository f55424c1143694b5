"""The command ``skcal``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from skcal._version import __version__

# The largest table that the demo trains on within a minute.
_MAX_ROWS = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.

    Returns
    -------
    int
        Exit status: 0 if all went well, 2 for a wrong argument or an unusable table.

    Examples
    --------
    >>> from skcal.cli import main
    >>> main(["demo", "--data", "absent.csv", "--target", "y"])
    2
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    return int(options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skcal", description="Calibrated probabilities for scikit-learn."
    )
    parser.add_argument("--version", action="version", version=f"skcal {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="train, calibrate and compare on a real table, and write a report",
        description="Trains plain cross-entropy, NeSCal and scikit-learn's MLPClassifier, each raw "
        "and temperature-scaled, over a few seeds; prints a table and writes a reliability plot "
        "and an HTML report. Without --data it takes the bundled credit table.",
    )
    demo.add_argument("--data", metavar="FILE.csv", help="your own table, with a header row")
    demo.add_argument("--target", metavar="COL", help="its label column")
    demo.add_argument("--out", metavar="DIR", default="skcal-demo", help="default: ./skcal-demo")
    demo.add_argument("--seeds", metavar="N", type=int, default=5, help="number of seeds (5)")
    demo.set_defaults(run=_demo)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from skcal.datasets import load_credit
    from skcal.demo._table import TableError, read_table

    if (options.data is None) != (options.target is None):
        return _fail("--data and --target go together.")
    if options.seeds < 1:
        return _fail(f"--seeds must be at least 1; got {options.seeds}.")
    notes: list[str] = []
    if options.data is None:
        title = "Credit scoring (bundled table)"
        X, y = load_credit(return_X_y=True)
    else:
        title = f"{options.data}, column {options.target}"
        try:
            X, y, notes = read_table(options.data, options.target, max_rows=_MAX_ROWS)
        except TableError as error:
            return _fail(str(error))
    return _compare_and_report(X, y, options, title, notes)


def _compare_and_report(
    X: Any, y: Any, options: argparse.Namespace, title: str, notes: list[str]
) -> int:
    from threadpoolctl import threadpool_limits

    from skcal.demo import compare, write_report
    from skcal.demo._report import summary, text_table

    try:
        # Before the training, not after it.
        Path(options.out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return _fail(f"The folder {options.out} cannot be made: {error}")
    print(f"{title}: {len(X)} rows, {X.shape[1]} columns, {y.nunique()} classes")
    for note in notes:
        print(note)
    # Batches of a table are too small to share between threads, and threads that wait for each
    # other on a busy machine cost many times what they save. Only libraries that are loaded
    # can be limited, so torch comes first.
    import_module("skcal.neural")
    with threadpool_limits(1):
        result = compare(X, y, seeds=range(options.seeds), progress=_progress)
    print()
    print(text_table(result))
    print()
    for sentence in summary(result):
        print(sentence)
    written = write_report(result, options.out, title=title, notes=notes)
    print(f"\nWritten in {result.seconds:.0f} s: " + ", ".join(str(path) for path in written))
    return 0


def _progress(steps: Iterable[Any], total: int) -> Iterable[Any]:
    from tqdm import tqdm

    return tqdm(steps, total=total, unit="fit", desc="Training", file=sys.stderr, leave=False)


def _fail(message: str) -> int:
    print(f"skcal: {message}", file=sys.stderr)
    return 2
