"""Tables of figures with a verdict, which audits return, and grades of errors of class probabilities."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod

GOOD, FAIR = 0.02, 0.05  # largest errors of a class probability for these grades
DOUBTFUL = "do not trust class probabilities"

Figure = tuple[str, float | None, float | None, str]  # quantity, value, sampling error, remark


class Figures(ABC):
    """A table of figures with a verdict."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """What was audited, in words."""

    @property
    @abstractmethod
    def verdict(self) -> str:
        """The conclusion in one sentence."""

    @abstractmethod
    def rows(self) -> list[Figure]:
        """Return tuples (quantity, value, sampling error, remark), as shown by `to_frame` and `print`."""

    def to_frame(self):
        """Return the results as a pandas DataFrame with one row per quantity."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=["quantity", "value", "error", "remark"]).set_index("quantity")

    @property
    def table(self):
        """The results as a pandas DataFrame; see `to_frame`."""
        return self.to_frame()

    @property
    def _headline(self) -> str:
        return f"Audit of {self.subject}: {self.verdict}."

    def _repr_html_(self) -> str:
        table = self.to_frame().to_html(float_format="{:.4g}".format, na_rep="–")
        return f"<p>{html.escape(self._headline)}</p>\n{table}"

    def __repr__(self) -> str:
        lines = [self._headline]
        for quantity, value, error, remark in self.rows():
            shown = "–" if value is None else f"{value:.4g}" if abs(value) < 100 else f"{value:.2f}"
            spread = "" if error is None or value is None else f" ± {error:.2g}"
            lines.append(f"  {quantity:<28}{shown + spread:<22}{remark}".rstrip())
        return "\n".join(lines)


def grade(worst: float, noise: float = 0.0) -> str:
    """Return a judgement of class probabilities whose errors are at most `worst`, up to the noise of the reference."""
    if worst <= GOOD + 2 * noise:
        return "class probabilities can be trusted"
    if worst <= FAIR + 2 * noise:
        return "class probabilities have errors of a few percent in places"
    return DOUBTFUL
