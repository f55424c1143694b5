"""Train on a credit table, calibrate, compare, and draw the reliability diagram.

python examples/quickstart.py [picture.png]
"""

import sys

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from skcal import CalibratedClassifier, NeSCalMLP, ReliabilityDisplay
from skcal.datasets import load_credit
from skcal.metrics import log_loss


def main(picture: str = "reliability.png") -> None:
    X, y = load_credit(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=0
    )
    boosting = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    models = {
        "boosting": boosting,
        "boosting, temperature": CalibratedClassifier(boosting, "temperature"),
        "NeSCalMLP, temperature": CalibratedClassifier(NeSCalMLP(random_state=0)),
    }
    _, axes = plt.subplots(figsize=(6, 7))
    for name, model in models.items():
        model.fit(X_train, y_train)
        print(f"{name:<24} NLL {log_loss(y_test, model.predict_proba(X_test)):.4f}")
        display = ReliabilityDisplay.from_estimator(model, X_test, y_test, name=name, ax=axes)
    display.figure_.savefig(picture, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
