"""Ranks of MPI: golden dies of every format have the bits of one process, and the kill of a rank ends all."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.commands import run as plinth
from tests.support.networks import random_plan, trainable_network
from tests.support.numpy_ranks import NumpyTraining
from tests.support.ranks import in_ranks
from tests.support.sessions import MEMORY_WORDS
from tests.support.shares import RULE, Training, assert_same

from plinth.array.array import ring
from plinth.errors import UserError
from plinth.host import mpi_launcher
from plinth.lower.training import lower_training
from plinth.plan.planning import plan_network
from plinth.runtime.processes import split_dies
from plinth_hw.isa.parameters import preset as dies
from plinth_sim.golden.transport import Transport

pytestmark = pytest.mark.long
#: Dies of a format each: FP32, FP16 operands, Q3.12, on either matrix engine.
PRESETS = ("ndp-tiny", "hypar-tiny", "fpga-tiny", "ndp-demo-mixed", "hypar-demo-mixed", "hypar-demo-fixed")


@dataclass(frozen=True)
class InTurn:
    """Training runs one after the other."""

    runs: Sequence[Training | NumpyTraining]

    def __call__(self, transport: Transport | None) -> list[Any]:
        """What each gives."""
        return [run(transport) for run in self.runs]  # type: ignore[arg-type]


def _trainings() -> list[Training]:
    """Two runs in each format, of networks that dies of it can train."""
    trainings = []
    for number, preset in enumerate(PRESETS):
        found = 0
        for seed in count():
            generator = np.random.default_rng([31, number, seed])
            network, batch = trainable_network(generator), int(generator.integers(8, 20))
            # With operands of 16 bits layers may only split samples.
            plan = (random_plan(network, 8, batch, generator) if dies(preset).packing == 1 else
                    plan_network(network, ring(8, preset=preset), planner="data", batch=batch).plan)
            with suppress(UserError):
                lower_training(network, plan, dies(preset), rule=RULE, steps=2, memory_words=MEMORY_WORDS)
                trainings.append(Training(network, plan, preset, steps=2))
                found += 1
            if found == 2:
                break
    return trainings


def test_any_number_of_ranks_has_the_bits_of_one_process() -> None:
    """Random networks and plans of eight dies, in every format: all words of memory, and all that hosts read."""
    trainings = _trainings()
    alone = InTurn(trainings)(None)
    for ranks in (1, 2, 3, 4, 8):
        outcomes = in_ranks(split_dies(8, ranks), InTurn(trainings))
        for number, (memories, read) in enumerate(alone):
            together = {die: image for outcome in outcomes for die, image in outcome[number][0].items()}
            assert_same(dict(sorted(together.items())), memories, f"{ranks} ranks, run {number}, die")
            for outcome in outcomes:
                assert_same(outcome[number][1], read, f"{ranks} ranks, run {number}:")


@pytest.mark.parametrize("device", ["golden", "numpy"])
def test_the_kill_of_a_rank_ends_all(tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str) -> None:
    """At ten random moments of a run of three ranks, which saves after every other step: no process is left behind, and
    what was saved last is whole."""
    generator = random.Random(7)
    for _ in range(10):
        program = ("import os, pathlib; from plinth.cli import main\n"
                   f"pathlib.Path({str(tmp_path)!r}, os.environ['PMI_RANK']).write_text(str(os.getpid()))\n"
                   f"main(['run', '--device', {device!r}, '--planner', 'data', '--epochs', '9999', '--batch', '64',"
                   f" '--save-every', '2', '--save', {str(tmp_path / 'w.npz')!r}, '--out', {str(tmp_path / 'out')!r}])")
        with subprocess.Popen([mpi_launcher(), "-n", "3", sys.executable, "-c", program], text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as launcher:
            assert launcher.stderr is not None
            assert any("step " in line for line in launcher.stderr)
            threading.Thread(target=launcher.stderr.read, daemon=True).start()
            time.sleep(generator.uniform(0, 3))
            ranks = [int((tmp_path / str(rank)).read_text(encoding="utf-8")) for rank in range(3)]
            os.kill(generator.choice(ranks), signal.SIGKILL)
            assert launcher.wait(60) != 0
        assert not [rank for rank in ranks if Path(f"/proc/{rank}/cmdline").exists()
                    and b"plinth" in Path(f"/proc/{rank}/cmdline").read_bytes()]
        if (tmp_path / "w.npz").exists():
            assert plinth(capsys, "eval", tmp_path / "w.npz")[0] == 0
