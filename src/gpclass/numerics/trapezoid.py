"""Trapezoid rules for softmax of values that move along a Gaussian variable."""

from __future__ import annotations

import numpy as np

REACH = 5.8  # standard deviations that a rule covers on either side of its centre
# Softmax along a line is analytic within π / sharpness: this step over the sharpness is off by exp(-2π²/2.2) = 1e-4 of the
# value, of either sign from line to line; a step of one is off by exp(-2π²) of the Gaussian. The smaller step, for few
# lines, is off by 1e-5
STEP, SMALL_STEP = 2.2, 1.7
LEAST_NODES, MOST_NODES = 13, 2049  # values too sharp for the most switch between two nodes: averages out over the lines
FACTORED, SINGLE = 513, 91  # nodes up to which exponentials of sums are taken apart without overflow; in single precision


def node_count(sharpness: np.ndarray, step: float = STEP) -> np.ndarray:
    """Nodes for values that move away from each other at the rate `sharpness`; few different numbers."""
    return rounded_up(2 * REACH * sharpness / step)


def rounded_up(count: np.ndarray) -> np.ndarray:
    """Numbers of nodes above `count`, few different ones."""
    half_octaves = np.ceil(2 * np.log2(np.clip(count, LEAST_NODES - 1, MOST_NODES - 1) / (LEAST_NODES - 1)) - 1e-9)
    return 1 + np.ceil((LEAST_NODES - 1) * 2 ** (0.5 * half_octaves)).astype(int)


def nodes(count: int) -> np.ndarray:
    """(count,) nodes of the rule; a single one stands at zero."""
    return (np.arange(count) - 0.5 * (count - 1)) * (2 * REACH / max(count - 1, 1))
