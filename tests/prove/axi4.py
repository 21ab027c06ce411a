"""AXI4's rules of master and slave, as properties (ARM IHI 0022, sections of issue H).

:class:`Lengths` follows the bursts of one direction of a port; :func:`write_port` and :func:`read_port` claim of the
master what it owes (A3.2.1: an offer stands until it is taken; A3.4.1: bursts stay within 4 KB; A3.4.1: WLAST) and
assume of the slave what it owes (an answer to what was asked only, which stands until it is taken).
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Mux, Signal, Value
from tests.prove.harness import Harness

INCR = 1
#: Beats of a burst, as docs/die.md says.
MOST_BEATS = 64


def address_channel(harness: Harness, port: Any, prefix: str, data_bytes: int) -> None:
    """Claims of AW or AR: offers stand; bursts are INCR, of full width, aligned, in one page of 4 KB, of no more beats
    than dies say (AXI4 allows 256)."""
    valid, ready = (getattr(port, f"{prefix}{name}") for name in ("valid", "ready"))
    fields = Cat(getattr(port, f"{prefix}{name}")
                 for name in ("addr", "len", "size", "burst", "id", "cache", "prot"))
    address, length = getattr(port, f"{prefix}addr"), getattr(port, f"{prefix}len")
    harness.claim(f"{prefix}: an offer stands until it is taken", harness.stands(valid, ready, fields))
    last = Signal(len(address) + 1)
    harness.m.d.comb += last.eq(address + ((length + 1) * data_bytes) - 1)
    harness.claim(f"{prefix}: a burst stays within 4 KB", ~valid | (last[12:] == address[12:]))
    harness.claim(f"{prefix}: bursts are INCR, of full width, aligned",
                  ~valid | ((getattr(port, f"{prefix}burst") == INCR)
                            & (getattr(port, f"{prefix}size") == data_bytes.bit_length() - 1)
                            & (address[:data_bytes.bit_length() - 1] == 0)))
    harness.claim(f"{prefix}: a burst has at most {MOST_BEATS} beats", ~valid | (length < MOST_BEATS))


def count(harness: Harness, up: Any, down: Any, bits: int, name: str) -> Signal:
    """How often more ``up`` was than ``down``, before this cycle."""
    difference = Signal(bits, name=name)
    harness.m.d.sync += difference.eq(difference + up - down)
    return difference


class Lengths:
    """Beats of bursts in their order: those offered, or taken, on an address channel, until a beat has been the last.

    Places for so many bursts at once as the master may have under way; that there are no more is proved along.
    """

    def __init__(self, harness: Harness, put: Value, length: Value, get: Value, places: int, name: str) -> None:
        m = harness.m
        self.count = Signal(range(places + 1), name=f"{name}_count")
        #: AxLEN of each, the oldest first.
        self.lengths = [Signal(len(length), name=f"{name}_{place}") for place in range(places)]
        self.oldest = self.lengths[0]
        m.d.sync += self.count.eq(self.count + put - get)
        harness.invariant(~put | get | (self.count < places))
        at = Signal.like(self.count, name=f"{name}_at")
        m.d.comb += at.eq(self.count - get)
        for place, held in enumerate(self.lengths):
            after = self.lengths[place + 1] if place + 1 < places else held
            m.d.sync += held.eq(Mux(put & (at == place), length, Mux(get, after, held)))


def read_port(harness: Harness, port: Any, places: int) -> None:
    """Claims of AR; the slave gives what was asked for, with RLAST where it belongs."""
    m = harness.m
    address_channel(harness, port, "ar", len(port.rdata) // 8)
    beat = Signal(8)
    taken = port.rvalid & port.rready
    asked = Lengths(harness, port.arvalid & port.arready, port.arlen, taken & port.rlast, places, "reads")
    m.d.sync += beat.eq(Mux(taken, Mux(port.rlast, 0, beat + 1), beat))
    fields = Cat(port.rdata, port.rresp, port.rlast)
    harness.assume(~port.rvalid | ((asked.count > 0) & (port.rlast == (beat == asked.oldest))))
    harness.assume(harness.stands(port.rvalid, port.rready, fields))
    # The proof looks at so many bursts; a slave may take more.
    harness.assume(~port.arready | (asked.count < places))


@dataclass(frozen=True)
class Writes:
    """Of a port's bursts that are not answered."""

    #: Those offered on AW whose last beat W has not taken.
    offered: Lengths
    #: Beats that W has taken of the oldest of these.
    beat: Signal
    #: How many AW has taken, and of how many W has taken the last beat.
    addresses: Signal
    ends: Signal


def write_port(harness: Harness, port: Any, places: int) -> Writes:
    """Claims of AW and W; the slave answers bursts of which it has address and data."""
    m = harness.m
    address_channel(harness, port, "aw", len(port.wdata) // 8)
    data = Cat(port.wdata, port.wstrb, port.wlast)
    harness.claim("w: an offer stands until it is taken", harness.stands(port.wvalid, port.wready, data))
    new = port.awvalid & ~harness.past(port.awvalid & ~port.awready)
    taken = port.wvalid & port.wready
    offered = Lengths(harness, new, port.awlen, taken & port.wlast, places, "writes")
    beat = Signal(8)
    m.d.sync += beat.eq(Mux(taken, Mux(port.wlast, 0, beat + 1), beat))
    # Of a burst that is offered in this cycle the length is known in the next; so are its data.
    harness.claim("w: data follow the offer of their address", ~port.wvalid | (offered.count > 0))
    harness.claim("w: WLAST is the last beat of the burst's", ~port.wvalid | (port.wlast == (beat == offered.oldest)))
    addresses = count(harness, port.awvalid & port.awready, port.bvalid & port.bready, 4, "addresses")
    ends = count(harness, taken & port.wlast, port.bvalid & port.bready, 4, "ends")
    harness.assume(~port.bvalid | ((addresses > 0) & (ends > 0)))
    harness.assume(harness.stands(port.bvalid, port.bready, port.bresp))
    return Writes(offered, beat, addresses, ends)
