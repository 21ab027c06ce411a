"""Wide flits become flits and wide flits again: packets of any place and length, with idle cycles and stalls."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from tests.support.amaranth_sim import randomly, receive, send, simulate

from plinth_hw.comm.flit import PacketKind, flit_layout
from plinth_hw.comm.flit_width import FlitJoin, FlitSplit
from plinth_hw.isa.parameters import DieParameters, preset


class Both(wiring.Component):
    """What a die splits, another joins; flits between them are seen."""

    def __init__(self, parameters: DieParameters):
        self.split, self.join = FlitSplit(parameters), FlitJoin(parameters)
        wide = stream.Signature(flit_layout(parameters.within))
        super().__init__({"i": In(wide), "o": Out(wide), "flits": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.split, m.submodules.join = self.split, self.join
        wiring.connect(m, wiring.flipped(self.i), self.split.i)
        wiring.connect(m, self.split.o, self.join.i)
        wiring.connect(m, self.join.o, wiring.flipped(self.o))
        flit = self.split.o
        with m.If(flit.valid & flit.ready):
            m.d.sync += self.flits.eq(self.flits + 1)
        return m


def packet(rng: np.random.Generator, wide: int, address: int, words: int, kind: PacketKind) -> list[dict[str, object]]:
    """Wide flits of a packet: its words in the lanes of their addresses."""
    flits, at = [], address
    while at < address + words:
        end = min(address + words, at // wide * wide + wide)
        lanes = [int(rng.integers(1 << 32)) if at % wide <= lane < at % wide + end - at else 0 for lane in range(wide)]
        flits.append({"data": lanes, "words": end - at - 1, "destination": 3, "kind": kind, "message": address & 0xFF,
                      "tail": int(end == address + words)})
        at = end
    return flits


@pytest.mark.parametrize(("flit_words", "transfer_words", "offer", "accept"), [
    (1, 4, 1.0, 1.0), (2, 4, 0.7, 1.0), (2, 8, 1.0, 0.6), (4, 8, 0.8, 0.8)])
def test_what_is_split_is_joined_as_it_was(flit_words: int, transfer_words: int, offer: float, accept: float) -> None:
    parameters = preset("ndp-demo", flit_words=flit_words, transfer_words=transfer_words)
    rng, sent = np.random.default_rng(flit_words + transfer_words), []
    for _ in range(40):
        if rng.random() < 0.2:
            sent.append({"kind": PacketKind.ADVANCE, "message": int(rng.integers(64)), "tail": 1})
        else:
            sent += packet(rng, transfer_words, int(rng.integers(256)), int(rng.integers(1, 3 * transfer_words)),
                           PacketKind.STORE if rng.random() < 0.5 else PacketKind.ADD)
    dut, received, counted = Both(parameters), [], []

    async def source(ctx):
        await send(ctx, dut.i, sent, randomly(1, offer))

    async def sink(ctx):
        for flit in await receive(ctx, dut.o, len(sent), randomly(2, accept)):
            received.append(flit)
        counted.append(ctx.get(dut.flits))

    simulate(dut, source, sink)
    begins, flits = True, 0
    for flit, wanted in zip(received, sent, strict=True):
        assert (flit.kind, flit.message, flit.tail) == (wanted["kind"], wanted["message"], wanted["tail"])
        if wanted["kind"] is not PacketKind.ADVANCE:
            first = wanted["message"] % transfer_words if begins else 0
            last = first + wanted["words"]
            assert flit.words == wanted["words"] and flit.destination == 3
            assert list(flit.data)[first:last + 1] == wanted["data"][first:last + 1]
            flits += last // flit_words - first // flit_words + 1
        else:
            flits += 1
        begins = bool(wanted["tail"])
    assert counted == [flits]
