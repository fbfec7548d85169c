"""Kernels written as text: `parse_kernel("rbf-ard + linear", n_columns=4)`.

    expression = term + term + …      term = factor * factor * …      factor = kernel, or ( expression )
    kernel = name, or name(setting=number, setting=[number, …], …)

Names are short names of kernels; "-ard" means one lengthscale per column. "precomputed" is a matrix given instead of inputs.
Settings replace starting values: "rbf(lengthscale=1.5, variance=4)". The text is parsed, never evaluated as Python.
Starting values suit standardised columns: lengthscales equal to the typical distance between rows, and a given variance.
In a product only the variance of the first factor is free, since only the product of the variances has an effect.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .kernels import (
    RBF,
    Categorical,
    Constant,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    Tanimoto,
    White,
)
from .spelling import closest

KERNELS: dict[str, Any] = {
    "rbf": RBF,
    "matern32": Matern32,
    "matern52": Matern52,
    "rational-quadratic": RationalQuadratic,
    "periodic": Periodic,
    "linear": Linear,
    "polynomial": Polynomial,
    "neural-network": NeuralNetwork,
    "tanimoto": Tanimoto,
    "categorical": Categorical,
    "precomputed": Precomputed,
    "constant": Constant,
    "white": White,
}
# of estimators whose kernel is None, up to this number of columns, and for more
DEFAULT_KERNEL, MOST_COLUMNS, DEFAULT_OF_MANY = "matern32-ard", 100, "matern32"
LONGEST_EXPRESSION, DEEPEST = 20_000, 30  # largest number of characters, and of nested parentheses
VARIANCE = 4.0  # latent values of about ±2, a good starting point for learning
NUMBER = r"\d+\.?\d*(?:[eE][+-]?\d+)?"
# a name with its settings is one token: the text in its parentheses is not an expression
TOKEN = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*(?:\s*\(\s*[A-Za-z]+\s*=[^()]*\))?|[+*()])")
SETTING = re.compile(rf"\s*([A-Za-z]+)\s*=\s*({NUMBER}|\[\s*{NUMBER}(?:\s*,\s*{NUMBER})*\s*,?\s*\])\s*(?:,|$)")
SIGNIFICANT_DIGITS = 6  # significant digits of settings in `written`


def kernel_names() -> list[str]:
    """Return all kernel names that expressions may use."""
    return [name + suffix for name in KERNELS for suffix in (("", "-ard") if _may_be_ard(name) else ("",))]


def default_kernel(n_columns: int) -> str:
    """Return the expression of the default kernel: one lengthscale per column, or one for all if there are many columns."""
    return DEFAULT_KERNEL if n_columns <= MOST_COLUMNS else DEFAULT_OF_MANY


def parse_kernel(text: str, n_columns: int, distance: float | None = None, variance: float = VARIANCE) -> Kernel:
    """Return the kernel that an expression describes.

    Parameters
    ----------
    text : str
        Sums and products of kernel names, such as "rbf-ard + linear", with or without settings: "rbf(lengthscale=1.5)".
    n_columns : int
        Number of input columns.
    distance : float, optional
        Typical distance between rows, the starting value of lengthscales. By default that of standardised columns.
    variance : float, default=4.0
        Starting value of the prior variance of each term. The default suits classification.

    Returns
    -------
    Kernel
        The kernel with its starting values.

    Raises
    ------
    ValueError
        If the expression is not valid.
    """
    if len(text) > LONGEST_EXPRESSION:
        raise ValueError(f"a kernel expression may have at most {LONGEST_EXPRESSION} characters; got {len(text)}")
    parser = _Parser(_tokens(text), n_columns, distance or float(np.sqrt(2 * n_columns)), variance)
    try:
        kernel = parser.sum(0)
    except TypeError as error:  # terms that take different inputs
        raise ValueError(f"the kernel expression {text!r} is not valid: {error}") from error
    if parser.rest:
        raise ValueError(f"the kernel expression should end before {parser.rest[0]!r}")
    return kernel


def split_settings(token: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of a kernel such as "rbf(lengthscale=2)"."""
    name, _, inside = token.partition("(")
    settings: dict[str, Any] = {}
    rest = inside.removesuffix(")")
    while rest.strip():
        match = SETTING.match(rest)
        if not match:
            raise ValueError(
                f"settings of {name.strip()!r} are numbers such as lengthscale=1.5, or lists of numbers in brackets; "
                f"{rest.strip()[:20]!r} is none of these"
            )
        if match[1] in settings:
            raise ValueError(f"{name.strip()!r} has {match[1]!r} twice")
        settings[match[1]] = _numbers(match[2])
        rest = rest[match.end() :]
    return name.strip(), settings


def _numbers(text: str) -> Any:
    if text.startswith("["):
        return [float(number) for number in text[1:-1].split(",") if number.strip()]
    return int(text) if text.isdigit() else float(text)


def written(text: str, kernel: Kernel) -> str:
    """Return an expression for a kernel that was made from one, with the values of its settings.

    Parameters
    ----------
    text : str
        The expression that the kernel was made from.
    kernel : Kernel
        The kernel, with other values.

    Returns
    -------
    str
        Each value has `SIGNIFICANT_DIGITS` significant digits. See `rounded` for the kernel that it describes.
    """
    leaves = iter(kernel.leaves)
    parts = [t if t in "+*()" else _leaf_text(split_settings(t)[0], next(leaves)) for t in _tokens(text)]
    return " ".join(parts).replace("( ", "(").replace(" )", ")")


def _leaf_text(name: str, leaf: Kernel) -> str:
    values = {key: _digits(value) for key, value in leaf.settings().items() if not isinstance(value, bool)}
    return f"{name}({', '.join(f'{key}={value}' for key, value in values.items())})" if values else name


def _digits(value: Any) -> str:
    if np.ndim(value):
        return f"[{', '.join(map(_digits, value))}]"
    return str(value) if isinstance(value, int) else f"{value:.{SIGNIFICANT_DIGITS}g}"


def rounded(kernel: Kernel) -> Kernel:
    """Return the kernel with the values that `written` shows."""
    found = {name: value for name, value in kernel.settings().items() if not isinstance(value, (bool, int))}
    return kernel.with_settings(**{name: _rounded(value) for name, value in found.items()})


def _rounded(value: Any) -> Any:
    return [float(_digits(one)) for one in value] if np.ndim(value) else float(_digits(value))


def _tokens(text: str) -> list[str]:
    tokens, end = [], 0
    while text[end:].strip():
        match = TOKEN.match(text, end)
        if not match:
            near = f". Did you mean {text.replace('_', '-')!r}?" if text[end:].startswith("_") else ""
            raise ValueError(
                "a kernel expression has names, +, * and parentheses, such as 'rbf-ard + linear'; "
                f"{text[end:].strip()[:20]!r} is none of these{near}"
            )
        tokens.append(match[1])
        end = match.end()
    return tokens


class _Parser:
    """A recursive-descent parser with one method per rule of the grammar above."""

    def __init__(self, tokens: list[str], n_columns: int, distance: float, variance: float) -> None:
        self.rest, self.n_columns, self.distance, self.variance = tokens, n_columns, distance, variance

    def sum(self, depth: int) -> Kernel:
        total = self.product(depth)
        while self._take("+"):
            total = total + self.product(depth)
        return total

    def product(self, depth: int) -> Kernel:
        total = self.factor(depth, first=True)
        while self._take("*"):
            factor = self.factor(depth, first=False)
            total = total * (factor.fix("variance") if type(factor) in KERNELS.values() else factor)
        return total

    def factor(self, depth: int, first: bool) -> Kernel:
        if self._take("("):
            if depth >= DEEPEST:
                raise ValueError(f"a kernel expression may have at most {DEEPEST} nested parentheses")
            inside = self.sum(depth + 1)
            if not self._take(")"):
                raise ValueError("a parenthesis of the kernel expression is not closed")
            return inside
        if not self.rest or self.rest[0] in "+*)":
            found = f"has {self.rest[0]!r}" if self.rest else "ends"
            raise ValueError(f"the kernel expression {found} where a kernel is expected, such as 'rbf' or 'linear'")
        name, settings = split_settings(self.rest.pop(0).lower())
        leaf = self._leaf(name, first)
        if "ard" in settings:
            raise ValueError(f"one lengthscale per column is written {name.removesuffix('-ard')}-ard, without ard=")
        return leaf.with_settings(**settings) if settings else leaf

    def _take(self, symbol: str) -> bool:
        found = self.rest[:1] == [symbol]
        if found:
            self.rest.pop(0)
        return found

    def _leaf(self, name: str, first: bool) -> Kernel:
        short = name.removesuffix("-ard")
        if short not in KERNELS or (name != short and not _may_be_ard(short)):
            known = kernel_names()
            near = closest(name, known)
            hint = "." if near is None else f"; did you mean {near!r}?"
            raise ValueError(f"there is no kernel {name!r}{hint} There are: {', '.join(known)}")
        D, distance, variance = self.n_columns, self.distance, self.variance if first else 1.0
        match short:
            case "constant":
                return Constant(variance=min(variance, 1.0))
            case "precomputed":
                return Precomputed()  # the matrix as it is
            case "tanimoto":
                return Tanimoto(variance)
            case "categorical":  # half of the columns differ, or fewer
                half = max(1.0, 0.5 * D)
                return Categorical([half] * D if name != short else half, variance)
            case "white":
                return White(variance=0.1 if first else 1.0)
            case "linear":  # x·x is near D
                scale: Any = float(np.sqrt(D))
                return Linear([scale] * D, variance) if name != short else Linear(1.0, variance / D)
            case "polynomial":
                scale = float(np.sqrt(D))
                return Polynomial(lengthscale=[scale] * D if name != short else scale, variance=min(variance, 1.0))
            case "periodic":
                return Periodic(lengthscale=[1.0] * D if name != short else 1.0, period=distance, variance=variance)
            case _:
                return KERNELS[short](lengthscale=[distance] * D if name != short else distance, variance=variance)


def _may_be_ard(name: str) -> bool:
    lengthscale = KERNELS[name].lengthscale
    return lengthscale is not None and lengthscale.may_be_vector
