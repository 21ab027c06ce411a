"""Link layer, compiled: millions of frames over wires that err, ends that begin anew, every flit and credit checked."""

from dataclasses import replace
from functools import cache

import pytest
from tests.support.link_ends import Disturbance, LinkEnds, Passed, goodput

from plinth_hw.isa.parameters import preset

TINY = preset("ndp-tiny", engines=frozenset())
KINDS = {
    "none": Disturbance(),
    **{f"bits-{rate:.0e}": Disturbance(flip=rate) for rate in (1e-3, 1e-4, 1e-5, 1e-6)},
    "bursts": Disturbance(burst=0.003), "held": Disturbance(hold=0.003), "lanes": Disturbance(lane=0.001),
    "dead": Disturbance(dead=5e-4),
    "lost": Disturbance(lose=0.1), "repeated": Disturbance(repeat=0.1), "restarts": Disturbance(restart=2e-4),
    "restarts-often": Disturbance(restart=3e-3),
    "all": Disturbance(flip=1e-4, burst=1e-3, hold=1e-3, lane=5e-4, lose=0.01, repeat=0.01, restart=2e-4),
}


@cache
def built(phits: int) -> LinkEnds:
    return LinkEnds(TINY, phits)


def passed(phits: int, kind: str, flits: int) -> Passed:
    """Run, with flits and places now fast, now slow, over wires of several lengths."""
    ends = built(phits)
    runs = [ends.run(flits // 3, KINDS[kind], seed=seed, latency=latency, offer=offer, free=free)
            for seed, (latency, offer, free) in enumerate([(1, 1, 1), (4, 0.9, 0.3), (20, 0.5, 1)])]
    return Passed(*(sum(getattr(run, name) for run in runs) for name in Passed.__dataclass_fields__))


def check(phits: int, kind: str, flits: int) -> None:
    """Flits have come, replays and restarts are those of the kind."""
    run, what = passed(phits, kind, flits), KINDS[kind]
    assert run.flits >= 2 * 3 * (flits // 3)
    assert bool(run.restarts) == bool(what.restart)
    # An end that begins anew has lost nothing, the other may have; of wires only dead ones are given up, by both ends.
    assert run.lost <= run.restarts if not what.dead else run.lost > 0
    if what == Disturbance():
        assert run.bad_frames == run.replays == 0
    elif not what.restart and what.flip > 2e-6:
        assert run.replays > 0


@pytest.mark.slow
@pytest.mark.parametrize("phits", [1, 2, 4])
def test_flits_come_once_and_in_order(phits: int) -> None:
    for kind in KINDS:
        check(phits, kind, 9_000)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("phits", "flits"), [(1, 240_000), (2, 120_000), (4, 60_000)])
def test_ten_million_flits(phits: int, flits: int, kind: str) -> None:
    check(phits, kind, flits)


@pytest.mark.slow
@pytest.mark.parametrize("phits", [1, 2, 4])
def test_goodput_is_that_of_the_formula(phits: int) -> None:
    """As far as 1e-4, where a request to send again is seldom wrong itself."""
    ends = built(phits)
    for latency in (2, 20):
        for flip in (0, 1e-5, 1e-4):
            run = ends.run(60_000, replace(KINDS["none"], flip=flip), latency=latency)
            assert run.flits / run.frames >= 0.97 * goodput(TINY, phits, flip, latency)


def test_a_hang_is_told() -> None:
    with pytest.raises(AssertionError, match="nothing has come to end 0 for 3000 cycles"):
        built(1).run(1000, Disturbance(lose=1), limit=3000)
