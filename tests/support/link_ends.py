"""Two ends of a link under Verilator, wires that err between them: millions of frames, each flit checked."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

from plinth_hw import emit
from plinth_hw.comm.flit import flit_layout
from plinth_hw.comm.link import ROUND_TRIP, LinkLayer, phit_bits
from plinth_hw.comm.link_frame import WINDOW
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.rtl.verilator import FAST_FLAGS, build_library

HARNESS = Path(__file__).with_name("link_harness.cpp")


@dataclass(frozen=True, kw_only=True)
class Disturbance:
    """What wires and dies do; all are probabilities."""

    #: Of each bit to be wrong.
    flip: float = 0
    #: In each cycle to begin: up to 12 cycles of anything; up to 60 of what was there before; up to 200 with a wire
    #: that does not change; 60,000 of nothing.
    burst: float = 0
    hold: float = 0
    lane: float = 0
    dead: float = 0
    #: Of a frame not to come; to be the one before again.
    lose: float = 0
    repeat: float = 0
    #: In each cycle, that an end begins anew.
    restart: float = 0


class _Settings(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_uint64) for name in ("seed", "flits", "limit", "latency")),
                *((name, ctypes.c_double) for name in (
                    "offer", "free", "flip", "burst", "hold", "lane", "dead", "lose", "repeat", "restart"))]


class _Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("cycles", "flits", "frames", "bad_frames", "replays", "restarts",
                                                     "lost", "longest")]


@dataclass(frozen=True)
class Passed:
    """What a run gave, both ways together."""

    cycles: int
    flits: int
    frames: int
    bad_frames: int
    replays: int
    restarts: int
    #: How often an end said that flits may be lost.
    lost: int
    #: Most cycles without a flit that came.
    longest: int


class LinkEnds:
    """The ends, built once (builds are cached)."""

    def __init__(self, parameters: DieParameters, phits: int = 1, round_trip: int = ROUND_TRIP):
        text = emit.verilog(LinkLayer(parameters, phits, round_trip), "link_top")
        flit = flit_layout(parameters)
        sizes = {"WIRES": phit_bits(parameters, phits), "PHITS": phits, "FLIT_BITS": flit.size,
                 "CLASSES": parameters.classes, "CLASS_AT": flit["traffic_class"].offset,
                 "CLASS_BITS": flit["traffic_class"].width, "PLACES": parameters.link_buffer_flits}
        header = "".join(f"constexpr int {name} = {value};\n" for name, value in sizes.items())
        library = build_library({"link.v": text}, "link_top", cpp=[HARNESS], headers={"link_ports.h": header},
                                flags=FAST_FLAGS, jobs=1)
        self._run = ctypes.CDLL(str(library)).link_run

    def run(self, flits: int, disturbance: Disturbance, *, seed: int = 1, latency: int = 4, offer: float = 1,
            free: float = 1, limit: int = 500_000) -> Passed:
        """Pass so many flits each way, and what is under way then.

        Parameters
        ----------
        latency : int
            Cycles of the wires.
        offer, free : float
            Probability in a cycle that a flit is offered, that a class's place is freed.
        limit : int
            Most cycles without a flit that comes.

        Raises
        ------
        AssertionError
            If a flit is wrong, lost, repeated or out of order, credits are not those of places, an end that goes down
            does not say that flits may be lost, or nothing comes for too long.
        """
        settings = _Settings(seed, flits, limit, latency, offer, free, disturbance.flip, disturbance.burst,
                             disturbance.hold, disturbance.lane, disturbance.dead, disturbance.lose,
                             disturbance.repeat, disturbance.restart)
        counts = _Counts()
        message = ctypes.create_string_buffer(200)
        failed = self._run(ctypes.byref(settings), ctypes.byref(counts), message, ctypes.c_uint64(len(message)))
        assert not failed, message.value.decode()
        return Passed(*(getattr(counts, name) for name, _ in _Counts._fields_))


def goodput(parameters: DieParameters, phits: int, flip: float, latency: int) -> float:
    """Flits a frame time that go-back-N lets through, as in docs/network.md; for frames whose check takes a cycle."""
    wrong = 1 - (1 - flip) ** (phits * (phit_bits(parameters, phits) + 1))
    replayed = (16 + 2 * latency + 2 * (phits - 1)) / phits
    return min(1, WINDOW / replayed) * (1 - wrong) / (1 - wrong + wrong * replayed)
