"""Where the multipliers and memories of a die lie in a device, told to placement.

::

            x -->
     y=10   array: rows 0 to R/2 - 1, a column of elements beside the other
       22   A's banks (left half of the two rows), B's (middle), memory
       34   array: the other rows
       46   A's banks, memory
       58   multipliers of the engines, where placement likes
       70   memory, vector engine's banks of one half
       82   memory, vector engine's banks of the other half

Placement by a potential brings logic together well, but then finds sites for 300 multipliers and memories one by one,
which makes wires more than twice as long as they were. Their order is known: what elements pass on goes to the next
column and the next row, memory's words go to the columns, and each of the engines' buffers is read through a rotator
that wants its banks side by side. Whatever is not told (the optimiser's memories, multipliers of the vector engine, and
all logic) is placed as before.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Types of cells that have few sites.
MULTIPLIER, MEMORY = "MULT18X18D", "DP16KD"


@dataclass(frozen=True)
class Site:
    """A site by its tile, and its name for nextpnr."""

    x: int
    y: int
    bel: str


@dataclass(frozen=True)
class FpgaDevice:
    """Rows of sites of one type each, from the left.

    Attributes
    ----------
    width : int
        Tiles from left to right.
    blocks : tuple of int
        Leftmost tiles of the blocks of four sites that follow each other in every row.
    multipliers, memories : tuple of int
        Rows.
    """

    width: int
    blocks: tuple[int, ...]
    multipliers: tuple[int, ...]
    memories: tuple[int, ...]

    def multiplier_row(self, y: int) -> list[Site]:
        """The multipliers of a row: a block has two pairs."""
        return [Site(x + place, y, f"X{x + place}/Y{y}/MULT18_{place}") for x in self.blocks for place in (0, 1, 4, 5)]

    def memory_row(self, y: int) -> list[Site]:
        """The memories of a row: a block has four, two tiles apart."""
        return [Site(x + 2 * place, y, f"X{x + 2 * place}/Y{y}/EBR{place}") for x in self.blocks for place in range(4)]


#: LFE5U-85F, as nextpnr lists its sites.
LFE5U_85F = FpgaDevice(126, (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114), (10, 34, 58), (22, 46, 70, 82))

#: Where the middle of a group lies, from left to right; engines that are not told need sites around theirs.
_ACROSS = {"a": 0.0, "b": 0.5, "half_0": 1 / 3, "half_1": 1 / 3, "engines": 0.75}

#: Cells of a group, by their numbers.
_GROUPS = {
    "element": (MULTIPLIER, re.compile(r"\.array\.row_(\d+)\.element_(\d+)\.")),
    "a": (MEMORY, re.compile(r"\.a_buffer\.memory\.array\.bank_(\d+)\.")),
    "b": (MEMORY, re.compile(r"\.b_buffer\.memory\.array\.bank_(\d+)\.")),
    "half_0": (MEMORY, re.compile(r"\.vector\.half_0\.bank_(\d+)\.")),
    "half_1": (MEMORY, re.compile(r"\.vector\.half_1\.bank_(\d+)\.")),
    "memory": (MEMORY, re.compile(r"\.block_ram\.memory_(\d+)\.")),
}


def floorplan(cells: Mapping[str, str], device: FpgaDevice = LFE5U_85F) -> dict[str, str]:
    """Sites for multipliers and memories of a die.

    Parameters
    ----------
    cells : mapping of str to str
        Types of the cells after synthesis, by hierarchical name.
    device : Device

    Returns
    -------
    dict of str to str
        nextpnr's name of a site, by cell. Of a group that its part of the device does not hold, all cells are left to
        placement.
    """
    groups: dict[str, dict[str, tuple[int, ...]]] = {group: {} for group in _GROUPS}
    for name, kind in cells.items():
        for group, (wanted, pattern) in _GROUPS.items():
            match = pattern.search(name)
            if kind == wanted and match:
                groups[group][name] = tuple(map(int, match.groups()))
    ordered = {group: sorted(members, key=lambda name: (members[name], name)) for group, members in groups.items()}

    rows = [device.memory_row(y) for y in device.memories]
    sites = _elements(groups["element"], device)
    taken: set[Site] = set()
    for group, places in (("a", [rows[0], rows[1]]), ("b", [rows[0]]), ("half_0", [rows[2]]), ("half_1", [rows[3]])):
        placed = _side_by_side(ordered[group], [[site for site in row if site not in taken] for row in places],
                               device.width * _ACROSS[group])
        taken |= set(placed.values())
        sites |= placed
    # The others take what is farthest from the engines.
    left = sorted((site for row in rows for site in row if site not in taken),
                  key=lambda site: -abs(site.x - device.width * _ACROSS["engines"]) - 2 * abs(site.y - rows[-1][0].y))
    if len(ordered["memory"]) <= len(left):
        left = sorted(left[:len(ordered["memory"])], key=lambda site: (site.x, site.y))
        sites |= dict(zip(ordered["memory"], left, strict=True))
    return {name: site.bel for name, site in sites.items()}


def _elements(members: Mapping[str, tuple[int, ...]], device: FpgaDevice) -> dict[str, Site]:
    """An array's columns side by side, its rows in as few rows of the device as hold them."""
    if not members or len(set(members.values())) < len(members):
        return {}
    height, columns = (1 + max(numbers[axis] for numbers in members.values()) for axis in range(2))
    rows = [device.multiplier_row(y) for y in device.multipliers]
    share = len(rows[0]) // columns
    if height > share * len(rows):
        return {}
    each = -(-height // -(-height // share))
    return {name: rows[row // each][len(rows[0]) * column // columns + row % each]
            for name, (row, column) in members.items()}


def _side_by_side(names: list[str], rows: list[list[Site]], x: float) -> dict[str, Site]:
    """The sites of each row that are nearest to ``x``, from the left; names take the rows in turn."""
    each = -(-len(names) // len(rows))
    if each > min(map(len, rows)):
        return {}
    nearest = [sorted(sorted(row, key=lambda site: abs(site.x - x))[:each], key=lambda site: site.x) for row in rows]
    return {name: nearest[number % len(rows)][number // len(rows)] for number, name in enumerate(names)}


def constrain(netlist: Path, device: FpgaDevice = LFE5U_85F) -> int:
    """Write the sites of a die's cells into its netlist.

    Parameters
    ----------
    netlist : Path
        Of one module, as Yosys' JSON; nextpnr puts a cell where attribute ``BEL`` says.
    device : Device

    Returns
    -------
    int
        How many cells are told.
    """
    design = json.loads(netlist.read_text())
    cells = {name: cell for module in design["modules"].values() for name, cell in module.get("cells", {}).items()
             if cell["type"] in (MULTIPLIER, MEMORY)}
    sites = floorplan({name: cell["type"] for name, cell in cells.items()}, device)
    for name, bel in sites.items():
        cells[name]["attributes"]["BEL"] = bel
    netlist.write_text(json.dumps(design))
    return len(sites)
