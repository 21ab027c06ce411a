"""Costs of the tasks of predicted gathers and skipped scatters, with strings as long as expected (docs/prediction.md).

Cycles are those of stages as they are built (:mod:`plinth.machine.codes`). Of an array whose ``codes`` are ``at-links``
they are a model of what MPT (section VI.C) has in its place, between buffers and links: words of a gather are coded on
their way out of the output buffer, strings leave a flit a cycle, and land as words; tiles of a scatter are made, packed
and sent in one pass (:mod:`plinth.step.layers.winograd`); masks are made, and strings decoded, on the way, without
memory or an engine.
"""

from dataclasses import replace

from plinth.array.array import AT_LINKS, Array
from plinth.machine.codes import (
    block_word,
    named_word,
    prediction_cycles,
    region_word,
    runs_cycles,
    skipped_word,
)
from plinth.machine.memory import row_words
from plinth.machine.record import WorkCost
from plinth.machine.transforms import NEXT_CYCLES
from plinth.step.tasks import CodePart, Decode, Encode, Predict, SkipPart
from plinth_hw.isa.parameters import DieParameters


def _word(lanes: int, part: CodePart | SkipPart, decodes: bool) -> float:
    """Cycles of a word of a run."""
    if isinstance(part, SkipPart):
        return skipped_word(lanes)
    if part.regions:
        return region_word(lanes, part.share if part.number else None, decodes)
    return named_word(lanes, part.share, part.exact) if part.number else block_word(lanes, part.share, decodes)


def codes_source(array: Array) -> str:
    """What people must be told of an array's codes beside where cycles come from; empty if nothing."""
    return ("; coding and predicting tiles is modelled to keep up with links, which stages as they are built do not"
            if array.codes == AT_LINKS else "")


#: What decoding and predicting take at links: nothing of the engine or the memory.
AT_NO_COST = WorkCost(0.0, 0.0)


def _coded(parameters: DieParameters, work: Encode | Decode, decodes: bool) -> tuple[float, float, float, float]:
    """Of runs and strings: cycles alone; words of the masks, of the runs' beats and of the strings."""
    runs, words = work.runs.rows, work.runs.columns
    alone = runs_cycles(runs, words, _word(parameters.within.flit_words, work.part, decodes), decodes)
    return (alone, 0.0 if work.masks is None else float(runs * work.masks.columns), runs * row_words(parameters, words),
            runs * (1 + work.part.share * words))


def encode_cost(parameters: DieParameters, work: Encode, codes: str | None = None) -> WorkCost:
    """What runs that become strings take; ``codes`` of the array. Strings that leave the die are a packet each."""
    runs = work.runs.rows
    if codes == AT_LINKS:
        assert isinstance(work.part, CodePart)
        words = runs * work.runs.columns
        string = runs + work.part.share * words
        alone = string / parameters.flit_words
        reads, writes = float(words * (not work.part.number)), float(words * work.part.exact)
    else:
        alone, masks, whole, string = _coded(parameters, work, False)
        reads, writes = whole + masks, string
    leaves = work.die is not None or codes == AT_LINKS
    return WorkCost(alone, alone + NEXT_CYCLES, reads, writes, flits=string / parameters.flit_words if leaves else 0.0,
                    packets=string / parameters.chunk_words + runs if leaves else 0.0)


def decode_cost(parameters: DieParameters, work: Decode, codes: str | None = None) -> WorkCost:
    """What strings that become runs take; ``codes`` of the array."""
    if codes == AT_LINKS:
        return AT_NO_COST
    alone, masks, whole, string = _coded(parameters, work, True)
    stored = masks if work.stores else 0.0
    return WorkCost(alone, alone + NEXT_CYCLES, masks - stored + string + work.refines * whole, whole + stored)


def predict_cost(parameters: DieParameters, work: Predict, codes: str | None = None) -> WorkCost:
    """What masks of fills take; ``codes`` of the array. Both ends of each neuron are summed."""
    elements, tiles, channels = work.masks.rows, work.fills.rows, work.fills.columns
    adds = 2.0 * tiles * channels * elements
    if codes == AT_LINKS:
        return replace(AT_NO_COST, adds=adds)
    alone = prediction_cycles(parameters.within.flit_words, elements, tiles, channels)
    reads = elements * tiles * row_words(parameters, channels)
    if work.added is not None:
        reads += work.added.rows * row_words(parameters, channels)
    return WorkCost(alone, alone + NEXT_CYCLES, reads, elements * work.masks.columns, adds=adds)
