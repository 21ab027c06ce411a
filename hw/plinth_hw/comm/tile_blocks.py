"""The transfer engine's tasks that transform: their bodies, and the stages that their blocks go through.

::

    body --> lattices, matrices --------+
    walk --pieces--> addresses, words --+--> TileStages --> flits
                                               |  ^
                                    (TileRead) v  |

The walk's rows are tiles, its columns channels, and its pieces blocks of at most a beat of channels. Latency: none of
its own.
"""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.comm.tile_read import tile_flit_layout, tile_piece_layout
from plinth_hw.comm.tile_stages import TileStages
from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.transfer_bodies import TransferBody, TransformBody
from plinth_hw.isa.winograd import MATRICES, matrix_numbers
from plinth_hw.lib.choice import select
from plinth_hw.shapes import shape_of

#: Words of a body that other tasks have as well.
_FIRST = TransferBody.BITS // WORD_BITS


def _lattices_layout() -> data.StructLayout:
    """What only bodies of these tasks have."""
    shapes = shape_of(TransformBody)
    return data.StructLayout({name: shapes[name].shape for name, field in TransformBody.FIELDS.items()
                              if field.offset >= TransferBody.BITS})


def spread_layout(parameters: DieParameters) -> data.StructLayout:
    """``members``, ``places``, ``longer`` as in a body; ``step`` between dies; ``all`` places of a tile."""
    shapes = shape_of(TransformBody)
    most = max(len(MATRICES[number]) for number in matrix_numbers(parameters.transforms))
    return data.StructLayout({
        "members": shapes["members"].shape, "places": shapes["member_places"].shape,
        "longer": shapes["longer_members"].shape, "step": shapes["member_step"].shape,
        "all": unsigned((most * most).bit_length())})


class TileBlocks(wiring.Component):
    """Transforms what a walk walks.

    Parameters
    ----------
    parameters : DieParameters
        With transforms.

    Members
    -------
    body_valid, body : In(1), In(BodyWord)
        A word of a task's body; none comes from ``start`` until the task has ended.
    unfit : Out(1)
        The body names a matrix that the die has not.
    die : In
        The first one that tiles go to.
    spread : Out, :func:`spread_layout`
        To how many they go.
    start : In(1)
        Pulse: the walk begins.
    walk : In stream of :func:`~plinth_hw.comm.tile_read.tile_piece_layout`
    ends_row, ends_plane : In(1)
        As of :class:`~plinth_hw.comm.tile_walk.TileWalk`.
    piece : Out, flit : In stream
        To and from what reads.
    o : Out stream of :func:`~plinth_hw.comm.tile_read.tile_flit_layout`
        Each packet is one that ``last`` marks.
    idle : Out(1)
        Of all pieces that were taken everything has been given.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        piece, flit = (stream.Signature(layout(parameters)) for layout in (tile_piece_layout, tile_flit_layout))
        super().__init__({
            "body_valid": In(1), "body": In(BodyWord), "unfit": Out(1), "start": In(1),
            "die": In(self.parameters.die_bits), "spread": Out(spread_layout(parameters)),
            "walk": In(piece), "ends_row": In(1), "ends_plane": In(1),
            "piece": Out(piece), "flit": In(flit), "o": Out(flit), "idle": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        numbers = matrix_numbers(self.parameters.transforms)
        m.submodules.stages = stages = TileStages(self.parameters, [MATRICES[number] for number in numbers])
        wiring.connect(m, stages.piece, wiring.flipped(self.piece))
        wiring.connect(m, wiring.flipped(self.flit), stages.flit)
        wiring.connect(m, stages.o, wiring.flipped(self.o))
        # Words of the body as they lie.
        layout = _lattices_layout()
        kept = Signal(data.ArrayLayout(unsigned(WORD_BITS), layout.size // WORD_BITS), name="kept")
        with m.If(self.body_valid), m.Switch(self.body.index):
            for place in range(layout.size // WORD_BITS):
                with m.Case(_FIRST + place):
                    m.d.sync += kept[place].eq(self.body.word)
        body = data.View(layout, kept.as_value())

        # A matrix' place among those of the die.
        known = {way: Signal(name=f"{way}_known") for way in ("down", "across")}
        for way, is_known in known.items():
            with m.Switch(body[way]):
                for place, number in enumerate(numbers):
                    with m.Case(number):
                        m.d.comb += [getattr(stages, way).eq(place), is_known.eq(1)]
        rows = select([len(MATRICES[number]) for number in numbers], stages.down)
        columns = select([len(MATRICES[number]) for number in numbers], stages.across)
        members = stages.members
        m.d.comb += [
            members.several.eq(body.members != 0), members.die.eq(self.die), members.step.eq(body.member_step),
            members.places.eq(body.member_places - 1), members.longer.eq(body.longer_members),
            self.spread.members.eq(body.members), self.spread.step.eq(body.member_step),
            self.spread.places.eq(body.member_places), self.spread.longer.eq(body.longer_members),
            self.spread.all.eq(rows * columns),
            self.unfit.eq(~(known["down"] & known["across"])), stages.start.eq(self.start),
            stages.down_first.eq(body.down_first), self.idle.eq(stages.idle),
        ]
        if self.parameters.codes:
            m.d.comb += stages.marks.eq(body.marks)
        for side in ("source", "destination"):
            lattice = getattr(stages, side)
            m.d.comb += [lattice[name].eq(body[f"{side}_{name}"]) for name, _ in lattice.shape()]
        walked, block = self.walk.payload, stages.block.payload
        m.d.comb += [
            block.source.eq(walked.source + body.source_origin),
            block.destination.eq(walked.run.address + body.destination_origin),
            block.words.eq(walked.run.words), block.ends_tile.eq(self.ends_row), block.ends_row.eq(self.ends_plane),
            stages.block.valid.eq(self.walk.valid), self.walk.ready.eq(stages.block.ready),
        ]
        return m
