"""From mixed tables to the numbers a network reads."""

from skcal.tabular._encoder import TabularEncoder
from skcal.tabular._frames import check_table

__all__ = ["TabularEncoder", "check_table"]
