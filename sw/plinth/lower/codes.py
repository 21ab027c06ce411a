"""Tasks of predicted gathers: strings of runs, runs of strings, masks of fills; and where their levels stand, which the
host may set anew between steps."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, log2
from typing import Any

from plinth.buffers import Buffer
from plinth.errors import UserError
from plinth.lower.transforms import matrix_numbers
from plinth.partition.predicted import REGION_CODE
from plinth.step.tasks import CodePart, Decode, Encode, Predict, SkipPart
from plinth_hw.isa.codes import LEVELS, MOST_SHIFT, REGION_BITS, SCALES, STEPS
from plinth_hw.isa.descriptors import HEADER_WORDS
from plinth_hw.isa.layout import pack
from plinth_hw.isa.tasks import field_word
from plinth_hw.isa.transfer_bodies import CodeBody

#: By how much a level is below that of the round before.
ROUND_STEP = 4
#: Levels that a layer may have, such that those of all its parts and elements are levels.
LAYER_LEVELS = range(LEVELS.start + MOST_SHIFT + ROUND_STEP, LEVELS.stop)
#: By how much levels of F(2, r) are below the size of neurons, by rounds; of others one more, as each neuron is a sum
#: of more elements.
BELOW = {1: 5, 2: 4}
#: By how much more before a max-pool, where neurons are compared with each other.
POOLED_BELOW = 1
#: The same of scales of regions, by outputs of a tile.
SCALE_BELOW = {2: 6, 4: 7}
#: The size of neurons that steps before which nothing is known are taken to have.
FIRST_SIZE = 1.0
#: The word of a descriptor that has levels; what else a PREDICT says stands in others.
LEVEL_WORD = HEADER_WORDS + field_word(CodeBody, "first")
assert ROUND_STEP in STEPS and LAYER_LEVELS[0] in SCALES and LAYER_LEVELS[-1] in SCALES


def level_of(size: float, part: CodePart) -> int:
    """The level of a layer whose living neurons have a size, the root of the mean of their squares: what takes about
    the fewest bits of networks as in docs/prediction.md.

    Raises
    ------
    UserError
        If the size is none: 0 or below, infinite or NaN.
    """
    if not isfinite(size) or size <= 0:
        raise UserError(f"levels of layer {part.layer!r} cannot follow from neurons of size {size}; it must be a "
                        "number above 0")
    below = BELOW[part.rounds] + (part.outputs > 2) + POOLED_BELOW * part.pooled
    level = round(log2(size)) - (SCALE_BELOW[part.outputs] if part.regions else below)
    return min(max(level, LAYER_LEVELS.start), LAYER_LEVELS.stop - 1)


def _fields(part: CodePart | SkipPart, masked: bool) -> dict[str, int]:
    """What a task codes, of a level as if neurons had the size that they are first taken to have."""
    if isinstance(part, SkipPart):
        return {"skips": 1, "sent": int(part.sent), "given": int(masked), "maps": int(part.maps)}
    return level_fields(part, level_of(FIRST_SIZE, part))


def level_fields(part: CodePart, level: int, predicts: bool = False) -> dict[str, int]:
    """Fields of a part's tasks, with the layer's level.

    Raises
    ------
    ValueError
        If the layer may not have the level.
    """
    if level not in LAYER_LEVELS:
        raise ValueError(f"the level of layer {part.layer!r} must be from {LAYER_LEVELS.start} to "
                         f"{LAYER_LEVELS.stop - 1}, not {level}")
    if part.regions:
        whole = {"follows": 1, "exact": 1} if part.number and not predicts else {}
        return {"first": level, "regions": REGION_CODE - REGION_BITS[0] + 1, **whole}
    here = level - part.shift - ROUND_STEP * part.number
    if predicts or not part.number:
        return {"first": here}
    before = here + ROUND_STEP
    fields = {"first": before, "known": before, "follows": 1}
    return fields | ({"exact": 1} if part.exact else {"lower": here})


@dataclass(frozen=True)
class LevelPlace:
    """A word of a die's memory that has levels of a layer: of a task of its step graph."""

    die: int
    task: int
    part: CodePart
    predicts: bool

    def word(self, level: int) -> int:
        """The word of the descriptor that holds the layer's level."""
        packed = pack(CodeBody, level_fields(self.part, level, self.predicts))
        return packed[field_word(CodeBody, "first")]


#: Says where a piece of a place lies in memory.
Placing = Callable[[Buffer], Buffer]


def predict_body(work: Predict, at: Placing) -> dict[str, Any]:
    """The body of the descriptor that makes masks of fills; ``at`` says where places lie in memory."""
    fills, (down, across), window = at(work.fills), matrix_numbers(work.node), work.node.window
    assert window is not None
    side = 2 * work.part.pooled
    added: dict[str, Any] = {}
    if work.added is not None:
        maps = at(work.added)
        below = window.output[1] * maps.stride
        added = {"mask": maps.pointer, "source_across": maps.stride, "source_down": below,
                 "mask_row_stride": window.output[0] * below}
    return {
        "source": fills.pointer, "source_row_stride": fills.stride, "source_plane_stride": work.plane,
        "destination": at(work.masks).pointer, "destination_row_stride": work.masks.stride,
        "columns": fills.columns, "rows": fills.rows, "planes": 1, "down": down, "across": across,
        "codes": at(work.bias).pointer, "destination_rows": window.output[0],
        "destination_columns": window.output[1], "destination_row_step": side, "destination_column_step": side,
        **added, **level_fields(work.part, level_of(FIRST_SIZE, work.part), predicts=True)}


def _runs(work: Encode | Decode, at: Placing) -> dict[str, Any]:
    """Fields of runs, and of their masks."""
    runs = at(work.runs)
    body: dict[str, Any] = {
        "columns": runs.columns, "rows": runs.rows, "planes": 1, "source": runs.pointer,
        "source_row_stride": runs.stride, **_fields(work.part, work.masks is not None)}
    if work.masks is not None:
        body |= {"mask": at(work.masks).pointer, "mask_row_stride": work.masks.stride}
    return body


def encode_body(work: Encode, at: Placing) -> dict[str, Any]:
    """The body of the descriptor that makes strings of runs; ``at`` says where places lie in memory."""
    strings = at(work.strings)
    to = {} if work.die is None else {"destination_die": work.die, "remote": 1, "arrival_enable": 1}
    return _runs(work, at) | {"destination": strings.pointer, "destination_row_stride": strings.stride, **to}


def decode_body(work: Decode, at: Placing) -> dict[str, Any]:
    """The body of the descriptor that makes runs of strings; ``at`` says where places lie in memory."""
    runs, strings = at(work.runs), at(work.strings)
    return _runs(work, at) | {
        "destination": runs.pointer, "destination_row_stride": runs.stride, "codes": strings.pointer,
        "codes_row_stride": strings.stride}
