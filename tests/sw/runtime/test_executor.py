"""`plinth.train` in an MPI program: what one process gets, in each rank."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.ranks import in_world

import plinth
from plinth.errors import UserError
from plinth.runtime.mpi import World

NETWORK, STEPS = "digits-mlp", 2
#: Of reports what may differ.
TIMES = {"wall_seconds", "setup_seconds", "die_cycles_per_second", "between_ranks"}


def trained(ranks: World | None, arguments: dict[str, Any]) -> dict[str, Any] | str:
    """The report and the weights of a run, or its error; of the ranks of a program."""
    try:
        result = plinth.train(NETWORK, steps=STEPS, executor=ranks and ranks.communicator, **arguments)
    except UserError as error:
        return str(error)
    return {name: value for name, value in result.to_dict().items() if name not in TIMES} | result.parameters


def of_ranks(ranks: World, each: list[list[dict[str, Any]]]) -> list[Any]:
    """Runs one after the other, of each the arguments of each rank."""
    return [trained(ranks, arguments[ranks.rank]) for arguments in each]


def assert_alike(left: Any, right: Any) -> None:
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert np.array_equal(value, right[name]), name


def test_each_rank_has_the_result_of_one_process(tmp_path: Path) -> None:
    """The first one writes the checkpoint. Other devices, and what one rank alone is asked for, are refused in all."""
    runs: list[dict[str, Any]] = [{"array": "ring-2", "device": device, "save": str(tmp_path / f"{device}.npz")}
                                  for device in ("golden", "numpy")]
    faults = {"processes have different settings": [{"device": "golden"}, {"device": "numpy"}],
              "batch must": [{}, {"batch": 0}], "2 processes cannot share 1 die": [{"array": "ring-1"}] * 2}
    first, second = in_world(2, of_ranks, [[run] * 2 for run in runs] + list(faults.values()))
    for run, mine, theirs in zip(runs, first, second, strict=False):
        alone = trained(None, run | {"save": str(tmp_path / "alone.npz")})
        assert_alike(mine, alone)
        assert_alike(theirs, alone)
        with np.load(run["save"]) as saved, np.load(tmp_path / "alone.npz") as other:
            assert all(np.array_equal(saved[name], other[name]) for name in saved.files if name != "header")
    for words, *lines in zip(faults, first[len(runs):], second[len(runs):], strict=True):
        assert all(words in line for line in lines), lines


def test_what_joins_no_ranks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no communicator, one of nobody, and that of an MPI that threads may not call."""
    from mpi4py import MPI

    for executor, words in ((2, "must be a communicator of mpi4py, not 2"), (MPI.COMM_NULL, "not COMM_NULL; give")):
        with pytest.raises(UserError, match=f"^executor .*{words}"):
            plinth.train(NETWORK, steps=STEPS, executor=executor)
    monkeypatch.setattr(MPI, "Query_thread", lambda: MPI.THREAD_SINGLE)
    with pytest.raises(UserError, match=r"cannot be called from several threads; .* and leave mpi4py\.rc"):
        plinth.train(NETWORK, steps=STEPS, executor=MPI.COMM_SELF)


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-dies")
def test_co_simulated_dies() -> None:
    run = {"array": plinth.array(dies=2, machine="ndp-tiny"), "device": "cosim", "batch": 8}
    alone = trained(None, run)
    for (result,) in in_world(2, of_ranks, [[run] * 2]):
        assert_alike(result, alone)
