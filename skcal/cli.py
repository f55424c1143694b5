"""The command ``skcal``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
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
        Exit status: 0 if all went well, 1 if cells of a benchmark failed, 2 for a wrong argument
        or an unusable table.

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
    bench = commands.add_parser(
        "bench",
        help="compare methods and calibrators on many tables, as a configuration says",
        description="Trains every method on every table, tuned on search seeds and measured on "
        "others, with each calibrator behind it. Each finished cell is written at once. Needs "
        "skcal[bench].",
    )
    bench.add_argument("config", metavar="CONFIG.json")
    bench.add_argument("--out", metavar="DIR", help="default: ./skcal-bench/NAME")
    bench.add_argument("--dry-run", action="store_true", help="print the plan, and train nothing")
    bench.add_argument("--resume", action="store_true", help="go on with the run that is there")
    bench.add_argument("--jobs", metavar="N", type=int, default=1, help="cells at a time (1)")
    bench.add_argument(
        "--backend", choices=("loky", "dask"), default="loky", help="processes, or Dask's workers"
    )
    bench.add_argument(
        "--scheduler", metavar="ADDRESS", help="of Dask; a cluster of --jobs workers without it"
    )
    bench.add_argument("--data", metavar="DIR", help="the data folder (default: $SKCAL_DATA)")
    bench.set_defaults(run=_bench)
    report = commands.add_parser(
        "report",
        help="tables and pictures of a benchmark",
        description="Writes what a run of skcal bench found, finished or not, as report.md with "
        "its pictures and as one page, report.html.",
    )
    report.add_argument("run_folder", metavar="RUN", help="folder of a run")
    report.add_argument("--out", metavar="DIR", help="default: the folder of the run")
    report.set_defaults(run=_report)
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


def _bench(options: argparse.Namespace) -> int:
    try:
        from skcal.experiments import ConfigError, make_plan, read_config, run_benchmark
    except ImportError as error:
        return _fail(str(error))
    if options.jobs < 1:
        return _fail(f"--jobs must be at least 1; got {options.jobs}.")
    try:
        config = read_config(options.config)
        plan = make_plan(config, options.data)
        waves = plan.waves()
        n_cells = sum(map(len, waves))
        print(
            f"{config.name}: {len(plan.tables)} tables, {len(config.methods)} methods, "
            f"{len(config.calibrators)} calibrators; {n_cells} cells ({len(waves[-1])} measured), "
            f"{plan.n_fits()} fits, very roughly {plan.minutes(options.jobs):.0f} minutes with "
            f"--jobs {options.jobs}."
        )
        if options.dry_run:
            return 0
        out = Path(options.out or Path("skcal-bench") / config.name)
        with _workers(options):
            store = run_benchmark(
                config,
                out,
                folder=options.data,
                resume=options.resume,
                n_jobs=options.jobs,
                backend=options.backend,
                progress=_cells,
            )
    except (ConfigError, FileNotFoundError, ImportError, TypeError, ValueError) as error:
        return _fail(str(error))
    failed = [row for row in store.rows() if "error" in row]
    for row in failed[:3]:
        print(f"{row['cell']} failed: {row['error'].strip().splitlines()[-1]}", file=sys.stderr)
    print(f"{len(store.rows()) - len(failed)} cells in {out}, {len(failed)} failed.")
    return 1 if failed else 0


def _report(options: argparse.Namespace) -> int:
    try:
        from skcal.experiments import ConfigError, write_report
    except ImportError as error:
        return _fail(str(error))
    try:
        written = write_report(options.run_folder, options.out)
    except (ConfigError, OSError) as error:
        return _fail(str(error))
    print("Written: " + ", ".join(str(path) for path in written[:2]))
    return 0


@contextmanager
def _workers(options: argparse.Namespace) -> Iterator[None]:
    """Keep a client of Dask open while a benchmark runs on it."""
    if options.backend != "dask":
        yield
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            "--backend dask needs Dask, which is not installed: pip install 'skcal[dask]'."
        ) from error
    if options.scheduler:
        with Client(options.scheduler):
            yield
        return
    there = LocalCluster(n_workers=options.jobs, threads_per_worker=1, dashboard_address=None)
    with there as cluster, Client(cluster):
        yield


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


def _cells(rows: Iterable[Any], total: int) -> Iterable[Any]:
    from tqdm import tqdm

    return tqdm(rows, total=total, unit="cell", file=sys.stderr, leave=False)


def _fail(message: str) -> int:
    print(f"skcal: {message}", file=sys.stderr)
    return 2
