"""How often the tests of calibration reject at the 5 % level.

    python benchmarks/calibration_tests.py --factors 1
    python benchmarks/calibration_tests.py --factors 1.2 1.5 --repeats 500

Labels are drawn from known probabilities. The test sees those whose logits were multiplied by
a factor: 1 is perfect calibration, where 5 % should be rejected; more is over-confidence,
where as many as possible should. "uneven" has classes of unequal shares; there and with scale
4 many probabilities are near 0 or 1.
"""

import argparse
from functools import partial

import numpy as np

from skcal.datasets import make_calibration_data
from skcal.metrics import hosmer_lemeshow_test, ks_test, resampling_test, spiegelhalter_test

POOL = 200_000
TESTS = {
    "Spiegelhalter": spiegelhalter_test,
    "Hosmer-Lemeshow": hosmer_lemeshow_test,
    "HL, class-wise": partial(hosmer_lemeshow_test, kind="class-wise"),
    "KS": ks_test,
    "KS, class-wise": partial(ks_test, kind="class-wise"),
    "resampled ECE": partial(resampling_test, n_resamples=200),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0, 1.2, 1.5])
    args = parser.parse_args()
    print(f"{'factor':>6}{'K':>3}{'rows':>6}  {'data':<8}", *(f"{name:>16}" for name in TESTS))
    for factor in args.factors:
        for k in (2, 4):
            for data, scale, shares in (
                ("even", 2.0, None),
                ("uneven", 2.0, [0.9, 0.1] if k == 2 else [0.7, 0.2, 0.07, 0.03]),
                ("scale 4", 4.0, None),
            ):
                *_, pool = make_calibration_data(
                    POOL, n_classes=k, scale=scale, class_weights=shares, random_state=1
                )
                for n in (500, 2000):
                    rejected = np.zeros(len(TESTS))
                    for repeat in range(args.repeats):
                        rng = np.random.default_rng(repeat)
                        p = pool[rng.integers(POOL, size=n)]
                        y = (rng.random(n)[:, None] >= np.cumsum(p[:, :-1], axis=1)).sum(axis=1)
                        q = p**factor
                        q /= q.sum(axis=1, keepdims=True)
                        for i, test in enumerate(TESTS.values()):
                            chance = {"random_state": repeat} if "resampled" in [*TESTS][i] else {}
                            rejected[i] += test(y, q, labels=range(k), **chance).p_value <= 0.05
                    share = 100 * rejected / args.repeats
                    print(
                        f"{factor:>6}{k:>3}{n:>6}  {data:<8}",
                        *(f"{value:>14.1f} %" for value in share),
                        flush=True,
                    )


if __name__ == "__main__":
    main()
