"""AXI4-Lite's rules of master and slave, as properties (ARM IHI 0022, sections of issue H)."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Signal, Value
from tests.prove.harness import Harness


@dataclass(frozen=True)
class Pending:
    """Accesses that have been taken and not answered."""

    reads: Signal
    writes: Signal


def slave(harness: Harness, port: Any) -> Pending:
    """Claims of a slave: answers to accesses only, one each, that stand until they are taken; no answer waits for its
    READY. The master offers what it likes, and lets offers stand."""
    m = harness.m
    for prefix, fields in (("aw", Cat(port.awaddr, port.awprot)), ("w", Cat(port.wdata, port.wstrb)),
                           ("ar", Cat(port.araddr, port.arprot))):
        valid, ready = getattr(port, f"{prefix}valid"), getattr(port, f"{prefix}ready")
        harness.assume(harness.stands(valid, ready, fields))

    def fires(prefix: str) -> Value:
        return getattr(port, f"{prefix}valid") & getattr(port, f"{prefix}ready")

    pending = {}
    for prefix, taken in (("b", fires("aw")), ("r", fires("ar"))):
        waiting = pending[prefix] = Signal(2, name=f"pending_{prefix}")
        m.d.sync += waiting.eq(waiting + taken - fires(prefix))
        valid, ready = getattr(port, f"{prefix}valid"), getattr(port, f"{prefix}ready")
        fields = Cat(port.bresp) if prefix == "b" else Cat(port.rdata, port.rresp)
        harness.claim(f"{prefix}: an answer stands until it is taken", harness.stands(valid, ready, fields))
        harness.claim(f"{prefix}: an answer follows an access", ~valid | (waiting != 0))
        harness.claim(f"{prefix}: one access at a time", ~taken | (waiting == 0))
        harness.invariant(waiting <= 1)
    # A write is its address and its data: neither goes on without the other.
    data = Signal(2)
    m.d.sync += data.eq(data + fires("w") - fires("b"))
    harness.claim("a write is answered once address and data have come", ~port.bvalid | (data != 0))
    harness.invariant(data == pending["b"])
    return Pending(pending["r"], pending["b"])
