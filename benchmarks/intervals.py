"""How often intervals at 95 % hold the truth, and how long they are.

    python benchmarks/intervals.py

Rows are drawn from a pool of 400,000 whose metric is the truth. Logits are stretched by the
factor; a factor of 1 is perfect calibration.
"""

import argparse
from functools import partial

import numpy as np

from skcal.datasets import make_calibration_data
from skcal.metrics import (
    expected_calibration_error,
    metric_difference,
    metric_interval,
    skill_score,
    squared_kernel_calibration_error,
)
from skcal.metrics._scores.by_name import find_metric

POOL = 400_000


def stretch(proba: np.ndarray, factor: float) -> np.ndarray:
    raised = proba**factor
    return raised / raised.sum(axis=1, keepdims=True)


def auc(y, proba, *, sample_weight, labels):
    """Return the area under the ROC curve, without ties; scikit-learn's is slower."""
    order = np.argsort(proba[:, 1])
    w, event = sample_weight[order], y[order] == 1
    below = np.cumsum(w * ~event)
    return float((w * event) @ below / ((w @ event) * below[-1]))


def kernel(y, proba, *, sample_weight, labels):
    return squared_kernel_calibration_error(y, proba, sample_weight=sample_weight, labels=labels)


# Without bias, since the bins' own noise is taken off.
squared_error = partial(expected_calibration_error, norm="l2", debias=True, squared=True)

# metric, classes, shares of the classes, rows, factor, options, repetitions
CASES = [
    *(
        (metric, k, shares, n, 1.0, options, 2000)
        for metric in ("log_loss", "brier", "accuracy")
        for k, shares, n in ((2, None, 200), (4, None, 500), (2, [0.9, 0.1], 300))
        for options in ({}, {"method": "bootstrap"}, {"stratify": True})
    ),
    *(("log_loss", 2, [0.9, 0.1], n, 1.0, {}, 2000) for n in (100, 1000)),
    ("rps", 4, None, 300, 1.0, {}, 2000),
    *(("ece", k, None, 1000, f, {}, 300) for k in (2, 4) for f in (1.0, 1.2, 1.5, 2.0)),
    *((squared_error, k, None, 1000, f, {}, 500) for k in (2, 4) for f in (1.2, 1.5)),
    (partial(skill_score, score="log_loss"), 2, None, 300, 1.0, {}, 300),
    (kernel, 2, None, 300, 1.5, {}, 200),
    (auc, 2, [0.8, 0.2], 300, 1.0, {}, 500),
]
PAIRS = [
    (metric, k, shares, n, options, repeats)
    for metric, repeats in (
        ("log_loss", 2000),
        ("brier", 2000),
        ("accuracy", 2000),
        ("ece", 300),
        (squared_error, 300),
    )
    for k, shares, n in ((2, None, 300), (4, None, 500), (2, [0.9, 0.1], 300))
    for options in ({}, {"method": "bootstrap"})
    if (isinstance(metric, str) and metric != "ece") or options
]


def pool(k, shares):
    _, y, p = make_calibration_data(POOL, n_classes=k, class_weights=shares, random_state=1)
    return y, p


def value_of(metric, y, p, k):
    """Return the truth; of the kernel's, which has no bias and takes all pairs, the mean."""
    parts = np.split(np.arange(POOL), 400)[:200] if metric is kernel else [np.arange(POOL)]
    classes = np.arange(k)
    values = [find_metric(metric)(y[i], p[i], np.ones(len(i)), classes) for i in parts]
    return float(np.mean(values))


def show(what, truth, intervals):
    inside = np.mean([one.lower <= truth <= one.upper for one in intervals])
    width = np.mean([one.upper - one.lower for one in intervals])
    methods = sorted({one.method for one in intervals})
    print(
        f"{what:<78}{truth:>9.4f}{100 * inside:>7.1f} %{width:>9.4f}  {'/'.join(methods)}",
        flush=True,
    )


def name(metric):
    return (
        metric
        if isinstance(metric, str)
        else getattr(metric, "__name__", getattr(getattr(metric, "func", None), "__name__", "?"))
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="run what has this in its name")
    parser.add_argument("--resamples", type=int, default=500)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    for metric, k, shares, n, factor, options, repeats in CASES:
        if args.only not in name(metric):
            continue
        y, p = pool(k, shares)
        p = stretch(p, factor)
        truth = value_of(metric, y, p, k)
        found = []
        for repeat in range(repeats):
            rows = rng.integers(POOL, size=n)
            found.append(
                metric_interval(
                    metric,
                    y[rows],
                    p[rows],
                    labels=range(k),
                    n_resamples=args.resamples,
                    random_state=repeat,
                    **options,
                )
            )
        show(f"{name(metric)}, K={k}, {shares}, n={n}, factor {factor}, {options}", truth, found)
    for metric, k, shares, n, options, repeats in PAIRS:
        if args.only not in f"difference {name(metric)}":
            continue
        y, p = pool(k, shares)
        q = stretch(p * np.exp(np.linspace(0, 0.5, k)), 1.3)
        both = [value_of(metric, y, one, k) for one in (q, p)]
        found = []
        for repeat in range(repeats):
            rows = rng.integers(POOL, size=n)
            found.append(
                metric_difference(
                    metric,
                    y[rows],
                    q[rows],
                    p[rows],
                    labels=range(k),
                    n_resamples=args.resamples,
                    random_state=repeat,
                    **options,
                )
            )
        what = f"difference of {name(metric)}, K={k}, {shares}, n={n}, {options}"
        show(what, both[0] - both[1], found)


if __name__ == "__main__":
    main()
