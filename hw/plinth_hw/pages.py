"""Tables of pages whose numbers are those of presets: ``python -m plinth_hw.pages``.

With ``--check`` nothing is written, and the exit code is 1 if a page is out of date.

They stand between markers, as :func:`replaced` finds them, and are replaced as a whole.
"""

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from plinth_hw.comm.flit import flit_layout
from plinth_hw.control.counters import VISIT_CYCLES
from plinth_hw.control.registers import counter_count
from plinth_hw.control.scheduler import QUEUE_DEPTH
from plinth_hw.installation import NO_PAGES, checkout
from plinth_hw.isa.formats import Float, Format
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.matrix.geometry import Geometry
from plinth_hw.terminal.files import write_text
from plinth_hw.terminal.program import program

#: Columns of the tables, and what each is for.
SHOWN = {"ndp-tiny": "block tests", "ndp-demo": "training run", "ndp-demo-mixed": "FP16 products",
         "fpga-demo": "the same in Q3.12", "ndp-bench": "benchmarks", "ndp-paper": "MPT's figures",
         "ndp-paper-mixed": "the same with FP16 products"}

Row = Callable[[DieParameters], str]


def replaced(text: str, marker: str, lines: Iterable[str]) -> str:
    """A page with a table between ``<!-- marker -->`` and ``<!-- /marker -->``.

    Raises
    ------
    ValueError
        If it has no such markers.
    """
    pattern = re.compile(rf"(<!-- {marker} -->\n).*?(<!-- /{marker} -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no markers <!-- {marker} --> and <!-- /{marker} -->")
    return pattern.sub(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], text)


def _kib(parameters: DieParameters, words: int) -> str:
    return f"{words * parameters.word_bits / 8 / 1024:,g}"


def _format(fmt: Format) -> str:
    return f"FP{fmt.bits}" if isinstance(fmt, Float) else str(fmt).upper()


def _tile_words(parameters: DieParameters) -> int:
    return parameters.rows * parameters.columns * parameters.interleave


def _buffers(parameters: DieParameters) -> str:
    geometry = Geometry(parameters)
    lines = geometry.output_lines, max(geometry.tile_lines)
    return ", ".join(_kib(parameters, count * parameters.beat_words) for count in lines)


#: docs/die.md
PRESET_ROWS: dict[str, Row] = {
    "array": lambda p: f"{p.rows} x {p.columns}",
    "products": lambda p: _format(p.multiply_format),
    "word, bits": lambda p: f"{p.word_bits}",
    "beat, words": lambda p: f"{p.beat_words}",
    "AXI4": lambda p: f"{p.axi_ports} x {p.beat_bits // p.axi_ports:,} bits" if p.axi_ports else "none",
    "memory, words a cycle": lambda p: f"{p.memory_words_per_cycle}",
    "tile, words": lambda p: f"{_tile_words(p):,}",
    "operand buffers, KiB": lambda p: _kib(p, 4 * p.operand_buffer_words),
    "output, preload buffer, KiB": _buffers,
    "vector scratchpad, KiB": lambda p: _kib(p, 2 * p.vector_buffer_words),
    "flit, payload (all) bits": lambda p: f"{p.word_bits * p.flit_words} ({flit_layout(p).size})",
    "link buffer of a class, flits": lambda p: f"{p.link_buffer_flits}",
    "slots of an element": lambda p: f"{p.interleave}",
    "chunk, words; reduce blocks": lambda p: f"{p.chunk_words}; {p.reduce_blocks}",
    "links; flits a cycle": lambda p: f"{p.ports}; {p.link_rate}" if p.ports else "none",
    "update counters": lambda p: f"{p.counters}",
}
#: docs/control.md
CONTROL_ROWS: dict[str, Row] = {
    **{f"words of a body, {engine.name.lower()}":
       lambda p, engine=engine: f"{p.body_words(engine)}" if engine in p.engines else "-"  # type: ignore[misc]
       for engine in Engine},
    "bodies that wait, words": lambda p: f"{QUEUE_DEPTH * sum(p.body_words(engine) for engine in p.engines)}",
    "performance counters": lambda p: f"{counter_count(p)}",
    "sweep over them, cycles": lambda p: f"{VISIT_CYCLES * counter_count(p)}",
}
CONTROL_SHOWN = ("ndp-demo", "fpga-demo", "hypar-demo")


def table(names: Iterable[str], rows: dict[str, Row], first: Iterable[str] = ()) -> list[str]:
    """A table of presets, a column each."""
    parameters = [preset(name) for name in names]
    return [f"| | {' | '.join(f'`{name}`' for name in names)} |", "| --- " * (len(parameters) + 1) + "|", *first,
            *(f"| {title} | {' | '.join(row(die) for die in parameters)} |" for title, row in rows.items())]


def pages(root: Path) -> dict[Path, dict[str, list[str]]]:
    """Tables of a checkout's pages, by page and marker."""
    return {
        root / "docs" / "die.md": {"presets": table(SHOWN, PRESET_ROWS, [f"| for | {' | '.join(SHOWN.values())} |"])},
        root / "docs" / "control.md": {"control-sizes": table(CONTROL_SHOWN, CONTROL_ROWS)},
    }


def main(arguments: list[str]) -> int:
    """Entry point; 1 if a page is out of date, 2 if there are no pages or the arguments are wrong."""
    if arguments not in ([], ["--check"]):
        print("plinth_hw.pages: error: say --check, or nothing", file=sys.stderr)
        return 2
    root = checkout()
    if root is None:
        print(f"plinth_hw.pages: error: {NO_PAGES}", file=sys.stderr)
        return 2
    stale = []
    for page, tables in pages(root).items():
        before = after = page.read_text(encoding="utf-8")
        for marker, lines in tables.items():
            after = replaced(after, marker, lines)
        if before != after and not arguments:
            write_text(page, after)
        elif before != after:
            stale.append(page.name)
    if stale:
        print(f"out of date: {', '.join(stale)}; run python -m plinth_hw.pages", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    with program("plinth_hw.pages"):
        sys.exit(main(sys.argv[1:]))
