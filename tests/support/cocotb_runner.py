"""Runs cocotb tests under Verilator: the one shared runner helper.

Builds are cached under ``build/cocotb/<hash>`` by everything that decides them, results of each pytest
node go to a folder of their own under ``build/cocotb/results``. Tests run without waves; a run with
failures is repeated with the same seed and with waves, which leaves ``dump.vcd`` beside the results.
"""

import importlib.metadata
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from plinth_sim.rtl import verilator


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """``os.environ`` replaced for a while: cocotb's runner takes the tools' settings from there."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def build(sources: Mapping[str, str], top: str) -> Path:
    """Folder of the simulator (cached).

    Parameters
    ----------
    sources : mapping of file name to text
        Verilog, and ``.vlt`` waivers before it.
    """
    tool = verilator.find()
    arguments = ["--no-timing", "-Wno-fatal", "-Wno-lint", "-Wno-style", "--x-assign", "fast",
                 "--x-initial", "fast"]
    key = verilator.digest(tool.version_text, importlib.metadata.version("cocotb"), verilator.compiler(), top,
                           *arguments, *(text for item in sources.items() for text in item))
    folder = verilator.build_root() / "cocotb" / key
    with verilator.cached_folder(folder) as scratch:
        if scratch is not None:
            source_folder = scratch / "source"
            source_folder.mkdir()
            for name, text in sources.items():
                (source_folder / name).write_text(text)
            with _environment(verilator.environment()):
                get_runner("verilator").build(
                    sources=[source_folder / name for name in sources], hdl_toplevel=top, always=True,
                    build_dir=scratch, build_args=arguments, waves=True, timescale=("1ns", "1ps"),
                    log_file=folder.with_name(key + ".log"))
    return folder


def _folder_name() -> str:
    """The running pytest node as a file name."""
    node = os.environ.get("PYTEST_CURRENT_TEST", "outside pytest").rsplit(" (", 1)[0]
    return re.sub(r"[^\w.=-]+", "-", node).strip("-")


def run(sources: Mapping[str, str], top: str, module: str, *, testcase: str | Sequence[str] | None = None,
        seed: int = 1, environment: Mapping[str, str] | None = None) -> Path:
    """Run the cocotb tests of a module; returns the folder of results.

    Parameters
    ----------
    module : str
        Python module of the tests, importable from the repository root.
    testcase : str, sequence of str or None
        Names of tests; default all.
    seed : int
        ``cocotb.RANDOM_SEED``.
    environment : mapping or None
        Further environment variables that the tests read.

    Raises
    ------
    AssertionError
        If a test fails or none ran; the message names the results and the waves.
    """
    folder = build(sources, top)
    results = verilator.build_root() / "cocotb" / "results" / _folder_name()
    results.mkdir(parents=True, exist_ok=True)
    (results / "dump.vcd").unlink(missing_ok=True)

    def once(waves: bool) -> tuple[int, int]:
        runner = get_runner("verilator")
        log = results / ("waves.log" if waves else "run.log")
        path = runner.test(module, top, hdl_toplevel_lang="verilog", testcase=testcase, seed=seed,
                           waves=waves, extra_env=dict(environment or {}), build_dir=folder, test_dir=results,
                           timescale=("1ns", "1ps"), log_file=log)
        return get_results(path)

    def outcome(waves: bool) -> tuple[int, int]:
        try:
            return once(waves)
        except SystemExit as error:  # the runner's answer to a simulator that wrote no results
            return (0, 1) if error.code else (0, 0)

    ran, failed = outcome(waves=False)
    if failed:
        outcome(waves=True)
        raise AssertionError(f"{failed} of {ran} cocotb tests failed: log {results / 'run.log'}, "
                             f"waves {results / 'dump.vcd'}")
    assert ran, f"no cocotb test ran: log {results / 'run.log'}"
    return results
