"""The demonstration behind ``skcal demo``: a table in, a comparison and a report out."""

from skcal.demo._compare import Comparison, compare
from skcal.demo._report import write_report
from skcal.demo._table import read_table

__all__ = ["Comparison", "compare", "read_table", "write_report"]
