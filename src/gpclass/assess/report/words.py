"""Numbers as a reader wants them."""

from __future__ import annotations

import numpy as np


def number(value: float, digits: int = 3) -> str:
    """A number for a table: a dash where there is none."""
    if np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    plain = abs(value) < 1e5 and (value == 0 or abs(value) >= 10**-digits)
    return (f"{value:.{digits}f}" if plain else f"{value:.2e}").replace("-", "−")


def percent(value: float) -> str:
    """A probability in per cent, never rounded to what it is not: 100 % is certain, 0 % impossible.

    The space does not break.
    """
    if np.isnan(value):
        return "–"
    if 0 < value < 0.0005:
        return "<0.1\u00a0%"
    if 0.9995 <= value < 1:
        return ">99.9\u00a0%"
    return f"{100 * value:.0f}\u00a0%" if value in (0, 1) else f"{100 * value:.1f}\u00a0%"
