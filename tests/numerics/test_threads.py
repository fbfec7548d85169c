"""Limits of BLAS threads."""

import threading

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from gpclass import GPClassifier
from gpclass.kernels import RBF
from gpclass.numerics.threads import ENOUGH, one_thread, threads_for


def threads():
    return {part["num_threads"] for part in threadpool_info() if part["user_api"] == "blas"}


def test_the_limit_is_lifted_by_the_last_to_leave():
    with threadpool_limits(2, "blas"):
        before = threads()
        entered, leave = threading.Event(), threading.Event()

        def other():
            with one_thread():
                entered.set()
                leave.wait()

        worker = threading.Thread(target=other)
        with one_thread():
            worker.start()
            entered.wait()
            assert threads() == {1}
        assert threads() == {1}  # the other computation still runs
        leave.set()
        worker.join()
        assert threads() == before


def test_an_error_restores_the_limit():
    with threadpool_limits(2, "blas"):
        before = threads()
        try:
            with one_thread(), one_thread():
                raise KeyError
        except KeyError:
            pass
        assert threads() == before


def test_large_matrices_keep_their_threads():
    with threadpool_limits(2, "blas"):
        before = threads()
        with threads_for(ENOUGH):
            assert threads() == before


class Watched(RBF):
    """A kernel that notes the number of threads when it is evaluated."""

    seen: list = []  # noqa: RUF012

    def __call__(self, X, Z=None):
        Watched.seen.append(threads())
        return super().__call__(X, Z)


def test_fits_and_predictions_of_few_rows_use_one_thread():
    X = np.random.default_rng(0).normal(size=(120, 2))
    with threadpool_limits(2, "blas"):
        GPClassifier(Watched(1.0), optimizer=None).fit(X, X[:, 0] > 0).predict_proba(X)
    assert Watched.seen
    assert set().union(*Watched.seen) == {1}
