"""Benchmarks: one configuration, every method on every table.

From the ground up:

- ``_config``: what a benchmark is told
- ``_stress``: tables made harder
- ``_data``: its tables and their splits
- ``_methods``: training methods by name, and the settings that are tried for each
- ``_cell``: one method on one table, tuned, or fitted and measured
- ``_store``: where finished cells are kept
- ``_plan``: which cells there are, and about how long they take
- ``_run``: their computation, and on again after a crash
- ``_analysis``: what the cells say: differences, tests and ranks
- ``_pictures``: drawings of it
- ``_page``: blocks of a report, as Markdown and HTML
- ``_report``: the report of a run
"""

from skcal.experiments._config import Config, ConfigError, check_config, read_config
from skcal.experiments._plan import Plan, make_plan
from skcal.experiments._report import write_report
from skcal.experiments._run import run_benchmark
from skcal.experiments._store import Store

__all__ = [
    "Config",
    "ConfigError",
    "Plan",
    "Store",
    "check_config",
    "make_plan",
    "read_config",
    "run_benchmark",
    "write_report",
]
