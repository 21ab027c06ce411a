"""Runs cocotb tests under Verilator, and in four states under Icarus Verilog: the one shared runner helper.

Simulators come from ``verilator.build_program``, which caches them by everything that decides them; only
the top module's ports are visible to cocotb, which keeps builds short and simulation fast. Results of each
pytest node go to a folder of their own under ``build/cocotb``. Tests run without waves; the first
test that fails is repeated with the same seed on a simulator with tracing, which leaves ``dump.vcd`` beside
the results.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cocotb_tools.config
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner
from tests.support.results import node_folder

from plinth_sim.rtl import verilator

_TIMESCALE = ("1ns", "1ps")


def build(sources: Mapping[str, str], top: str, *, trace: bool = False) -> Path:
    """The simulator (cached).

    Parameters
    ----------
    sources : mapping of file name to text
        Verilog, and ``.vlt`` waivers before it.
    trace : bool
        Whether it can write waves.
    """
    libraries = cocotb_tools.config.libs_dir
    return verilator.build_program(
        sources, top, cpp=[cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"],
        headers={"Vtop.h": f'#include "{verilator.MODEL}.h"\nusing Vtop = {verilator.MODEL};\n'},
        flags=["--vpi", "--public-depth", "1", "--x-assign", "fast", "--x-initial", "fast", "--timescale",
               "/".join(_TIMESCALE)],
        runtime=["verilated_vpi", "verilated_dpi"], trace=trace,
        link=[f"-Wl,-rpath,{libraries}", f"-L{libraries}", "-lcocotbvpi_verilator"])


def _failed(results: Path) -> list[str]:
    """Names of the tests that failed."""
    return [str(case.get("name")) for case in ElementTree.parse(results).iter("testcase")
            if case.find("failure") is not None or case.find("error") is not None]


def _once(simulator: str, folder: Path, top: str, module: str, log: Path, **arguments: Any) -> tuple[int, list[str]]:
    """Number of tests that ran on what was built in a folder, and names of those that failed."""
    path = log.with_name("results.xml")
    path.unlink(missing_ok=True)
    with suppress(SystemExit):  # the runner's answer to failures, and to a simulator that broke down
        get_runner(simulator).test(module, top, hdl_toplevel_lang="verilog", build_dir=folder, test_dir=log.parent,
                                   results_xml=str(path), timescale=_TIMESCALE, log_file=log, **arguments)
    assert path.exists(), f"the simulator ended without results: log {log}"
    return get_results(path)[0], _failed(path)


def run_icarus(folder: Path, top: str, module: str, *, environment: Mapping[str, str]) -> None:
    """Run the cocotb tests of a module on what Icarus Verilog has built in a folder, ``sim.vvp``.

    Raises
    ------
    AssertionError
        As :func:`run`.
    """
    log = node_folder("cocotb") / "run.log"
    ran, failed = _once("icarus", folder, top, module, log, seed=1, extra_env=dict(environment))
    assert ran and not failed, f"{len(failed)} of {ran} cocotb tests failed ({', '.join(failed)}): log {log}"


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
    results = node_folder("cocotb")
    log, waves = results / "run.log", results / "dump.vcd"
    waves.unlink(missing_ok=True)

    def once(trace: bool, cases: str | Sequence[str] | None) -> tuple[int, list[str]]:
        return _once("verilator", build(sources, top, trace=trace).parent, top, module,
                     results / "waves.log" if trace else log, testcase=cases, seed=seed, waves=trace,
                     extra_env=dict(environment or {}))

    ran, failed = once(False, testcase)
    if failed:
        once(True, failed[:1])
        raise AssertionError(f"{len(failed)} of {ran} cocotb tests failed ({', '.join(failed)}): log {log}, "
                             f"waves of the first {waves}")
    assert ran, f"no cocotb test ran: log {log}"
    return results
