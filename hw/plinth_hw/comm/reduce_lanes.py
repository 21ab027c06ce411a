"""Arithmetic of the collective engine: ``flit_words`` lanes that all reduce blocks share.

::

    i_b --> choice --> register --> a + b --+--------------> result
                          |                 +--> Update -----> |
                          +--> w, delayed -------> |

One sector a cycle, never stalled: a block offers operands only when it has room for the result. A sum that would come
out together with another block's update waits for a cycle. The links carry less than a flit a cycle, so blocks do not
lose anything by sharing. Latency from the grant: ``sum_latency`` and ``update_latency`` cycles. Each operation is
rounded to nearest even.
"""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.units import adder
from plinth_hw.comm.message import sector_layout
from plinth_hw.comm.update import Update
from plinth_hw.control.engine import ends_signature
from plinth_hw.isa.formats import Fixed, Format
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.arbiter import RoundRobin
from plinth_hw.lib.count import population
from plinth_hw.lib.delay import DelayLine, delayed


def neutral(fmt: Format) -> int:
    """What changes nothing when it is added: -0, or 0 of fixed point."""
    return 0 if isinstance(fmt, Fixed) else 1 << fmt.bits - 1


def operands_layout(parameters: DieParameters) -> data.StructLayout:
    """``a + b``, or ``a`` if it is ``alone``, with the ``words`` and ``tail`` of ``a``. ``own``: this member
    owns the chunk; ``update``: subtract ``rate`` times the sum from ``w``."""
    sector = sector_layout(parameters)
    return data.StructLayout({"a": sector, "b": sector["data"].shape, "w": sector["data"].shape,
                              "alone": 1, "own": 1, "update": 1})


def result_layout(parameters: DieParameters) -> data.StructLayout:
    """A sector, and whether its chunk is this member's ``own``."""
    return data.StructLayout({"sector": sector_layout(parameters), "own": 1})


class ReduceLanes(wiring.Component):
    """Adders, multipliers and the choice between blocks.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    i_0 ... : In streams of :func:`operands_layout`, one a block
    rate_0 ... : In(32)
        Learning rate of each block's message, constant while it has sectors here.
    valid : Out, a bit a block
        ``result`` is that block's: a sum, or the update of its own chunk.
    result : Out, :func:`result_layout`
    ends : Out
        Of fixed point: how many sums, products and differences were beyond the format, the cycle before.

    Attributes
    ----------
    sum_latency, update_latency : int
        Cycles from the grant to the ``result``.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        self._blocks = parameters.reduce_blocks
        self._adders = [adder(parameters.memory_format) for _ in range(parameters.flit_words)]
        self._updates = [Update(parameters.memory_format) for _ in range(parameters.flit_words)]
        result = result_layout(parameters)
        super().__init__({
            **{f"i_{b}": In(stream.Signature(operands_layout(parameters))) for b in range(self._blocks)},
            **{f"rate_{b}": In(32) for b in range(self._blocks)},
            "valid": Out(self._blocks), "result": Out(result),
            **ends_signature(parameters, 3 * parameters.flit_words),
        })

    @property
    def sum_latency(self) -> int:
        """Cycles from the grant to a sum."""
        return 1 + self._adders[0].latency

    @property
    def update_latency(self) -> int:
        """Cycles from the grant to an update."""
        return self.sum_latency + self._updates[0].latency

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        blocks, words = range(self._blocks), self._parameters.flit_words
        inputs = [getattr(self, f"i_{b}") for b in blocks]
        m.submodules.turn = turn = RoundRobin(self._blocks)
        grant = turn.grant
        chosen, held = Signal(operands_layout(self._parameters)), Signal(name="held")
        m.d.comb += [turn.requests.eq(Cat(port.valid & (port.payload.update | ~held) for port in inputs)),
                     turn.taken.eq(1),
                     *(port.ready.eq(grant[b]) for b, port in enumerate(inputs))]
        m.d.comb += chosen.eq(inputs[0].payload)
        for b in blocks[1:]:
            with m.If(grant[b]):
                m.d.comb += chosen.eq(inputs[b].payload)

        operands = Signal.like(chosen)
        m.d.sync += operands.eq(chosen)
        with m.If(chosen.alone):
            m.d.sync += [word.eq(neutral(self._parameters.memory_format)) for word in operands.b]

        # What travels beside the words: block, kind, number of words, end of chunk.
        a = sector_layout(self._parameters)
        tag_shape = data.StructLayout({"block": self._blocks, "own": 1, "update": 1,
                                       "words": a["words"].shape, "tail": 1})
        tags = [Signal(tag_shape, name=f"tag_{age}") for age in range(self.update_latency + 1)]
        m.d.comb += [
            tags[0].block.eq(grant), tags[0].own.eq(chosen.own),
            tags[0].update.eq(chosen.update), tags[0].words.eq(chosen.a.words),
            tags[0].tail.eq(chosen.a.tail),
        ]
        # An update comes out when a sum would that was granted now.
        before_it = tags[self.update_latency - self.sum_latency]
        m.d.comb += held.eq(before_it.update & before_it.block.any())
        m.d.sync += [after.eq(before) for before, after in pairwise(tags)]
        to_update = self.sum_latency + self._updates[0].weight_latency
        # A register behind the look-up-table RAM, as in front of the adders' other inputs.
        m.submodules.weights = kept = DelayLine(chosen.w.shape(), to_update - 1)
        weights = delayed(m, "weights", kept.o, 1)
        # Chosen a cycle before its sum comes.
        rate, before_sum = Signal(32), tags[self.sum_latency - 1]
        at_sum, at_update, updated = tags[self.sum_latency], tags[self.update_latency], Signal(name="updated")
        m.d.comb += kept.i.eq(chosen.w)
        m.d.sync += rate.eq(self.rate_0)
        for b in blocks[1:]:
            with m.If(before_sum.block[b]):
                m.d.sync += rate.eq(getattr(self, f"rate_{b}"))
        for word in range(words):
            total, update = self._adders[word], self._updates[word]
            m.submodules[f"adder_{word}"] = total
            m.submodules[f"update_{word}"] = update
            m.d.comb += [
                total.a.eq(operands.a.data[word]), total.b.eq(operands.b[word]),
                update.sum.eq(total.o), update.rate.eq(rate), update.w.eq(weights[word]),
                self.result.sector.data[word].eq(Mux(updated, update.o, total.o)),
            ]
        result_tag = data.View(tag_shape, Mux(updated, at_update.as_value(), at_sum.as_value()))
        m.d.comb += [
            updated.eq(at_update.update & at_update.block.any()),
            self.result.sector.words.eq(result_tag.words), self.result.sector.tail.eq(result_tag.tail),
            self.result.own.eq(result_tag.own),
            self.valid.eq(Mux(updated, at_update.block, at_sum.block & (~at_sum.update).replicate(self._blocks))),
        ]
        if isinstance(self._parameters.memory_format, Fixed):
            m.d.sync += self.ends.eq(population(Cat(
                unit.beyond & (word <= at_sum.words) & at_sum.block.any() for word, unit in enumerate(self._adders)))
                + sum(Mux((word <= at_update.words) & updated, unit.ends, 0)
                      for word, unit in enumerate(self._updates)))
        return m
