"""Whole dies behind serial lines: they compute what the golden model computes, and train by the command line."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.support.back_ends import check_equal, images
from tests.support.dies import SERIAL as DIE
from tests.support.graphs import random_program

from plinth.driver.serial import SerialArray
from plinth_hw.board.manifest import Manifest
from plinth_hw.emit import held_digest
from plinth_hw.isa.frames import LEAST_CYCLES, BridgeParameters
from plinth_hw.isa.parameters import preset
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray
from plinth_sim.rtl.elaborate import die_verilog
from plinth_sim.rtl.simulated_port import SimulatedPort

WORDS = DIE.block_ram_words
BRIDGE = BridgeParameters(cycles_per_bit=4)


@pytest.mark.slow
def test_a_random_graph_over_serial_lines() -> None:
    """Two dies, joined by links, a line each; all of memory after a step."""
    program, buffers = random_program(DIE, 2, 3, 15, WORDS)
    with CosimArray(DIE, 2, WORDS, bridge=BRIDGE) as rtl:
        array = SerialArray(DIE, [SimulatedPort(rtl, die) for die in range(2)])
        golden = GoldenArray(DIE, 2, WORDS)
        both = [images(dies, program, buffers, 3, memory_words=WORDS, steps=1) for dies in (array, golden)]
        for image, expected in zip(*both, strict=True):
            check_equal(image, expected, program)
        # A word by itself where two share 32 bits.
        words = np.arange(7, dtype=np.uint16)
        array.dies[1].write_memory(33, words)
        assert np.array_equal(array.dies[1].read_memory(33, 7), words)


def _command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-u", "-m", "plinth.cli", *arguments], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@contextmanager
def _served(name: str) -> Iterator[str]:
    """`plinth serial`: the port that it prints."""
    served = _command("serial", name)
    try:
        assert served.stdout is not None
        die, _, port = served.stdout.readline().strip().partition(": ")
        assert die == "die 0"
        yield port
    finally:
        served.send_signal(signal.SIGINT)
        assert served.wait(300) == 0


@pytest.mark.long
def test_training_over_a_pseudo_terminal(tmp_path: Path) -> None:
    """Bit for bit as the golden model, on the Verilog of a manifest; a die of another preset is refused in one line; a
    line that is cut ends it."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "few.npz", x=rng.random((64, 64), np.float32), y=rng.integers(0, 10, 64))
    job = ("train", "digits-mlp", "--batch", "16", "--data", str(tmp_path / "few.npz"), "--out", str(tmp_path))
    die, bridge = preset("ndp-tiny", window=True), BridgeParameters(cycles_per_bit=LEAST_CYCLES)
    ((file, verilog),) = die_verilog(die, bridge=bridge).items()
    bitstream = tmp_path / "plinth.bit"
    bitstream.touch()
    Manifest.of(bitstream, "ulx3s-85f", die, held_digest(verilog, Path(file).stem), 80e6, 3_000_000, 1).write(tmp_path)
    with _served("ndp-tiny") as port:
        ran = _command(*job, "--steps", "2", "--machine", "ndp-tiny", "--device", port, "--bitstream", str(tmp_path),
                       "--json")
        out, error = ran.communicate()
        assert ran.returncode == 0, error
        report = json.loads(out)
        assert (report["device"], report["bit_exact"], report["compared_steps"]) == ("serial", True, 2)
        ran = _command(*job, "--steps", "1", "--machine", "ndp-demo", "--device", port)
        _, error = ran.communicate()
        assert ran.returncode == 2
        assert "die 0 is a systolic FP32 die of 4 x 4" in error
        assert "the plan is for a systolic FP32 die of 8 x 8" in error
        ran = _command(*job, "--steps", "4", "--machine", "ndp-tiny", "--device", port)
        assert ran.stderr is not None
        while "step 1 of 4" not in ran.stderr.readline():
            assert ran.poll() is None
    _, error = ran.communicate()
    assert ran.returncode == 2
    last = error.splitlines()[-1]
    assert last.startswith("plinth: error:") and "the line is cut" in last and error.count("error:") == 1
