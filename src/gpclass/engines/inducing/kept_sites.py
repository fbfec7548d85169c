"""EP on inducing variables whose rows keep their own sites between minibatches: the sum of all sites after each step."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from .engine import LowRankEngine, Message
from .step import Broadcast, RowSites, State, Sums

# smallest fraction of a marginal's precision that a cavity keeps. Exact sweeps need it only against rounding. On minibatches
# a site was computed under earlier hyperparameters and can be stronger than the posterior that includes it
MIN_KEPT, MIN_KEPT_LOOSE = 1e-10, 1e-2
MAX_MOVE = 0.2  # of hyperparameters, times minibatches per pass, for which single old sites are removed
LARGE_MINIBATCH = 0.25  # fraction of all rows above which full steps could cycle
LARGE_MINIBATCH_PART = 0.5  # largest fraction of a step for such minibatches


class KeptSites(LowRankEngine):
    """Base class of engines that match moments row by row and keep the rows' sites."""

    keeps_rows: ClassVar = True
    tempers: ClassVar = True

    def moved_sites(self, broadcast: Broadcast, message: Message, sites: RowSites) -> RowSites:
        part = step_part(self.damping, broadcast.rows, broadcast.n_total)
        return {name: sites[name] + part * (fresh - sites[name]) for name, fresh in message.sites.items()}

    def takes_out(self, broadcast: Broadcast) -> bool:
        """Return True after the first pass, while hyperparameters are fixed."""
        state, n_total = broadcast.state, broadcast.n_total
        last = state.passed + broadcast.rows >= n_total
        return state.seen >= n_total and not last and state.age * n_total <= MAX_MOVE * broadcast.size

    def absorb(self, broadcast: Broadcast, sums: Sums) -> State:
        """Replace old sites by new ones and return the state.

        In the first pass the sum over the rows seen is scaled up to all rows, unless the likelihood is not log-concave: then
        a few rows would make the posterior too narrow.

        P and h are the sums over this pass's sites and over the remaining sites of the last pass. While hyperparameters are
        fixed, the old site of each row is subtracted: this is EP, for any number of minibatches per pass. If they change,
        the old site is no longer known in the form in which it was added. Subtracting its current form leaves an error of
        either sign, of relative size `state.age` in the whole sum. At the end of a pass only one minibatch of the old sum
        remains, so the error would make searches diverge. Since rows come in random order, the remaining sum is instead
        reduced in proportion to its rows.

        At the end of a pass P and h are recomputed as the sums over its sites, so rounding does not accumulate over passes.
        """
        state, n_total = broadcast.before, broadcast.n_total
        P, h = state.fresh_P + sums.P, state.fresh_h + sums.h
        passed, seen = state.passed + sums.rows, state.seen + sums.rows
        if passed >= n_total:
            done = replace(state, P=P, h=h, passed=0, seen=seen, moved=0.0, moved_before=state.moved)
            return replace(done, fresh_P=np.zeros_like(P), fresh_h=np.zeros_like(h))
        now = replace(state, fresh_P=P, fresh_h=h, passed=passed, seen=seen)
        if state.seen < n_total:
            scale = n_total / passed if broadcast.likelihood.log_concave else 1.0
            return replace(now, P=scale * P, h=scale * h)
        if self.takes_out(broadcast):
            return replace(now, P=state.P + sums.P - sums.old_P, h=state.h + sums.h - sums.old_h)
        left = (n_total - passed) / (n_total - state.passed)
        return replace(now, P=P + left * (state.P - state.fresh_P), h=h + left * (state.h - state.fresh_h))


def step_part(damping: float, m: int, n_total: int) -> float:
    """Return the fraction of the step that m rows take together in training, where no sweep checks the last step."""
    return min(damping, LARGE_MINIBATCH_PART) if m > LARGE_MINIBATCH * n_total else damping
