"""Running a benchmark: cell by cell, in processes, and on again after a crash."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from joblib import Parallel, delayed

from skcal._options import check_whole, find_name
from skcal._version import __version__
from skcal.experiments._cell import Job
from skcal.experiments._config import Config
from skcal.experiments._plan import Key, make_plan
from skcal.experiments._store import Store

Progress = Callable[[Iterable[Any], int], Iterable[Any]]
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "skorch", "pandas")


def run_benchmark(
    config: Config,
    out: str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    n_jobs: int = 1,
    backend: str = "loky",
    progress: Progress | None = None,
) -> Store:
    """Compute every cell of a benchmark that the run does not have yet.

    Parameters
    ----------
    config : Config
    out : path
        Folder of the run.
    folder : path, optional
        The data folder; ``SKCAL_DATA`` by default.
    resume : bool, default=False
        Go on with the run that is there; cells that failed are tried again.
    n_jobs : int, default=1
        Cells at the same time, each on one thread.
    backend : {"loky", "dask"}, default="loky"
        Processes of this machine, or the workers of the ``distributed.Client`` in use.
    progress : callable, optional
        Given the finished rows as they come and their number, passes them on.

    Returns
    -------
    Store
    """
    check_whole(n_jobs, "n_jobs")
    find_name(backend, ("loky", "dask"), "backend")
    plan = make_plan(config, folder)
    store = Store(out)
    store.open(config, {"versions": versions()}, resume=resume)
    found: dict[Key, dict[str, Any]] = {
        tuple(row["cell"].items()): row for row in store.rows() if "error" not in row
    }
    for wave in plan.waves():
        jobs: list[Job] = []
        rows: list[dict[str, Any]] = []
        for cell in wave:
            if tuple(cell.key.items()) in found:
                continue
            try:
                jobs.append(plan.job(cell, found))
            except RuntimeError as error:
                rows.append({"cell": cell.key, "error": str(error), "seconds": 0.0, "cpu": 0.0})
        for row in rows:
            store.append(row)
            found[tuple(row["cell"].items())] = row
        results: Iterable[dict[str, Any]] = _compute(jobs, n_jobs, backend)
        if progress is not None and jobs:
            results = progress(results, len(jobs))
        for row in results:
            store.append(row)
            found[tuple(row["cell"].items())] = row
    return store


def _compute(jobs: list[Job], n_jobs: int, backend: str) -> Iterator[dict[str, Any]]:
    """Yield the row of each job as soon as it is there."""
    if backend == "dask":
        from distributed import as_completed, get_client

        client = get_client()
        futures = [client.submit(Job.run, job, pure=False) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
        return
    if n_jobs == 1:
        for job in jobs:
            yield job.run()
        return
    yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")(
        delayed(Job.run)(job) for job in jobs
    )


def versions() -> dict[str, str]:
    """Return the versions of what the numbers depend on."""
    known = {"python": platform.python_version(), "skcal": __version__}
    for name in _LIBRARIES:
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            continue
    return known
