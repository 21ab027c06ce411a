"""What the tasks of predicted gathers and skipped scatters cost, of strings as long as expected (docs/prediction.md).

Cycles are those of stages as they are built. Of an array whose ``codes`` are ``at-links`` they are a model of what MPT
(section VI.C) has in its place, between buffers and links: words of a gather are coded on their way out of the output
buffer, strings leave a flit a cycle, and land as words; tiles of a scatter are made, packed and sent in one pass
(:mod:`plinth.step.winograd`); masks are made, and strings decoded, on the way, without memory or an engine.
"""

from dataclasses import replace

from plinth.array.array import AT_LINKS, Array
from plinth.predict.copies import MEMORY_LATENCY
from plinth.predict.machine import row_words
from plinth.predict.record import WorkCost
from plinth.step.tasks import CodePart, Decode, Encode, Predict, SkipPart
from plinth_hw.isa.codes import BLOCK
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import DieParameters

#: Cycles of a run beside its words, encoding; decoding memory's latency comes twice, as strings begin with lengths.
RUN_CYCLES, DECODE_CYCLES = 36, 28
#: Cycles of a block in a first part beside its planes, encoding and decoding.
BLOCK_CYCLES, DECODE_BLOCK_CYCLES = 2, 1
#: Codes of regions that are made, or read, a cycle at most.
REGION_WORDS = 4
#: Cycles of the words that a mask names, for each word of a next part's string: to exact words, to a lower level, whose
#: string has fewer bits of each.
EXACT_CYCLES, LOWER_CYCLES = 1.65, 7.0
#: Cycles of a window of tiles for each of its elements, in a prediction: its highest and its lowest value.
ELEMENT_CYCLES = 2
#: From a task's end to the start of the next one.
NEXT_CYCLES = 32


def _cycles(lanes: int, part: CodePart | SkipPart, decodes: bool) -> float:
    """Of a word of a run: of a first part a block at a time, a plane of bits a cycle, if its words do not take longer;
    of a next one a flit at a time, and the words of it that masks name; of what is skipped a flit at a time, and
    its mask; of regions a flit at a time, and, decoding the next part, words that masks name."""
    if isinstance(part, SkipPart):
        return 1 / lanes + 1 / WORD_BITS
    if part.regions:
        if part.number:
            return 1 / lanes + (part.share if decodes else 1 / WORD_BITS)
        return max(1 / lanes, 1 / REGION_WORDS) + 1 / WORD_BITS
    if part.number:
        return 1 / lanes + (EXACT_CYCLES if part.exact else LOWER_CYCLES) * part.share
    return max(1 / lanes, part.share * WORD_BITS / BLOCK + (DECODE_BLOCK_CYCLES if decodes else BLOCK_CYCLES) / BLOCK)


def codes_source(array: Array) -> str:
    """What people must be told of an array's codes beside where cycles come from; empty if nothing."""
    return ("; coding and predicting tiles is modelled to keep up with links, which stages as they are built do not"
            if array.codes == AT_LINKS else "")


#: What decoding and predicting take at links: nothing of the engine or the memory.
AT_NO_COST = WorkCost(0.0, 0.0)


def _coded(parameters: DieParameters, work: Encode | Decode, decodes: bool) -> tuple[float, float, float, float]:
    """Of runs and strings: cycles alone; words of the masks, of the runs' beats and of the strings."""
    runs, words = work.runs.rows, work.runs.columns
    each = _cycles(parameters.within.flit_words, work.part, decodes)
    alone = runs * (words * each + (DECODE_CYCLES + 2 * MEMORY_LATENCY if decodes else RUN_CYCLES))
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
    alone = elements * tiles * (channels / parameters.within.flit_words) * ELEMENT_CYCLES + MEMORY_LATENCY
    reads = elements * tiles * row_words(parameters, channels)
    if work.added is not None:
        reads += work.added.rows * row_words(parameters, channels)
    return WorkCost(alone, alone + NEXT_CYCLES, reads, elements * work.masks.columns, adds=adds)
