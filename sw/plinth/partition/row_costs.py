"""Words of each way to keep a variable's copies equal: Parallax, Table 3, for any machines and workers.

With N machines of G workers each, a variable of w words, and alpha the share of its rows that a worker touches in a
step (1 of a dense variable), a machine sends over the network, and receives as many, where what is served is spread
evenly:

    way        workers merged on their machine      each for itself
    rings      2 w (N - 1) / N                      2 w (N G - 1) / (N G)
    gathered   alpha w (N - 1)                      alpha w G G (N - 1)
    servers    2 alpha w (N - 1) / N                2 alpha w G (N - 1) / N

Merged, alpha is the share of rows that a machine's workers touch together. Table 3 counts words that are sent and
received, twice these, with G = 1; it leaves out row numbers, one word a row, which go with the pull alone. A ring
passes each machine's border once, as its workers are neighbours; gathered rows go from each worker to each worker.

Workers (:mod:`plinth.workers`) merge rows on their way to servers; gathered rows and rings are each worker's for itself
(:func:`words_of_ways`).

Where it is known what the network carries, a way takes the time of its words and of its messages in turn
(:func:`seconds_of_ways`): 2 (N G - 1) of a ring, one of gathered rows, three of servers (question, answer, gradients).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from plinth.names import GATHERED_ROWS, RINGS, SERVERS

#: The ways, in the order in which ties are decided.
WAYS = (RINGS, GATHERED_ROWS, SERVERS)


@dataclass(frozen=True)
class VariableLoad:
    """A variable's part in what moves.

    Parameters
    ----------
    elements : int
    touched : float or None
        Share of its rows that a worker touches in a step, or, merged, a machine's workers; None: it is dense.
    """

    elements: int
    touched: float | None = None


def machine_words(way: str, load: VariableLoad, machines: int, workers: int = 1, *, merged: bool = True) -> float:
    """Words that a machine sends in a step, on the mean over machines.

    Parameters
    ----------
    way : str
        Of :data:`WAYS`.
    load : VariableLoad
    machines, workers : int
        N, and G of each.
    merged : bool
        Workers of a machine are merged before the network.
    """
    share, each = 1.0 if load.touched is None else load.touched, 1 if merged else workers
    if way == RINGS:
        members = machines * each
        return 2 * load.elements * (members - 1) / members if machines > 1 else 0.0
    if way == GATHERED_ROWS:
        return share * load.elements * each * each * (machines - 1)
    return 2 * share * load.elements * each * (machines - 1) / machines


def owner_words(load: VariableLoad, machines: int, workers: int = 1, *, merged: bool = True) -> float:
    """Words that the machine sends that serves a variable alone, undivided: N - 1 times those that each other one
    does (Table 3, one variable)."""
    share, each = 1.0 if load.touched is None else load.touched, 1 if merged else workers
    return share * load.elements * each * (machines - 1)


def model_alpha(loads: Sequence[VariableLoad]) -> float:
    """The share of a model's elements that a worker touches in a step, weighted by elements (Table 1)."""
    elements = sum(load.elements for load in loads)
    touched = sum(load.elements * (1.0 if load.touched is None else load.touched) for load in loads)
    return touched / elements if elements else 1.0


def words_of_ways(load: VariableLoad, machines: int, workers: int = 1, *, merged: bool = True) -> dict[str, float]:
    """Words that a machine sends in a step by each way as workers run it: of a machine they are merged on their way to
    servers alone. Merged they touch as many rows as together at most.

    Parameters
    ----------
    load : VariableLoad
        What one worker touches.
    """
    share = load.touched if load.touched is None or not merged else min(1.0, workers * load.touched)
    return {way: machine_words(way, VariableLoad(load.elements, share) if way == SERVERS else load, machines, workers,
                               merged=merged and way == SERVERS) for way in WAYS}


@dataclass(frozen=True)
class NetworkRates:
    """What the network between machines carries.

    Parameters
    ----------
    words_per_second : float
        Words of 32 bits into a machine, and out of it.
    latency : float
        Seconds of a message beside its words.
    """

    words_per_second: float
    latency: float = 0.0


def seconds_of_ways(load: VariableLoad, rates: NetworkRates, machines: int, workers: int = 1, *, merged: bool = True
                    ) -> dict[str, float]:
    """Seconds that a variable's messages take in a step by each way: words (:func:`words_of_ways`) over the rate, and a
    latency for each message that waits for another."""
    turns = {RINGS: 2 * (machines * workers - 1), GATHERED_ROWS: 1, SERVERS: 3}
    return {way: words / rates.words_per_second + turns[way] * rates.latency
            for way, words in words_of_ways(load, machines, workers, merged=merged).items()}


def best_way(load: VariableLoad, machines: int, workers: int = 1, *, merged: bool = True,
             dense_from: float | None = None, rates: NetworkRates | None = None, ways: Sequence[str] = WAYS) -> str:
    """The way of the least time, by :func:`seconds_of_ways`; of the fewest words, by :func:`words_of_ways`, if no rates
    are known. Of ties the first one.

    Parameters
    ----------
    dense_from : float or None
        Share of touched rows from which a variable is taken for dense; None: never.
    ways : sequence of str
        The ways that are possible, rings among them.
    """
    if load.touched is None or (dense_from is not None and load.touched >= dense_from):
        return RINGS
    costs = words_of_ways(load, machines, workers, merged=merged) if rates is None else seconds_of_ways(
        load, rates, machines, workers, merged=merged)
    return min(ways, key=lambda way: costs[way])
