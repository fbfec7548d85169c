"""Scores as a table that explains itself."""

from __future__ import annotations

from typing import Any

import pandas as pd

ABOUT = {
    "error_rate": ("smaller", "share of rows whose most probable class is wrong"),
    "nlpd": ("smaller", "mean negative log probability of the true class, in nats"),
    "brier": ("smaller", "mean squared error of the class probabilities, from 0 to 2"),
    "expected_calibration_error": ("smaller", "mean gap between confidence and accuracy, from 0 to 1"),
    "information_score": ("larger", "bits per row gained over always predicting the class frequencies"),
    "ranked_probability_score": ("smaller", "squared error of the cumulative probabilities of ordered classes"),
}


class Scores(pd.Series):
    """Scores of predictions: a pandas Series of numbers by name, shown with an explanation of each score.

    Arithmetic and selections give ordinary Series.
    """

    def __init__(self, data: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(data, *args, **{"dtype": float, "name": "score", **kwargs})

    @property
    def _constructor(self) -> Any:
        return pd.Series

    @property
    def table(self) -> pd.DataFrame:
        """The scores as a DataFrame with the columns "value", "better" and "about"."""
        better, about = zip(*(ABOUT.get(name, ("", "")) for name in self.index), strict=True) if len(self) else ((), ())
        return pd.DataFrame({"value": self.to_numpy(), "better": better, "about": about}, index=self.index)

    def __repr__(self) -> str:
        width = max((len(name) for name in self.index), default=0)
        lines = [
            f"{name:<{width}}  {value:>8.4f}  {f'({better} is better)' * bool(better):<19}  {about}".rstrip()
            for name, value, better, about in self.table.itertuples()
        ]
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return self.table.to_html(float_format="{:.4f}".format)
