"""The bundled credit table: mixed columns, missing cells, two unequal classes."""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import Any

from sklearn.utils import Bunch

_TARGET = "Status"
# Level order is that of the factors in the source, which is alphabetical.
_LEVELS = {
    "Home": ["ignore", "other", "owner", "parents", "priv", "rent"],
    "Marital": ["divorced", "married", "separated", "single", "widow"],
    "Records": ["no", "yes"],
    "Job": ["fixed", "freelance", "others", "partime"],
}


def load_credit(*, as_frame: bool = True, return_X_y: bool = False) -> Any:
    """Load the credit table: loans that turned out good or bad.

    4,454 rows, 9 numeric and 4 categorical columns, classes "bad" (1,254 rows) and "good"
    (3,200 rows); 455 cells in 415 rows are missing. The table comes with the package and is
    read from disk at every call, so the result may be changed freely.

    Parameters
    ----------
    as_frame : bool, default=True
        Whether to return pandas objects, with the categories by name, or NumPy arrays, with
        the categories as codes.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    data : sklearn.utils.Bunch
        With these entries:

        data : DataFrame or ndarray of shape (4454, 13)
            As a frame: float64 columns, and pandas ``category`` columns (unordered, levels
            as in ``categories``) for the four categorical ones. As an array: float64, the
            numeric columns as they are and each category as its position 0, 1, ... in its
            list in ``categories``. A missing cell is NaN in all of them. Columns stand in
            the order of ``feature_names``, rows in the order of the source.
        target : Series or ndarray of shape (4454,)
            "bad" or "good", as strings. As a frame: a Series named "Status" of pandas' own
            type for strings (``object`` before pandas 3, ``str`` since). As an array: of
            type ``<U4``.
        frame : DataFrame of shape (4454, 14) or None
            ``data`` with ``target`` as its last column; None without ``as_frame``.
        feature_names : list of str
            The 13 column names.
        target_names : list of str
            ``["bad", "good"]``, in the order of a fitted classifier's ``classes_``.
        categorical_features : list of str
            Names of the categorical columns.
        categories : dict of str to list of str
            The levels of each categorical column, in the order of their codes.
        DESCR : str
            Meaning of the columns, source and licence.
        filename : str
            Path of the bundled file.

    (data, target) : tuple
        The first two entries, if ``return_X_y``.

    Notes
    -----
    The data are distributed under the MIT licence as ``credit_data`` in the R package
    modeldata; ``DESCR`` holds the whole story.

    References
    ----------
    M. Kuhn. modeldata: Data Sets Useful for Modeling Examples. R package, version 1.1.0, 2023.

    Examples
    --------
    >>> from skcal.datasets import load_credit
    >>> credit = load_credit()
    >>> credit.data.shape
    (4454, 13)
    >>> credit.categorical_features
    ['Home', 'Marital', 'Records', 'Job']
    >>> X, y = load_credit(as_frame=False, return_X_y=True)
    >>> X.dtype, float((y == "bad").mean().round(3))
    (dtype('float64'), 0.282)
    """
    import pandas as pd

    folder = files("skcal.datasets").joinpath("data")
    source = folder.joinpath("credit.csv.gz")
    with source.open("rb") as packed, gzip.open(packed, "rt", encoding="ascii") as text:
        # Only an empty field is missing: no word may turn into NaN by pandas' own list.
        frame = pd.read_csv(text, keep_default_na=False, na_values=[""])
    names = [name for name in frame.columns if name != _TARGET]
    kinds: dict[str, Any] = dict.fromkeys(names, "float64")
    kinds.update({name: pd.CategoricalDtype(levels) for name, levels in _LEVELS.items()})
    frame = frame.astype(kinds)

    # Copies, so that changing one entry of the bunch leaves the others alone.
    data, target = frame[names].copy(), frame[_TARGET].copy()
    if not as_frame:
        for name in _LEVELS:
            codes = data[name].cat.codes.astype("float64")
            # pandas marks a missing category with the code -1.
            data[name] = codes.where(codes >= 0)
        data, target = data.to_numpy(dtype="float64"), target.to_numpy(dtype="U4")
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame if as_frame else None,
        feature_names=names,
        target_names=["bad", "good"],
        categorical_features=list(_LEVELS),
        categories={name: list(levels) for name, levels in _LEVELS.items()},
        DESCR=folder.joinpath("credit.txt").read_text(encoding="utf-8"),
        filename=str(source),
    )
