"""Puts the repository root on the import path, so that tests share ``tests.support``; options of tests."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--arith-cases", type=int, default=200_000, metavar="N",
                     help="random cases of each kind and arithmetic operation (default: %(default)s)")


def pytest_configure() -> None:
    """Gives each of xdist's workers a processor of its own: a co-simulation's threads meet every few cycles, and wait
    long where another worker holds the processor of one of them."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if worker.startswith("gw") and processors:
        os.sched_setaffinity(0, {processors[int(worker.removeprefix("gw")) % len(processors)]})
