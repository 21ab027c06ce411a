"""Puts the repository root on the import path, so that tests share ``tests.support``; options of tests."""

import gc
import os
import sys
from pathlib import Path
from typing import Any

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
    if _is_worker():
        os.environ["PLINTH_THREADS"] = "1"
        os.environ["PLINTH_COMPILE"] = "quick"


def _is_worker() -> bool:
    """Of xdist."""
    return "PYTEST_XDIST_WORKER" in os.environ


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of xdist's workers are run in another order than they stand in."""
    if _is_worker():
        from tests.support.scheduling import longest_first

        items[:] = longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of ``--dist loadgroup``; other ways stay as they are."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.support.scheduling import FilesTogether

    config.option.loadscopereorder = False
    return FilesTogether(config, log)
