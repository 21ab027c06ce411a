"""Graphs whose transfer engine codes runs of words and decodes them."""

from typing import Any

from plinth.driver.program import Program
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth_hw.isa.operations import Engine, TransferOperation
from plinth_hw.isa.parameters import DieParameters

#: Runs, words of each, and words of memory that the code of each may take.
ROWS, COLUMNS, ROOM = 2, 40, 80
#: Fields of the codes.
CODES: dict[str, dict[str, int]] = {
    "block": {"first": -4}, "skip": {"skips": 1, "sent": 1}, "regions": {"first": -2, "regions": 3}}


def coded_graph(parameters: DieParameters, code: str, *, forged: bool) -> GraphBuilder:
    """Runs are coded, then the first string's length, if it is ``forged``, is overwritten, then strings decoded."""
    builder = GraphBuilder(parameters)
    runs, decoded = (builder.allocate(name, ROWS, COLUMNS) for name in ("runs", "decoded"))
    strings, length = builder.allocate("strings", ROWS, ROOM), builder.allocate("length", 1, 1)

    def add(name: str, operation: TransferOperation, source: Any, destination: Any, rows: int = ROWS,
            columns: int = COLUMNS, **more: Any) -> None:
        builder.add(name, Engine.TRANSFER, operation, {
            "source": source.pointer, "source_row_stride": source.stride, "destination": destination.pointer,
            "destination_row_stride": destination.stride, "rows": rows, "columns": columns, "planes": 1, **more},
            reads=[source], writes=[destination])

    add("encode", TransferOperation.ENCODE, runs, strings, **CODES[code])
    if forged:
        add("forge", TransferOperation.COPY, length, strings, rows=1, columns=1)
    builder.add("decode", Engine.TRANSFER, TransferOperation.DECODE, {
        "source": decoded.pointer, "source_row_stride": decoded.stride, "destination": decoded.pointer,
        "destination_row_stride": decoded.stride, "codes": strings.pointer, "codes_row_stride": strings.stride,
        "rows": ROWS, "columns": COLUMNS, "planes": 1, **CODES[code]}, reads=[strings], writes=[decoded])
    return builder


def coded_program(parameters: DieParameters, dies: int, code: str, *, memory_words: int,
                  forged: bool = False) -> Program:
    """That graph on every die of a ring."""
    return assemble([ring_setup(parameters, range(dies), die, 0) for die in range(dies)],
                    [coded_graph(parameters, code, forged=forged) for _ in range(dies)], memory_words=memory_words)
