"""Engines that do not see every pair of data: inducing points and active sets."""
