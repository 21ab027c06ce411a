"""Plugin of the pytest that runs inside a copy of the tree: ``-p tests.mutation.plugin``.

``MUTATION_REACH=file`` writes, for each test, the processor time it took, its children's included, and which functions
of the tree it entered; ``MUTATION_TESTS=file`` keeps the tests that the file lists, in its order;
``MUTATION_SECONDS=n`` ends a process that has used so many seconds of processor time, however busy the machine is.
"""

import json
import os
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

#: Address space of a process: a mutant that asks for more gets a MemoryError.
MEMORY_BYTES = 16 << 30
_ROOT = Path(__file__).resolve().parents[2]
_REACH = os.environ.get("MUTATION_REACH")
_TESTS = os.environ.get("MUTATION_TESTS")

_codes: set[CodeType] = set()
_tests: dict[str, tuple[float, list[str]]] = {}


def _relative(file: str) -> str | None:
    path = Path(file)
    if not path.is_absolute() or not path.is_relative_to(_ROOT):
        return None
    return path.relative_to(_ROOT).as_posix()


def _note(frame: FrameType, event: str, argument: Any) -> None:
    _codes.add(frame.f_code)


def pytest_configure() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    if seconds := int(os.environ.get("MUTATION_SECONDS", 0)):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if not _REACH:
        yield
        return
    _codes.clear()
    start = sum(os.times()[:4])
    threading.settrace(_note)
    sys.settrace(_note)
    yield
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    functions = {f"{file}:{code.co_qualname}" for code in _codes if (file := _relative(code.co_filename))}
    _tests[item.nodeid] = (sum(os.times()[:4]) - start, sorted(functions))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _TESTS:
        return
    wanted = json.loads(Path(_TESTS).read_text(encoding="utf-8"))
    found = {item.nodeid: item for item in items}
    lost = [test for test in wanted if test not in found]
    if lost:
        pytest.exit(f"{lost[0]} is no longer there", returncode=1)
    items[:] = [found[test] for test in wanted]


def pytest_sessionfinish() -> None:
    if not _REACH:
        return
    files = {_relative(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    Path(_REACH).write_text(json.dumps({"tests": _tests, "files": sorted(file for file in files if file)}),
                            encoding="utf-8")
