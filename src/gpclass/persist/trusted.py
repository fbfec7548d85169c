"""Names of the classes in pickles and skops files of our estimators."""

from __future__ import annotations

from ..engines.inducing.step import State
from ..engines.inducing.sweep import InducingFit
from ..engines.iterate import Status
from ..engines.observations import Data
from ..gaussian.low_rank import LowRankPosterior, LowRankPrior
from ..gaussian.low_rank_contrasts import ContrastLowRankPosterior, ContrastLowRankPrior
from ..gaussian.low_rank_coupled import InducingPosterior
from ..gaussian.sites import Places
from ..learning.adam import Adam
from ..learning.site_store import SiteStore
from ..learning.trainer import Trainer
from .registry import FURTHER, classes

# parts of posteriors that are stored as they are: those with inducing inputs, and their training on minibatches
INDUCING = (
    Adam, ContrastLowRankPosterior, ContrastLowRankPrior, Data, InducingFit, InducingPosterior, LowRankPosterior,
    LowRankPrior, Places, SiteStore, State, Status, Trainer,
)  # fmt: skip


def trusted_types() -> list[str]:
    """Return the names of all classes of gpclass that a skops file of a fitted estimator may contain.

    Objects of these classes hold data; none of them runs code when it is created. Samplers and their draws are left out. The
    function of a `FunctionKernel` is not in the list either.

    Returns
    -------
    list of str
        For the argument `trusted` of `skops.io.load`. Registered classes of other packages are included.

    Examples
    --------
    >>> from gpclass.persist import trusted_types
    >>> "gpclass.estimator.GPClassifier" in trusted_types()
    True
    """
    known = {*classes(), *INDUCING} - set(FURTHER["sampler"]) - set(FURTHER["sklearn_kernel"])
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in known}
    return sorted(name for name in names if not name.startswith("sklearn."))
