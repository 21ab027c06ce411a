"""Puts the repository root on the import path, so that tests share ``tests.support``; options of tests."""

import gc
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--arith-cases", type=int, default=200_000, metavar="N",
                     help="random cases of each kind and arithmetic operation (default: %(default)s)")


def pytest_configure() -> None:
    """Simulations of xdist's workers have one thread each: threads meet every few cycles, and wait long where another
    worker holds the processor of one of them. They are short, so that quick builds count for more than quick runs.
    Garbage is looked for as seldom as under the command line. What takes long is not told, so that what commands
    print does not depend on how fast the machine is."""
    from plinth.cli import COLLECTED
    from plinth_hw.terminal import activity

    activity.DELAY_SECONDS = 1e6
    gc.set_threshold(*COLLECTED)
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ["PLINTH_THREADS"] = "1"
        os.environ["PLINTH_COMPILE"] = "quick"
