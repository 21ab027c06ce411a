"""Workers that train at their own pace over MPI: all updates are applied, once each; who is too far ahead waits; a
server that fails, or a worker that ends, ends all; and nobody waits for a worker that does no more steps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.ranks import in_world, mpiexec

from plinth.errors import UserError
from plinth.workers.asynchronous import AsynchronousExchange, Values
from plinth.workers.channel import Rows

ROWS, WIDTH, STEPS = 17, 4, 9


class PlainShare:
    """Variables that are updated by plain descent at rate 1."""

    def __init__(self) -> None:
        self.arrays = {"table": np.zeros((ROWS, WIDTH), np.float32), "w": np.zeros(5, np.float32),
                       "v": np.zeros((2, 3), np.float32)}

    def values(self, name: str, rows: Rows | None) -> Any:
        return self.arrays[name].copy() if rows is None else self.arrays[name][rows]

    def apply(self, gradients: Values) -> None:
        for name, (rows, values) in gradients.items():
            assert rows is None or len(set(rows.tolist())) == len(rows)
            self.arrays[name][slice(None) if rows is None else rows] -= values


def gradients(worker: int, step: int) -> dict[str, Any]:
    """Integers, whose sums are exact in any order; now and then no rows."""
    generator = np.random.default_rng([worker, step])
    rows = np.unique(generator.integers(0, ROWS, 6)) if (worker + step) % 4 else np.zeros(0, np.int64)

    def drawn(*shape: int) -> Any:
        return generator.integers(-8, 9, shape).astype(np.float32)

    return {"table": (rows, drawn(len(rows), WIDTH)), "w": (None, drawn(5)), "v": (None, drawn(2, 3))}


def work(ranks: Any, folder: str, bound: int | None) -> Any:
    """Train; the first worker's second step lasts until others wait for it, or have done all theirs."""
    from plinth.workers.group import joined

    exchange = AsynchronousExchange(joined(), PlainShare(), ["w", "v"], bound)  # type: ignore[arg-type]
    leads = []
    for step in range(STEPS):
        exchange.begin()
        # What has ended before has left its mark.
        leads.append(step - min(len(list(Path(folder).glob(f"{worker}-*"))) for worker in range(exchange.size)))
        own = gradients(exchange.own, step)
        values = exchange.pull({name: rows for name, (rows, _) in own.items()})
        assert all(len(values[name]) == len(own[name][1]) for name in own)
        if exchange.own == 0 and step == 1:
            held = STEPS if bound is None else bound + 2
            exchange._workers.wait(lambda held=held: all(  # type: ignore[misc]
                len(list(Path(folder).glob(f"{worker}-*"))) == held for worker in range(1, exchange.size)))
        (Path(folder) / f"{exchange.own}-{step}").touch()
        exchange.push(own)
    exchange.settle()
    found = exchange.pull({"table": np.arange(ROWS), "w": None, "v": None})
    exchange.leave()
    return found, leads, exchange.staleness, exchange.sent()


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "bound"), [(2, 0), (3, 2), (3, None)])
def test_all_updates_are_applied_within_the_bound(ranks: int, bound: int | None, tmp_path: Path) -> None:
    wanted = PlainShare()
    for worker in range(ranks):
        for step in range(STEPS):
            wanted.apply(gradients(worker, step))
    told = in_world(ranks, work, str(tmp_path), bound)
    for found, _, _, _ in told:
        for name, values in wanted.arrays.items():
            np.testing.assert_array_equal(found[name], values)
    # The first worker is held until others are as far ahead as they may be.
    leads = [max(own) for _, own, _, _ in told]
    assert bound is None or max(leads) == bound
    # Without a bound that is all but its first step, which it may not even have done.
    assert all(lead >= STEPS - 2 if bound is None else lead == bound for lead in leads[1:])
    stale = [number for _, _, staleness, _ in told for number in staleness]
    assert min(stale) >= 0 and max(stale) >= (1 if bound is None else bound)
    # A word of a row or dense value that a worker pushes to another comes back to it, as often as it pulls.
    assert all(sent["messages"] > 0 and sent["values"] > 0 and sent["indices"] > 0 for *_, sent in told)


class FailingShare(PlainShare):
    """Variables whose update fails."""

    def apply(self, gradients: Values) -> None:
        raise ValueError("no memory")


def failing(ranks: Any, rank: int) -> str:
    from plinth.workers.group import joined

    exchange = AsynchronousExchange(joined(), FailingShare() if ranks.rank == rank else PlainShare(),  # type: ignore[arg-type]
                                    ["w", "v"], None)
    try:
        if ranks.rank == rank:
            exchange.push(gradients(0, 1))
            while True:
                exchange.pull({"table": np.arange(ROWS)})
        with pytest.raises(UserError, match="the gradient of 'w' of worker 0 is not finite; give a smaller rate"):
            exchange.push({"w": (None, np.full(5, np.nan, np.float32))})
        return ""
    except UserError as error:
        return str(error)
    finally:
        ranks.communicator.Barrier()
        exchange.stop()


@pytest.mark.slow
def test_failures_are_named() -> None:
    told = in_world(2, failing, 1)
    assert told == ["", told[1]]
    assert told[1].startswith("the server of worker 1 has failed: ValueError: no memory")


DYING = """
import numpy as np
from tests.sw.workers.test_asynchronous import PlainShare, gradients
from plinth.workers.asynchronous import AsynchronousExchange
from plinth.workers.group import before_leaving, joined
workers = joined()
exchange = AsynchronousExchange(workers, PlainShare(), ["w", "v"], 1)
before_leaving(lambda failed: exchange.stop() if failed else exchange.leave())
for step in range(9):
    exchange.begin()
    exchange.pull({"table": np.arange(17)})
    if workers.own == 1 and step == 3:
        raise RuntimeError("out of samples")
    exchange.push(gradients(workers.own, step))
"""


@pytest.mark.slow
def test_a_worker_that_ends_ends_all() -> None:
    run = mpiexec(3, "-c", DYING)
    assert run.returncode != 0
    assert run.stderr.count("rank 1 has ended with an error: RuntimeError: out of samples") == 2


def uneven(ranks: Any, settles: bool) -> list[str]:
    """The second worker does one step, and then settles or ends; what others are told that go on."""
    from plinth.workers.group import joined

    exchange = AsynchronousExchange(joined(), PlainShare(), ["w", "v"], 2)  # type: ignore[arg-type]
    refusals = []
    try:
        for step in range(1 if exchange.own == 1 else STEPS):
            exchange.begin()
            exchange.push(gradients(exchange.own, step))
    except UserError as error:
        refusals.append(str(error))
    try:
        if settles or exchange.own != 1:
            exchange.settle()
    except UserError as error:
        refusals.append(str(error))
    exchange.leave()
    return refusals


@pytest.mark.slow
@pytest.mark.parametrize("settles", [True, False])
def test_a_worker_that_does_fewer_steps_is_named(settles: bool) -> None:
    too_far = ("worker 1 has called refresh() after 1 steps, and worker {} has done 4, too far ahead to go on; all "
               "workers have to do as many steps")
    ended = "worker 1 has ended, with no error, before this refresh(); all workers have to call it as often"
    assert in_world(3, uneven, settles) == [
        [] if worker == 1 else [(too_far if settles else ended).format(worker)] for worker in range(3)]
