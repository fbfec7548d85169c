"""Unusual collections and failing clusters: right results, or errors that name the cause."""

import asyncio
import gc
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass import GPClassifier
from gpclass.distributed import dask_crew, gathering
from gpclass.distributed import workers as cluster_workers
from gpclass.distributed.actors import tree_of
from gpclass.distributed.collections import parts_of
from gpclass.distributed.dask_crew import DaskCrew
from gpclass.distributed.outlines import Outline
from gpclass.distributed.partitions import load
from gpclass.kernels import RBF
from gpclass.learning import Arrays
from gpclass.learning.checkpoint import CheckpointError
from gpclass.learning.crew import CrewLost, LostRowsWarning, Partition, RowsLost
from gpclass.sparse import ScalableEP
from gpclass.tables import TableError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

rng = np.random.default_rng(5)
N = 400
X = rng.normal(size=(N, 2))
Y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=N) > 0).astype(int)
FRESH = rng.normal(size=(50, 2))
ENGINE = ScalableEP(search="minibatches", n_inducing=10, epochs=2, batch_size=50)


@pytest.fixture(scope="module")
def client(two_workers):
    with distributed.Client(two_workers) as client:
        yield client


class Workers:
    """A client of two workers, some of which are ended by tests."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        return getattr(self.client, name)

    def restored(self):
        """Wait for two workers; start another one if the nanny does not restart the last one soon."""
        try:
            self.client.wait_for_workers(2, timeout=5)
        except TimeoutError:
            self.client.cluster.scale(len(self.client.cluster.worker_spec) + 1)
            self.client.wait_for_workers(2, timeout=30)


@pytest.fixture
def workers(client, monkeypatch):
    monkeypatch.setattr(cluster_workers, "REPLACED", 0.2)  # seconds to wait for another worker in place of a lost one
    with client.as_current():
        yield Workers(client)


def arrays(x=X, y=Y):
    return da.from_array(x, (100, -1)), da.from_array(y, 100)


def classifier(**settings):
    return GPClassifier(**{"inference": ENGINE, "random_state": 0, **settings})


def end_first_worker(crew):
    """End the worker of the first actor at once."""
    worker = crew.holders[0].worker
    os.kill(crew.client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)


def before_call(monkeypatch, number, action):
    """Run `action(crew)` before a call of a crew."""
    summed, calls = DaskCrew.sum, []

    def sum_(self, *args, **kwargs):
        calls.append(self)
        if len(calls) == number:
            action(self)
        return summed(self, *args, **kwargs)

    monkeypatch.setattr(DaskCrew, "sum", sum_)


# collections --------------------------------------------------------------------------------------------------------------


def test_columns_of_the_same_name_are_refused():
    frame = pd.DataFrame(X, columns=["a", "a"])
    y = dd.from_pandas(pd.Series(Y), npartitions=2)
    with pytest.raises(TableError, match="X has two columns 'a'"):
        classifier().fit(dd.from_pandas(frame, npartitions=2), y)
    with pytest.raises(TableError, match="partition 0 has two columns '1'"):
        classifier().fit([dask.delayed((frame.set_axis([1, "1"], axis=1), Y))])
    plain = frame.set_axis(["a", "b"], axis=1)
    lying = dd.from_map(lambda i: plain if i == 0 else frame, range(2), meta=plain.head(0))
    with pytest.raises(TableError, match="partition 1 has two columns 'a'"):
        classifier().fit(lying, dd.from_map(lambda i: pd.Series(Y), range(2), meta=pd.Series([0])))


def test_numbers_as_names_of_columns_are_no_names():
    frame = pd.DataFrame(X)
    y = dd.from_pandas(pd.Series(Y), npartitions=2)
    for model in (classifier().fit(dd.from_pandas(frame, npartitions=2), y), classifier().fit([dask.delayed((frame, Y))])):
        assert not hasattr(model, "feature_names_in_")
        assert_array_equal(model.predict_proba(frame), model.predict_proba(X))


def test_complex_inputs_and_dates_as_labels_are_refused():
    with pytest.raises(ValueError, match=r"partition \d: X has complex numbers"):
        classifier().fit(*arrays(X + 1j))
    with pytest.raises(ValueError, match="complex numbers"):
        classifier().fit([(X + 1j, Y)])
    days = np.array(["2020-01-01", "2021-01-01"], "datetime64[ns]")[Y]
    with pytest.raises(ValueError, match=r"partition \d: labels are of type datetime64\[ns\]; use numbers"):
        classifier().fit(*arrays(X, days))


def test_delayed_pairs_keep_the_order_of_a_categorical():
    names = pd.Series(pd.Categorical(Y, categories=[1, 0, 2], ordered=True))
    halves = [dask.delayed((X[s], names[s])) for s in (slice(0, 200), slice(200, None))]
    assert classifier().fit(halves).classes_.tolist() == [1, 0]
    other = dask.delayed((X[200:], names[200:].cat.reorder_categories([0, 1, 2])))
    with pytest.raises(ValueError, match=r"ordered categories of y are \[0, 1, 2\] in partition 1, but \[1, 0, 2\]"):
        classifier().fit([halves[0], other])


def test_weights_are_given_for_all_partitions_or_none():
    halves = [dask.delayed((X[:200], Y[:200], np.ones(200))), dask.delayed((X[200:], Y[200:]))]
    with pytest.raises(ValueError, match="partition 0 has weights, but partition 1 has none; pass weights for all rows"):
        classifier().fit(halves)
    with pytest.raises(ValueError, match="partition 1 has weights, but partition 0 has none"):
        classifier().fit(halves[::-1])


def test_balanced_classes_have_the_same_weight_including_that_of_the_rows():
    weight = np.where(Y == 1, 3.0, 1.0) + (np.arange(N) % 3)
    by_class = np.bincount(Y, weight)
    asked = {k: weight.sum() / (2 * by_class[k]) for k in (0, 1)}
    data = (*arrays(), da.from_array(weight, 100))
    balanced = classifier(class_weight="balanced").fit(*data).predict_proba(FRESH)
    assert_array_equal(balanced, classifier(class_weight=asked).fit(*data).predict_proba(FRESH))
    stream = Arrays(X, Y, weight=weight)
    balanced = classifier(class_weight="balanced").fit(stream).predict_proba(FRESH)
    assert_array_equal(balanced, classifier(class_weight=asked).fit(stream).predict_proba(FRESH))


def test_a_place_in_a_partition_that_was_cut_is_that_in_the_whole(client):
    strange = Y.copy()
    strange[N - 3] = 7
    with pytest.raises(ValueError, match=rf"7 in partition 0, row {N - 2} \(counted from 1\)$"):
        classifier(categories=[0, 1]).fit(da.from_array(X, (N, 2)), da.from_array(strange, N))


# fits where they are not expected -----------------------------------------------------------------------------------------


def fitted_in_a_task(x, y):
    distributed.get_client()  # a process that has used a client keeps it
    model = GPClassifier(inference=ScalableEP(search="minibatches", n_inducing=10, epochs=1), random_state=0)
    return model.fit(da.from_array(x, (100, -1)), da.from_array(y, 100)).score(x, y)


def test_a_fit_in_a_task_does_not_wait_for_its_own_worker(client):
    assert client.submit(fitted_in_a_task, X, Y).result(timeout=30) > 0.7


def test_an_asynchronous_client_is_refused(client):
    async def fit():
        async with distributed.Client(client.scheduler.address, asynchronous=True):
            classifier().fit(*arrays())

    with client.as_current(), pytest.raises(TypeError, match="client is asynchronous, but fit waits"):
        asyncio.run(fit())


def test_a_kernel_that_cannot_be_sent_is_an_error_and_no_wait(client):
    kernel = RBF()
    object.__setattr__(kernel, "lock", threading.Lock())
    with client.as_current(), pytest.raises(TypeError, match="cannot be sent to the workers: TypeError: cannot pickle"):
        classifier(kernel=kernel).fit(*arrays())


def test_a_kernel_that_workers_do_not_have_is_named(client, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("from gpclass.kernels import RBF\n\n\nclass Own(RBF):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    told = r"a worker cannot read the kernel.*No module named 'only_here'"
    with client.as_current(), pytest.raises(TypeError, match=told):
        classifier(kernel=only_here.Own()).fit(*arrays())


def rows_on(dask_worker):
    gc.collect()
    return sum(some.shard.n_rows for some in gc.get_objects() if type(some) is dask_crew.ShardActor)


def test_failed_and_interrupted_fits_leave_the_model_and_no_rows(client, monkeypatch):
    model = classifier().fit(X, Y)
    before = model.predict_proba(FRESH)

    def interrupt(crew):
        raise KeyboardInterrupt

    with client.as_current(), monkeypatch.context() as patched:
        before_call(patched, 4, interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*arrays())
    with client.as_current(), pytest.raises(ValueError, match="only one class"):
        model.fit(*arrays(X, 0 * Y))
    assert_array_equal(model.predict_proba(FRESH), before)
    end = time.monotonic() + 10
    while any(client.run(rows_on).values()) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(client.run(rows_on).values())


def test_two_fits_at_the_same_time(client):
    with client.as_current():
        alone = classifier().fit(*arrays()).predict_proba(FRESH)
        found = [None, None]

        def fit(i):
            found[i] = classifier().fit(*arrays()).predict_proba(FRESH)

        threads = [threading.Thread(target=fit, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    for one in found:
        assert_allclose(one, alone, atol=1e-9)  # sums in another order


def test_a_run_goes_on_from_its_checkpoint_on_another_number_of_processes(client, tmp_path, monkeypatch):
    engine = replace(ENGINE, decay=False, checkpoint=tmp_path / "run")  # 50 rows for each process
    with client.as_current():
        classifier(inference=engine).fit(*arrays())
    monkeypatch.setattr(gathering, "current_client", lambda: None)  # one process
    monkeypatch.setattr(gathering, "_computed", lambda tasks: list(dask.compute(*tasks, scheduler="synchronous")))
    resumed = classifier(inference=replace(engine, epochs=4)).fit(*arrays())
    whole = classifier(inference=replace(engine, epochs=4, batch_size=100, checkpoint=None)).fit(X, Y)
    assert_allclose(resumed.predict_proba(FRESH), whole.predict_proba(FRESH), atol=1e-8)
    with pytest.raises(CheckpointError, match="batch_size 100 in the file, 30 here"):
        classifier(inference=replace(engine, epochs=4, batch_size=30)).fit(*arrays())


# losses -------------------------------------------------------------------------------------------------------------------


def test_a_worker_is_one_node_of_the_tree_of_calls():
    workers = [(f"{k}", [f"{k}a", f"{k}b"]) for k in range(11)]  # two actors on each worker
    nodes = []

    def walk(tree, above):
        for worker, actor, below in tree:
            nodes.append(actor)
            assert actor[:-1] == worker
            if actor.endswith("b"):
                assert above == actor.replace("b", "a")
                assert below == []
            walk(below, actor)

    walk(tree_of(workers), None)
    assert sorted(nodes) == sorted(actor for _, some in workers for actor in some)


def test_outlines_tell_other_rows_from_rounding():
    def outline(x=X, y=Y, weight=None):
        return Outline.of(Partition.of(x, y, weight))

    own = outline()
    assert own.agrees(outline(X * (1 + 1e-15 * rng.normal(size=X.shape))))
    assert own.agrees(outline(weight=np.ones(N)))
    assert not own.agrees(outline(X[::-1], Y[::-1]))
    assert not own.agrees(outline(np.concatenate([X[1:2], X[:1], X[2:]])))
    assert not own.agrees(outline(X[:-1], Y[:-1]))
    assert not own.agrees(outline(y=1 - Y))
    assert not own.agrees(outline(weight=np.where(np.arange(N) == 3, 2.0, 1.0)))
    assert not outline(X.astype(np.float32)).agrees(outline((X[::-1]).astype(np.float32), Y))
    assert outline(X[:0], Y[:0]).agrees(outline(X[:0], Y[:0]))
    assert outline(X * 1e307, Y).agrees(outline(X * 1e307, Y))  # sums overflow


# the hashes, a step, the calibration; only one is quick, because a restarted worker imports everything
@pytest.mark.parametrize("number", [pytest.param(2, marks=pytest.mark.slow), 5, pytest.param(11, marks=pytest.mark.slow)])
def test_a_worker_ends_before_a_call(workers, monkeypatch, number):
    undisturbed = classifier().fit(*arrays())
    before_call(monkeypatch, number, end_first_worker)
    with pytest.warns(LostRowsWarning, match="was lost"):
        model = classifier().fit(*arrays())
    assert_allclose(model.predict_proba(FRESH), undisturbed.predict_proba(FRESH), atol=0.01)
    workers.restored()


@pytest.mark.slow  # ends a worker
def test_weights_by_class_count_once_if_a_worker_ends_meanwhile(workers, monkeypatch):
    settings = {"class_weight": {0: 1.0, 1: 5.0}}
    undisturbed = classifier(**settings).fit(*arrays())
    change = DaskCrew.change

    def killed(self, *args):
        end_first_worker(self)
        change(self, *args)

    monkeypatch.setattr(DaskCrew, "change", killed)
    with pytest.warns(LostRowsWarning):
        model = classifier(**settings).fit(*arrays())
    assert_allclose(model.predict_proba(FRESH), undisturbed.predict_proba(FRESH), atol=1e-8)
    workers.restored()


@pytest.mark.slow  # ends a worker
def test_no_rows_are_missing_if_loading_them_again_is_interrupted(workers, monkeypatch):
    parts = parts_of(*arrays())
    crew = DaskCrew.of(workers, parts.pieces, parts.names, load)
    end_first_worker(crew)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DaskCrew, "_loaded", interrupt)
        with pytest.raises(KeyboardInterrupt):
            crew.sum(rows_of)
    with pytest.raises(RowsLost, match="rows were loaded again"):
        crew.sum(rows_of)
    assert crew.sum(rows_of) == N
    crew.close()
    workers.restored()


def rows_of(shard):
    return shard.n_rows


def random_rows():
    x = np.random.default_rng().normal(size=(100, 2))
    return x, np.arange(100) % 2


@pytest.mark.slow  # ends a worker
def test_partitions_that_differ_each_time_are_refused_after_a_loss(workers, monkeypatch):
    before_call(monkeypatch, 5, end_first_worker)
    pieces = [dask.delayed(random_rows)(dask_key_name=f"random-{k}") for k in range(4)]
    with pytest.raises(CrewLost, match=r"has other rows when it is computed again.*use fixed seeds"):
        classifier().fit(pieces)
    workers.restored()
