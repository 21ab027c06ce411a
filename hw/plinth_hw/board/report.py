"""What a placed and routed design takes and how fast it is: from nextpnr's report to a table and plain data."""

import json
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from plinth_hw.terminal.files import write_text

#: Kinds of cells of nextpnr that are told, and what they are called.
CELLS = {"TRELLIS_COMB": "LUT4 and carry", "TRELLIS_FF": "FF", "TRELLIS_RAMW": "LUT RAM, write ports",
         "MULT18X18D": "MULT18X18D", "DP16KD": "DP16KD", "TRELLIS_IO": "pins", "EHXPLLL": "EHXPLLL"}
#: Share by which a constraint of nextpnr, which rounds periods, may differ from the clock asked for.
_ROUNDING = 0.01


@dataclass(frozen=True)
class Report:
    """A routed design.

    Attributes
    ----------
    clock_mhz, fmax_mhz : float
        The clock chosen, and the one that the slowest path of it allows.
    slowest : dict
        That path: ``from``, ``to`` (cell and pin), ``logic_ns``, ``routing_ns``.
    cells : dict of str to (used, available)
    seeds : dict of int to float
        Fmax in MHz by seed of placement, of those tried.
    """

    clock_mhz: float
    fmax_mhz: float
    slowest: dict[str, Any]
    cells: dict[str, tuple[int, int]]
    seeds: dict[int, float]

    @property
    def met(self) -> bool:
        """Whether the clock is."""
        return self.fmax_mhz >= self.clock_mhz

    def text(self) -> str:
        """Tables, a line each."""
        lines = [f"clock {self.clock_mhz:.2f} MHz, Fmax {self.fmax_mhz:.2f} MHz: "
                 f"{'met' if self.met else 'NOT MET'}, margin {100 * (self.fmax_mhz / self.clock_mhz - 1):+.1f} %",
                 f"slowest path: {self.slowest['from']} to {self.slowest['to']}, "
                 f"{self.slowest['logic_ns']:.2f} ns logic, {self.slowest['routing_ns']:.2f} ns routing", "",
                 f"{'cells':22}{'used':>8}{'of':>8}{'%':>7}"]
        lines += [f"{CELLS[kind]:22}{used:8,}{there:8,}{100 * used / there:7.1f}"
                  for kind, (used, there) in self.cells.items()]
        lines += ["", f"{'seed':22}{'Fmax (MHz)':>10}"]
        lines += [f"{seed:<22}{fmax:10.2f}" for seed, fmax in self.seeds.items()]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        """``report.txt`` and ``report.json``."""
        write_text(folder / "report.txt", self.text())
        write_text(folder / "report.json", json.dumps(asdict(self) | {"met": self.met}, indent=2) + "\n")


def read(nextpnr: dict[str, Any], clock_hz: Fraction, seeds: dict[int, float]) -> Report:
    """From what ``nextpnr --report`` says of a design with one clock, beside that of the PLL's input.

    Raises
    ------
    ValueError
        If nextpnr did not constrain a clock to ``clock_hz``.
    """
    clock_mhz = float(clock_hz / 10**6)
    clocks = {name: clock["achieved"] for name, clock in nextpnr["fmax"].items()
              if abs(clock["constraint"] / clock_mhz - 1) < _ROUNDING}
    if len(clocks) != 1:
        raise ValueError(f"nextpnr constrained {len(clocks)} clocks to {clock_mhz:g} MHz, not one")
    ((name, achieved),) = clocks.items()
    paths = [path["path"] for path in nextpnr["critical_paths"]
             if path["from"].split()[-1] == name and path["to"].split()[-1] == name]
    delays = {kind: sum(part["delay"] for part in paths[0] if part["type"] in names)
              for kind, names in (("logic_ns", ("clk-to-q", "logic", "setup")), ("routing_ns", ("routing",)))}
    ends = {end: f"{place['cell']}.{place['port']}" for end, place in
            (("from", paths[0][0]["from"]), ("to", paths[0][-1]["to"]))}
    cells = {kind: (usage["used"], usage["available"]) for kind in CELLS
             if (usage := nextpnr["utilization"].get(kind)) is not None and usage["used"]}
    return Report(clock_mhz, achieved, ends | delays, cells, seeds)
