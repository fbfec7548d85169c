"""Numbers as text for the report."""

from __future__ import annotations

import numpy as np


def number(value: float, digits: int = 3) -> str:
    """Return a number as text for a table; NaN is a dash."""
    if np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    plain = abs(value) < 1e5 and (value == 0 or abs(value) >= 10**-digits)
    return (f"{value:.{digits}f}" if plain else f"{value:.2e}").replace("-", "−")


def percent(value: float) -> str:
    """Return a probability in per cent. Only 1 gives "100 %" and only 0 gives "0 %"; the space is non-breaking."""
    if np.isnan(value):
        return "–"
    if 0 < value < 0.0005:
        return "<0.1\u00a0%"
    if 0.9995 <= value < 1:
        return ">99.9\u00a0%"
    return f"{100 * value:.0f}\u00a0%" if value in (0, 1) else f"{100 * value:.1f}\u00a0%"
