"""Gumbel noise, with distribution function exp(-exp(-x)), as mixtures of normal distributions.

Softmax is the probability that a latent value plus Gumbel noise is the largest. With such a mixture the expectation of
softmax is the probability that one of several Gaussian values is the largest. Weights, means and variances are least-squares
fits to the distribution function and the density, with relative errors in the right tail up to x = 14 or 15. For wider
latent values fewer normal distributions suffice. For the sum of value and noise the error of the distribution function is at
most 1.2e-4, and the relative error of the probability to exceed any x ≤ 14 is at most 0.3 %.
"""

from __future__ import annotations

import numpy as np

from .nearly_independent import Mixture, Noise

GUMBEL_VARIANCE = np.pi**2 / 6
REACH_BELOW, REACH_ABOVE = 3.0, 14.0  # range of the noise; the probabilities beyond are 2e-9 and 8e-7
EQUIVALENT_SD = 1.0  # the trapezoid rule needs as many nodes as for a normal distribution of this standard deviation
# Standard deviation of contrasts from which the noise can be replaced by normal noise. For three classes the error of a
# probability is 1e-5 there, and 0.5 % of probabilities down to 1e-5; it falls with the cube of the standard deviation
WIDE_SD = 24.0
SMALLEST_PROBABILITY = 1e-6  # smaller ones are inaccurate: beyond x = 14 the mixtures fall too fast

MIXTURES = (
    Mixture(
        np.array(
            [0.0114251, 0.0915595, 0.228652, 0.29484, 0.227142, 0.107404, 0.0316916, 0.006371, 0.000858576, 5.57159e-05]
        ),
        np.array([-1.43704, -0.894795, -0.317745, 0.351215, 1.16988, 2.1902, 3.40258, 4.7329, 6.12399, 7.49114]),
        np.array([0.0966629, 0.145009, 0.216963, 0.333632, 0.534832, 0.898296, 1.54882, 2.66647, 4.60949, 8.57245]),
        least=0.0,
    ),
    Mixture(
        np.array([0.187406, 0.440304, 0.279811, 0.0782643, 0.0127871, 0.00135804, 6.98777e-05]),
        np.array([-0.725922, 0.188743, 1.30433, 2.62727, 4.04793, 5.45049, 6.65071]),
        np.array([0.212372, 0.392693, 0.77252, 1.53488, 2.90458, 5.27414, 9.98494]),
        least=0.7,
    ),
    Mixture(
        np.array([0.535835, 0.400628, 0.0594406, 0.00396796, 0.000128813]),
        np.array([-0.181598, 1.21718, 2.85188, 4.24783, 4.90631]),
        np.array([0.411883, 1.00865, 2.64593, 5.99337, 12.6399]),
        least=2.0,
    ),
    Mixture(
        np.array([0.83315, 0.163292, 0.00355829]),
        np.array([0.253887, 2.16162, 3.49991]),
        np.array([0.797342, 2.58266, 9.02169]),
        least=4.0,
    ),
    Mixture(
        np.array([0.919831, 0.0801686]),
        np.array([0.404664, 2.54956]),
        np.array([1.0558, 4.2056]),
        least=6.0,
    ),
    Mixture(np.ones(1), np.array([np.euler_gamma]), np.array([GUMBEL_VARIANCE]), least=WIDE_SD),
)
GUMBEL = Noise(MIXTURES, REACH_BELOW, REACH_ABOVE, EQUIVALENT_SD, smallest=SMALLEST_PROBABILITY)
