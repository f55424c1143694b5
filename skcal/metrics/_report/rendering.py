"""The report as an object: text, dictionary, table and page from the same lines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

# Of more classes the text and the page show those that are furthest off.
_MOST_CLASSES = 10
_TEXT_WIDTH = 88


@dataclass(frozen=True)
class ReportLine:
    """One number, its interval where there is one, and what to hold it against."""

    name: str
    value: float | None
    lower: float | None = None
    upper: float | None = None
    note: str = ""


@dataclass(frozen=True)
class ClassLine:
    """One class: what was predicted for it on average, and what happened."""

    class_label: Any
    count: int
    mean_predicted: float
    event_rate: float
    lower: float
    upper: float
    ece: float
    chance_ece: float


@dataclass(frozen=True)
class CalibrationReport:
    """Everything about a set of predicted probabilities, to print, show or store.

    ``print(report)`` gives text, a notebook shows a table, ``to_dict()`` plain values for a
    JSON file and ``to_frame()`` a DataFrame.

    Attributes
    ----------
    n_samples : int
        Number of rows with a weight above zero.
    classes : list
        The classes, in column order.
    confidence_level : float
        Level of all intervals.
    sentences : list of str
        What the numbers say.
    lines : list of ReportLine
        The numbers: each has a `name`, `value`, `lower`, `upper` and `note`.
    class_lines : list of ClassLine
        The classes: each has a `class_label`, `count`, `mean_predicted`, `event_rate` with
        the interval `lower` to `upper`, `ece` and `chance_ece`.
    """

    n_samples: int
    classes: list[Any]
    confidence_level: float
    sentences: list[str]
    lines: list[ReportLine]
    class_lines: list[ClassLine]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dictionaries; None where there is no value.

        Returns
        -------
        dict
            With the keys "n_samples", "classes", "confidence_level", "sentences", "values" (a
            dictionary of "value", "lower", "upper" and "note" by name) and "per_class" (a list
            of dictionaries).
        """
        values = {line.name: asdict(line) for line in self.lines}
        for name, value in values.items():
            assert value.pop("name") == name
        return {
            "n_samples": self.n_samples,
            "classes": list(self.classes),
            "confidence_level": self.confidence_level,
            "sentences": list(self.sentences),
            "values": values,
            "per_class": [asdict(line) for line in self.class_lines],
        }

    def to_frame(self, *, per_class: bool = False) -> DataFrame:
        """Return the numbers as a table.

        Parameters
        ----------
        per_class : bool, default=False
            Whether the rows are the classes instead of the numbers.

        Returns
        -------
        DataFrame
            Indexed by the numbers' names or the classes.
        """
        import pandas as pd

        lines = self.class_lines if per_class else self.lines
        index = "class_label" if per_class else "name"
        return pd.DataFrame([asdict(line) for line in lines]).set_index(index)

    def __str__(self) -> str:
        sentences = [line for text in self.sentences for line in wrap(text, _TEXT_WIDTH)]
        parts = [self._title(), "", *sentences, "", *_aligned(self._table())]
        parts += ["", *_aligned(self._class_table())]
        left_out = self._left_out()
        return "\n".join(parts + ([left_out] if left_out else []))

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{escape(self._title())}</strong></p>"]
        parts += [f"<p>{escape(sentence)}</p>" for sentence in self.sentences]
        parts += [_html_table(self._table()), _html_table(self._class_table())]
        left_out = self._left_out()
        if left_out:
            parts.append(f"<p>{escape(left_out)}</p>")
        # No colours: the notebook's own are readable on its own background, dark or light.
        return f'<div style="max-width: 60em">{"".join(parts)}</div>'

    def _title(self) -> str:
        rows = f"{self.n_samples} row" + "s" * (self.n_samples != 1)
        return f"Calibration report: {rows}, {len(self.classes)} classes"

    def _table(self) -> list[list[str]]:
        level = f"{100 * self.confidence_level:.3g} % interval"
        table = [["", "value", level, ""]]
        for line in self.lines:
            interval = (
                "" if line.lower is None else f"{_number(line.lower)} to {_number(line.upper)}"
            )
            table.append([line.name, _number(line.value), interval, line.note])
        return table

    def _class_table(self) -> list[list[str]]:
        table = [["class", "rows", "predicted", "observed", "interval", "ECE", "by chance"]]
        for line in self._shown_classes():
            interval = f"{_number(line.lower)} to {_number(line.upper)}"
            numbers = map(_number, (line.mean_predicted, line.event_rate))
            errors = map(_number, (line.ece, line.chance_ece))
            table.append([str(line.class_label), str(line.count), *numbers, interval, *errors])
        return table

    def _shown_classes(self) -> list[ClassLine]:
        if len(self.class_lines) <= _MOST_CLASSES:
            return self.class_lines
        worst = sorted(self.class_lines, key=lambda line: line.chance_ece - line.ece)
        return worst[:_MOST_CLASSES]

    def _left_out(self) -> str:
        if len(self.class_lines) <= _MOST_CLASSES:
            return ""
        return (
            f"The {_MOST_CLASSES} of {len(self.classes)} classes whose ECE exceeds chance most; "
            "to_frame(per_class=True) has all."
        )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if 0 < abs(value) < 5e-5:
        return f"{value:.0e}"
    # Adding zero takes the sign from a negative number that is rounded to zero.
    return f"{round(value, 4) + 0.0:.4f}" if abs(value) < 1000 else f"{value:.4g}"


def _aligned(table: list[list[str]]) -> list[str]:
    """Return lines of text: the first and last column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = row[0].ljust(widths[0])
        cells[-1] = row[-1] if table[0][-1] == "" else cells[-1]
        lines.append("  ".join(cells).rstrip())
    return lines


def _html_table(table: list[list[str]]) -> str:
    """Return a table whose numbers stand to the right."""
    head, *body = table
    to_the_left = {0, len(head) - 1} if head[-1] == "" else {0}

    def row(cells: list[str], tag: str, rule: str) -> str:
        return "".join(
            f'<{tag} style="text-align: {"left" if i in to_the_left else "right"}; '
            f'padding: 0.1em 1em 0.1em 0{rule}">{escape(cell)}</{tag}>'
            for i, cell in enumerate(cells)
        )

    # A rule without a colour of its own has that of the text.
    header = row(head, "th", "; border-bottom: 1px solid")
    rows = "".join(f"<tr>{row(cells, 'td', '')}</tr>" for cells in body)
    return (
        '<table style="border-collapse: collapse; margin: 1em 0; color: inherit; '
        f'font-size: inherit"><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>'
    )
