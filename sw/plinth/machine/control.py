"""Cycles of a die's control: descriptors, queues, waits and reductions (docs/control.md).

``tests/support/counted.py`` counts :data:`CONTROL` on co-simulated dies, each key by itself, and
``tests/sw/predict/test_counted_tasks.py`` compares.
"""

from plinth_hw.isa.descriptors import BODY_WORDS, DESCRIPTOR_WORDS
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters

#: Tasks of an engine from fetch to completion, and bodies of them that wait for it: the hardware's depths.
HEADERS, BODIES = 8, 4
#: Cycles in which a word of a body goes to its engine, and in which a descriptor is fetched, a word a cycle.
BODY_WORD_CYCLES, FETCH_CYCLES = 2, DESCRIPTOR_WORDS
#: Cycles of control where nobody models its queues:
#:
#: - ``fetch``: from a task to the next one of its engine: fetch, and way, of the longest body. The simulator, which has
#:   each body's way, has both apart.
#: - ``issue``: from the end of a task to the start of one that waited for it.
#: - ``arrival``: from the last word of a copy on its die's link to the start of what waits for it on the other die,
#:   over a link of :data:`~plinth.machine.links.LINK_LATENCY`; ``issue`` is a part of it. Counted on two dies, while
#:   nothing else is sent.
#: - ``ring``, ``hop``: of a ring reduction beside its words, on two dies, and for each further hop.
#: - ``reduce``: of a reduction on a single die beside its words.
CONTROL: dict[str, float] = {
    "fetch": BODY_WORD_CYCLES * BODY_WORDS + 8, "issue": 15, "arrival": 80, "ring": 340, "hop": 28, "reduce": 200}
#: Cycles in which the collective engine sets a row of its group table, as counted of several in a row; that they come a
#: descriptor behind each other is control's.
GROUP_CYCLES = 3.0
#: Cycles from a strip's last word on a link to the start of the maps made of it, as the step chooses strips by. It is
#: more than ``arrival``: all dies of a cluster send to all others meanwhile, and it stands for what routers and receive
#: paths hold then as well, which predictions and simulation have by themselves.
STRIP_ARRIVAL_CYCLES = 300


def body_cycles(parameters: DieParameters, engine: Engine) -> int:
    """Cycles in which the body of a task goes to its engine."""
    return BODY_WORD_CYCLES * parameters.body_words(engine)
