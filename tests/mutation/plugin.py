"""Plugin of the pytest that runs inside a copy of the tree: ``-p tests.mutation.plugin``.

``MUTATION_REACH=file`` writes, for each test, the processor time it took, its children's included, and which functions
of the tree's code it entered, and which tests failed; ``MUTATION_TESTS=file`` keeps the tests that the file lists, in
its order; ``MUTATION_SECONDS=n`` ends a process that has used so many seconds of processor time, however busy the
machine is.
"""

import ast
import builtins
import json
import os
import resource
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

#: Address space of a process: a mutant that asks for more gets a MemoryError.
MEMORY_BYTES = 16 << 30
_ROOT = Path(__file__).resolve().parents[2]
_CODE = tuple(str(_ROOT / folder) + os.sep for folder in ("hw", "sim", "sw"))
_REACH = os.environ.get("MUTATION_REACH")
_TESTS = os.environ.get("MUTATION_TESTS")

_entered: set[str] = set()
#: What runs when modules are imported, before the first test.
_imported: set[str] = set()
_tests: dict[str, tuple[float, list[str]]] = {}
_failed: set[str] = set()


def _relative(file: str) -> str | None:
    path = Path(file)
    if not path.is_absolute() or not path.is_relative_to(_ROOT):
        return None
    return path.relative_to(_ROOT).as_posix()


def _note(node: Any, file: str, scope: tuple[str, ...] = ()) -> None:
    """Make every function in ``node`` say that it is entered: much cheaper than tracing a simulation's calls."""
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.ClassDef):
            inner = (*scope, child.name)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.parse(f"__entered__.add({file + ':' + '.'.join((*scope, child.name))!r})").body[0]
            for part in ast.walk(said):
                ast.copy_location(part, child.body[0])
            child.body.insert(ast.get_docstring(child, clean=False) is not None, said)
            inner = (*scope, child.name, "<locals>")
        _note(child, file, inner)


_compile = SourceFileLoader.source_to_code


def _noting(self: SourceFileLoader, data: Any, path: Any, **options: Any) -> Any:
    """Compile a file; functions of the tree's code note themselves."""
    if str(path).startswith(_CODE):
        data = ast.parse(data, path)
        _note(data, _relative(path) or "")
    return _compile(self, data, path, **options)


if _REACH:
    builtins.__entered__ = _entered  # type: ignore[attr-defined]
    SourceFileLoader.source_to_code = _noting  # type: ignore[method-assign, assignment]
    sys.pycache_prefix = str(Path(_REACH).with_name("noting"))  # what is compiled so serves no other run


def pytest_configure() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    if seconds := int(os.environ.get("MUTATION_SECONDS", 0)):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if not _REACH:
        yield
        return
    if not _tests:
        _imported.update(_entered)
    _entered.clear()
    start = sum(os.times()[:4])
    yield
    _tests[item.nodeid] = (sum(os.times()[:4]) - start, sorted(_entered))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _TESTS:
        return
    wanted = json.loads(Path(_TESTS).read_text(encoding="utf-8"))
    by_id = {item.nodeid: item for item in items}
    lost = [test for test in wanted if test not in by_id]
    if lost:
        config.get_terminal_writer().line(f"FAILED {lost[0]} - it is not there")
        pytest.exit("a test is not there", returncode=1)
    items[:] = [by_id[test] for test in wanted]


def pytest_sessionfinish() -> None:
    if not _REACH:
        return
    files = {_relative(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    reach = {"tests": _tests, "failed": sorted(_failed), "imported": sorted(_imported),
             "files": sorted(file for file in files if file)}
    Path(_REACH).write_text(json.dumps(reach), encoding="utf-8")
