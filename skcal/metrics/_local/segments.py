"""Groups and segments of rows: from labels, columns of categories, or masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcal._validation import IntArray, is_missing


def categories(values: ArrayLike, n_rows: int, name: str) -> tuple[IntArray, list[Any]]:
    """Return the number of each row's category, and the categories in sorted order.

    Missing values are a category of their own, the last one, called None.

    Raises
    ------
    ValueError
        If there is not one value for each row, or the values are fractions or of mixed kinds.
    """
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise ValueError(
            f"{name} must hold one value for each of the {n_rows} rows; its shape is {array.shape}."
        )
    if array.dtype.kind == "O":
        missing = np.array([is_missing(value) for value in array], dtype=bool)
    elif array.dtype.kind in "mM":
        missing = np.isnat(array)
    else:
        missing = array != array
    known = array[~missing]
    if array.dtype.kind == "f" and (known != np.round(known)).any():
        raise ValueError(
            f"{name} must hold categories, not fractions; cut numbers into ranges first, for "
            "example with pandas.qcut."
        )
    try:
        found, inverse = np.unique(known, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"{name} must hold values of one kind ({error}).") from error
    codes = np.full(n_rows, len(found), dtype=np.intp)
    codes[~missing] = inverse
    return codes, found.tolist() + [None] * bool(missing.any())


def group_categories(groups: Any, n_rows: int) -> tuple[IntArray, list[Any]]:
    """Return the group of each row and the groups' names: tuples where there are columns."""
    table = _columns(groups)
    if len(table) == 1:
        return categories(next(iter(table.values())), n_rows, "groups")
    columns = [categories(v, n_rows, f"groups[{name!r}]") for name, v in table.items()]
    codes, cells = _combine([codes for codes, _ in columns])
    found = [names for _, names in columns]
    return codes, [tuple(f[c] for f, c in zip(found, cell, strict=True)) for cell in cells]


def partitions(segments: Any, n_rows: int, max_depth: int) -> Iterator[tuple[IntArray, list[str]]]:
    """Yield the segment of each row, -1 for none, and the names of these segments.

    The segments of one partition do not overlap. Masks make one partition each; columns of
    categories make one for every combination of up to ``max_depth`` of them.
    """
    masks = _masks(segments, n_rows)
    if masks is not None:
        for name, mask in masks.items():
            yield np.where(mask, 0, -1), [name]
        return
    columns = {
        name: categories(values, n_rows, f"segments[{name!r}]" if name else "segments")
        for name, values in _columns(segments).items()
    }
    for depth in range(1, min(max_depth, len(columns)) + 1):
        for chosen in combinations(columns, depth):
            codes, cells = _combine([columns[name][0] for name in chosen])
            yield (
                codes,
                [
                    " & ".join(
                        f"{name}={columns[name][1][c]}" if name else str(columns[name][1][c])
                        for name, c in zip(chosen, cell, strict=True)
                    )
                    for cell in cells
                ],
            )


def _combine(columns: list[IntArray]) -> tuple[IntArray, NDArray[np.intp]]:
    """Return the number of each row's combination, and the combinations that occur."""
    cells, codes = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    return codes.reshape(-1), cells


def _columns(table: Any) -> dict[str, Any]:
    """Return the columns of a table by name; one column alone has none."""
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        return {str(name): table.iloc[:, j] for j, name in enumerate(table.columns)}
    array = np.asarray(table)
    if array.ndim != 2:
        return {"": array}
    return {str(j): array[:, j] for j in range(array.shape[1])}


def _masks(segments: Any, n_rows: int) -> dict[str, NDArray[np.bool_]] | None:
    """Return boolean masks by name, or None where the segments are given as categories."""
    if isinstance(segments, Mapping):
        named = {str(name): np.asarray(mask) for name, mask in segments.items()}
    elif isinstance(segments, list | tuple) and segments and np.ndim(segments[0]) == 1:
        named = {f"mask {i}": np.asarray(mask) for i, mask in enumerate(segments)}
    else:
        return None
    for name, mask in named.items():
        if mask.dtype.kind != "b" or mask.shape != (n_rows,):
            raise ValueError(
                f"Each mask of segments must hold {n_rows} booleans, one for each row; {name!r} "
                f"has dtype {mask.dtype} and shape {mask.shape}. Columns of categories come as "
                "a DataFrame."
            )
    return named
