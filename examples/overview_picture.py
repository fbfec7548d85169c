"""Draw docs/images/overview.png: class probabilities over a plane, and whether they come true.

Two half moons that overlap: 150 training rows, 20,000 test rows. The right panel compares the probabilities of gpclass with
those of a random forest and of gradient boosting with default settings, fitted to the same rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from gpclass import GPClassifier

HERE = Path(__file__).parent
FILE = HERE.parent / "docs" / "images" / "overview.png"
NOISE = 0.35
COLOURS = {"gpclass": "#c23b22", "random forest": "#6a8caf", "gradient boosting": "#b8a44c"}


def fitted(rows: int) -> tuple[dict, np.ndarray, np.ndarray]:
    """Return classifiers by name, fitted to the same rows, and these rows with their labels."""
    X, y = make_moons(rows, noise=NOISE, random_state=3)
    models = {
        "gpclass": GPClassifier(),
        "random forest": RandomForestClassifier(300, random_state=0),
        "gradient boosting": HistGradientBoostingClassifier(random_state=0),
    }
    return {name: model.fit(X, y) for name, model in models.items()}, X, y


def reliability(y, p, n_bins: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean probability and the share of ones in bins of equal width that have at least 50 rows."""
    bins = np.minimum((p * n_bins).astype(int), n_bins - 1)
    full = [b for b in range(n_bins) if np.sum(bins == b) >= 50]
    return np.array([p[bins == b].mean() for b in full]), np.array([y[bins == b].mean() for b in full])


def draw_map(ax, model, X, y) -> None:
    """Draw the probability of class 1 as colours, with its contours and the training rows."""
    low, high = X.min(0) - 0.4, X.max(0) + 0.4
    across, up = np.linspace(low[0], high[0], 140), np.linspace(low[1], high[1], 110)
    grid = np.stack(np.meshgrid(across, up), axis=-1)
    p = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(grid.shape[:2])
    ax.contourf(across, up, p, levels=np.linspace(0, 1, 21), cmap="RdBu_r", alpha=0.75)
    lines = ax.contour(across, up, p, levels=[0.1, 0.5, 0.9], colors="#333333", linewidths=[0.8, 1.6, 0.8])
    ax.clabel(lines, fmt="%.1f", fontsize=9)
    for label, colour in ((0, "#2f5d8c"), (1, "#a3261c")):
        ax.plot(*X[y == label].T, "o", ms=4.5, color=colour, mec="w", mew=0.7)
    ax.set(title="150 rows: the probability at every point", xticks=[], yticks=[])


def draw_reliability(ax, models) -> None:
    """Draw shares that came true against predicted probabilities."""
    from gpclass.assess import expected_calibration_error

    X, y = make_moons(20_000, noise=NOISE, random_state=4)
    ax.plot([0, 1], [0, 1], color="0.75", lw=1.2)
    for name, model in reversed(models.items()):
        p = model.predict_proba(X)[:, 1]
        own = name == "gpclass"
        label = f"{name}: calibration error {expected_calibration_error(y, p):.3f}"
        ax.plot(*reliability(y, p), "o-", color=COLOURS[name], lw=2.4 if own else 1.4, ms=6 if own else 4, label=label)
    ax.set(title="20,000 new rows: do they come true?", xlabel="predicted probability", ylabel="share that came true")
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    ax.legend(frameon=False, fontsize=9.5, loc="lower right", reverse=True)
    ax.spines[["top", "right"]].set_visible(False)


def draw(file: Path, rows: int = 150) -> None:
    """Draw the picture to a file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    models, X, y = fitted(rows)
    fig, (left, right) = plt.subplots(1, 2, figsize=(10.4, 3.9), layout="constrained", width_ratios=(1.15, 1))
    draw_map(left, models["gpclass"], X, y)
    draw_reliability(right, models)
    file.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(file, dpi=110, facecolor="white", pil_kwargs={"optimize": True})
    plt.close(fig)


def main(arguments=None) -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=FILE, help="file to write (default: docs/images/overview.png)")
    parser.add_argument("--rows", type=int, default=150, help="training rows (default: 150)")
    args = parser.parse_args(arguments)
    draw(args.out, args.rows)
    print(f"{args.out}: {args.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
