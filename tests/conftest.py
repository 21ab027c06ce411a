"""Puts the repository root on the import path, so that tests share ``tests.support``; options of tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--arith-cases", type=int, default=200_000, metavar="N",
                     help="random cases of each kind and arithmetic operation (default: %(default)s)")
