"""Counts the cells of whole dies, block by block, and of parts by themselves."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from amaranth.lib import wiring

from plinth_hw import emit
from plinth_hw.comm.codes.stages import CodeStages
from plinth_hw.comm.flit import flit_layout
from plinth_hw.comm.link import LinkLayer, phit_bits
from plinth_hw.comm.router import Router
from plinth_hw.comm.tile_blocks import TileBlocks
from plinth_hw.die import Die
from plinth_hw.fpga.synthesis import FAMILY, Size, digest, folder_of, replace_table, synthesise, total
from plinth_hw.host.bridge import Bridge
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.optimiser.engine import OptimiserEngine

#: What the table of blocks is of.
DIGEST = "SHA-256 of the Verilog, first 16 digits: "


_BLOCK_HEADING = ["| block | LUT4 | LUT RAM | FF | MULT18X18D | DP16KD |",
                  "| --- | ---: | ---: | ---: | ---: | ---: |"]


def _block_row(title: str, size: Size) -> str:
    return f"| {title} | {size.lut4:,} | {size.lut_ram:,} | {size.ff:,} | {size.dsp} | {size.block_ram} |"


def _whole_row(title: str, modules: dict[str, Counter[str]], name: str) -> str:
    """Row of a module with all that it instances."""
    return _block_row(title, Size.of(total(modules, name)))


def _blocks(modules: dict[str, Counter[str]], name: str) -> dict[str, Size]:
    """Sizes of the blocks of a design that stay apart, by module."""
    return {kind: Size.of(total(modules, kind)) for kind in sorted(modules[name]) if kind in modules}


def _block_rows(blocks: dict[str, Size], name: str) -> list[str]:
    """Heading and rows of a design's blocks, without the number that tells modules of one name apart."""
    return [*_BLOCK_HEADING, *(
        _block_row(re.sub(r"\$\d+$", "", kind.removeprefix(f"{name}.").removeprefix(emit.PART)), size)
        for kind, size in blocks.items())]


#: Ends of links whose size is told: preset, phits of a frame.
LINKS = (("ndp-tiny", 1), ("ndp-demo", 1), ("ndp-demo", 4), ("ndp-bench", 1), ("ndp-paper", 1))


def link(page: Path) -> None:
    """Synthesise ends of links, each by itself, and write their table."""
    lines = list(_BLOCK_HEADING)
    for name, phits in LINKS:
        parameters = preset(name)
        modules = synthesise(LinkLayer(parameters, phits), "link", "link.*")
        lines.append(_whole_row(f"link layer, `{name}`, {phits} x {phit_bits(parameters, phits)} wires", modules,
                                "link"))
        print(lines[-1], flush=True)
    replace_table(page, "fpga-link", lines)


def codes(page: Path) -> None:
    """Synthesise the stages that code, of F(2,3), their parts kept apart, and write their table."""
    name = "codes"
    modules = synthesise(CodeStages(preset("ndp-demo", transforms=((2, 3),), codes=True)), name, f"{name}.*")
    blocks = _blocks(modules, name)
    within = [_blocks(modules, kind) for kind in blocks if kind in (f"{name}.encoder", f"{name}.decoder")]
    lines = _block_rows(dict(sorted({kind: size for some in (blocks, *within) for kind, size in some.items()}.items())),
                        name)
    lines.append(_whole_row("all of them", modules, name))
    print("\n".join(lines))
    replace_table(page, f"fpga-{name}", lines)


def tiles(page: Path) -> None:
    """Synthesise routers without and with what tiles take, of that the parts kept apart, and the queue behind a wider
    transfer engine, and write their table."""
    name, plain, wide = "router", preset("ndp-demo"), preset("ndp-bench", transforms=((2, 3),), transfer_words=16)
    tiled = replace(plain, transforms=((2, 3),))
    lines = list(_BLOCK_HEADING)
    for title, parameters in (("router, `ndp-demo`", plain), ("the same with F(2,3)", tiled)):
        modules = synthesise(Router(parameters), name, f"{name}.*")
        lines.append(_whole_row(title, modules, name))
    blocks = _blocks(modules, name) | _blocks(modules, f"{name}.input_0")
    rows = {kind.removeprefix(f"{name}."): size for kind, size in blocks.items()}
    ejection = f"ejection_{tiled.transfer_class}_0"
    lines += [_block_row(title, rows[part]) for title, part in (
        (f"of it: routes looked up ahead, of each of {tiled.ports + 1} inputs", "input_0.ahead"),
        (f"of it: queue of own tiles, of each of {tiled.ports} links", "tiles_0"),
        (f"of it: queue of tiles that end here, of each of {tiled.ports} links", ejection),
        ("of it: turns of these queues", "ejected"))]
    waiting = FIFO(flit_layout(wide.within), wide.leaving_flits, Storage.BLOCK)
    lines.append(_whole_row(f"queue behind the transfer engine, `ndp-bench`, {wide.leaving_flits} flits of "
                            f"{wide.transfer_words} words", synthesise(waiting, "leaving"), "leaving"))
    print("\n".join(lines))
    replace_table(page, "fpga-tiles", lines)


def parts(page: Path, name: str, title: str, make: Callable[[], wiring.Component]) -> None:
    """Measure a component, its parts kept apart for size, and write their table."""
    modules = synthesise(make(), name, f"{name}.*")
    lines = _block_rows(_blocks(modules, name), name)
    lines.append(_whole_row(title, modules, name))
    print("\n".join(lines))
    replace_table(page, f"fpga-{name}", lines)


#: Tables of the page of areas, beside those of whole dies.
TABLES: dict[str, Callable[[Path], None]] = {"link": link, "codes": codes, "tiles": tiles}
#: Components by themselves: page, title, and what makes each.
PARTS: dict[str, tuple[str, str, Callable[[], wiring.Component]]] = {
    "host": ("host.md", "host bridge", lambda: Bridge(BridgeParameters(cycles_per_bit=Fraction(80, 3)))),
    "optimiser": ("optimiser.md", "engine of `fpga-ulx3s`", lambda: OptimiserEngine(preset("fpga-ulx3s"))),
    "transforms-small": ("winograd.md", "stages of F(2,3)",
                         lambda: TileBlocks(preset("ndp-demo", transforms=((2, 3),)))),
    "transforms-all": ("winograd.md", "stages of F(2,3), F(4,3), F(2,5)",
                       lambda: TileBlocks(preset("ndp-demo", transforms=((2, 3), (4, 3), (2, 5))))),
}


#: Dies whose blocks are told.
DIES = ("ndp-demo", "fpga-demo")


def area(page: Path, parameters: DieParameters) -> None:
    """Synthesise a die, its blocks kept apart, and write their table."""
    name = "die"
    # Modules are named after their paths, parts of the die and shared ones after what they are. Those of the matrix
    # engine stay apart as well, which keeps each small enough to map.
    keep = f"{name}.* {name}.*.* %d plinth_* %u plinth_*.* %d {emit.PART}matrix.* %u {emit.PART}matrix.*.* %d"
    modules = synthesise(Die(parameters), name, keep)
    blocks = _blocks(modules, name)
    lines = _block_rows(blocks, name)
    rest = [size for kind, size in blocks.items() if kind != f"{emit.PART}matrix"]
    glue = Size.of(Counter({kind: count for kind, count in modules[name].items() if kind not in modules}))
    lines.append(_block_row("die without matrix engine", sum(rest, start=glue)))
    lines += ["", f"{DIGEST}`{digest((folder_of(name) / 'design.v').read_text())}`."]
    print("\n".join(lines))
    replace_table(page, f"fpga-area-{parameters.name}", lines)


def is_current(page: Path, parameters: DieParameters) -> bool:
    """Whether the table of a die's blocks is of today's Verilog."""
    return f"{DIGEST}`{digest(emit.verilog(Die(parameters), 'die', family=FAMILY))}`" in page.read_text()
