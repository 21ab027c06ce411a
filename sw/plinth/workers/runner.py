"""What a runner has in common, whatever the model is: its variables and tables, and how they are kept equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plinth.errors import UserError
from plinth.names import AUTO_COPIES, COPY_NAMES, GATHERED_ROWS, RINGS, SERVERS
from plinth.partition.row_costs import WAYS, VariableLoad, best_way, model_alpha, seconds_of_ways, words_of_ways
from plinth.runtime.memory import Floats
from plinth.units import duration
from plinth.workers.channel import Lookup, Rows, SentWords
from plinth.workers.machines import Machines
from plinth.workers.sums import DenseSum, fused
from plinth.workers.tables import GatheredTable, RingTable, ServedTable, SharedTable, Workers

#: The first tag of tables; those before are of the message of dense gradients, one a worker.
TABLE_TAGS = 1 << 10
#: Most matrices that a refusal lists.
SHOWN = 8


@dataclass(frozen=True)
class TableSettings:
    """A table as a model has it.

    Parameters
    ----------
    name : str
    shape : (int, int)
    pieces : int
        Pieces of rows that servers own, row r piece r mod ``pieces``.
    """

    name: str
    shape: tuple[int, int]
    pieces: int = 1


@dataclass
class TouchedRows:
    """Counts the rows of a table that a worker touches, step by step.

    Parameters
    ----------
    rows : int
        Of the table.
    """

    rows: int
    total: int = 0
    steps: int = 0

    def add(self, count: int) -> None:
        """Count a step that touches so many rows."""
        self.total += count
        self.steps += 1

    @property
    def share(self) -> float:
        """The share of the table's rows that a step touches, on the mean."""
        return self.total / (self.steps * self.rows) if self.steps else 0.0


def alpha_of(elements: Mapping[str, int], touched: Mapping[str, float]) -> float:
    """The share of a model's elements that a worker uses in a step, weighted by elements (Table 1).

    Parameters
    ----------
    elements : mapping of str to int
        Of each variable.
    touched : mapping of str to float
        Share of rows, of variables of which rows are touched.
    """
    return model_alpha([VariableLoad(count, touched.get(name)) for name, count in elements.items()])


class SentTraffic:
    """The words that a worker has sent: to other machines, which Table 3 counts, and on its own one.

    Parameters
    ----------
    workers : Workers
    machines : Machines
    """

    def __init__(self, workers: Workers, machines: Machines) -> None:
        self.network, self.machine = SentWords(), SentWords()
        own = machines.machine_of[workers.own]
        #: By the worker that gets them.
        self.to = {other: self.machine if machines.machine_of[other] == own else self.network
                   for other in range(workers.size)}


def ways_of(tables: Sequence[TableSettings], machines: Machines, ways: str | Mapping[str, str],
            touched: float | Mapping[str, float] | None = None, dense_from: float | None = None,
            others: Sequence[str] = ()) -> dict[str, str]:
    """How the copies of each table are kept equal.

    Parameters
    ----------
    ways : str or mapping of str to str
        A name of :data:`plinth.names.COPY_NAMES` for all tables, or for each by name.
    touched : float, mapping of str to float, or None
        Share of rows that a worker touches in a step, of all tables or of each by name; None: it is not known.
    dense_from : float or None
        Share from which a table is taken for dense; None: never.
    others : sequence of str
        Variables that are no tables, and may be named.

    Raises
    ------
    UserError
        If there is no such way, or no such table.
    """
    asked = dict.fromkeys((table.name for table in tables), ways) if isinstance(ways, str) else dict(ways)
    for name, way in asked.items():
        if way not in COPY_NAMES:
            raise UserError(f"copies of table {name!r} are kept equal by one of {', '.join(COPY_NAMES)}, not {way!r}")
    for name in [*asked, *(touched if isinstance(touched, Mapping) else ())]:
        if name not in {*(table.name for table in tables), *others}:
            known = ", ".join(table.name for table in tables) or "none"
            more = f", and matrices {', '.join(others[:SHOWN])}{', ...' if len(others) > SHOWN else ''}"
            raise UserError(f"the model has no table {name!r}; it has {known}{more if others else ''}")
    count, most = len(machines.members), max(map(len, machines.members))
    chosen = {}
    for table in tables:
        way = asked.get(table.name, AUTO_COPIES)
        if way == AUTO_COPIES:
            share = _share(touched, table.name)
            load = VariableLoad(table.shape[0] * table.shape[1], share)
            if count == 1:
                # Nothing crosses the network: what workers send each other decides.
                way = RINGS if most == 1 else SERVERS if share is None else best_way(load, most, dense_from=dense_from)
            else:
                way = SERVERS if share is None else best_way(load, count, most, merged=machines.local,
                                                             dense_from=dense_from, rates=machines.rates)
        chosen[table.name] = way
    return chosen


def _share(touched: float | Mapping[str, float] | None, table: str) -> float | None:
    """The share of a table's rows that a worker touches, if it is known."""
    return touched.get(table) if isinstance(touched, Mapping) else touched


def reasons(tables: Sequence[TableSettings], machines: Machines, ways: Mapping[str, str],
            touched: float | Mapping[str, float] | None = None) -> tuple[str, ...]:
    """A line for each table: how its copies are kept equal, and the words of each way, by Table 3.

    Parameters
    ----------
    ways : mapping of str to str
        As :func:`ways_of` has chosen them.
    touched : float, mapping of str to float, or None
        As there.
    """
    return tuple(reason(table, machines, ways[table.name], _share(touched, table.name)) for table in tables)


def reason(table: TableSettings, machines: Machines, way: str, share: float | None, possible: Sequence[str] = WAYS
           ) -> str:
    """A line on a table: how its copies are kept equal, and the words of each way that is possible, by Table 3.

    Parameters
    ----------
    share : float or None
        Of its rows, what a worker touches in a step; None: it is not known.
    """
    count, most = len(machines.members), max(map(len, machines.members))
    merged = machines.local and most > 1
    if count == 1:
        return f"{table.name}: {way}, as nothing moves between machines"
    if share is None:
        return f"{table.name}: {way}; give touched for the words of each way"
    load = VariableLoad(table.shape[0] * table.shape[1], share)
    words = {other: f"{'at most ' if merged and other == SERVERS else ''}{sent:,.0f}"
             for other, sent in words_of_ways(load, count, most, merged=machines.local).items() if other in possible}
    times = dict.fromkeys(words, "") if machines.rates is None else {
        other: f" in {duration(seconds)}" for other, seconds in seconds_of_ways(
            load, machines.rates, count, most, merged=machines.local).items()}
    others = ", ".join(f"{words[other]}{times[other]} by {other}" for other in words if other != way)
    return (f"{table.name} ({share:.2%} of rows touched): {way}, {words[way]} words that a machine sends in a step"
            f"{times[way]}; {others}")


class SynchronousExchange:
    """Moves what all variables of a model need, step by step.

    Parameters
    ----------
    workers : Workers
    machines : Machines
    tables : sequence of TableSettings
    dense : sequence of int
        Elements of each dense variable.
    ways : mapping of str to str
        Of each table.
    lookups : mapping of str to callable
        Of each table that has servers the values of rows of this worker's copy.
    """

    def __init__(self, workers: Workers, machines: Machines, tables: Sequence[TableSettings], dense: Sequence[int],
                 ways: Mapping[str, str], lookups: Mapping[str, Lookup]) -> None:
        self.workers, self.machines, words = workers, machines, sum(dense)
        #: Of dense gradients, and of each table.
        self.dense_traffic = SentTraffic(workers, machines)
        self.traffic = {settings.name: SentTraffic(workers, machines) for settings in tables}
        self._order = [worker for machine in machines.members for worker in machine]
        self._dense = DenseSum(workers, workers.own, self._order, words, 0, self.dense_traffic.to) if words else None
        self.tables: dict[str, SharedTable] = {}
        next_server, tag = 0, TABLE_TAGS
        for settings in tables:
            servers = [machines.chiefs[(next_server + piece) % len(machines.chiefs)]
                       for piece in range(settings.pieces)]
            next_server += len(servers)
            self.tables[settings.name] = self._table(settings, ways[settings.name], lookups, servers, tag)
            tag += max(3 * (settings.pieces + 1), workers.size)
        self._begun = False

    def _table(self, settings: TableSettings, way: str, lookups: Mapping[str, Lookup],
               servers: Sequence[int], tag: int) -> SharedTable:
        sent = self.traffic[settings.name].to
        if way == SERVERS:
            return ServedTable(settings.name, settings.shape, sent, self.workers, self.machines,
                               lookups[settings.name], servers, tag)
        if way == GATHERED_ROWS:
            return GatheredTable(settings.name, settings.shape, sent, self.workers, tag)
        return RingTable(settings.name, settings.shape, sent, self.workers, self._order, tag)

    def sent(self) -> dict[str, int]:
        """The words of values and of row numbers, and the messages, that this worker has sent other machines."""
        every = [self.dense_traffic, *self.traffic.values()]
        return {name: sum(getattr(traffic.network, name) for traffic in every)
                for name in ("values", "indices", "messages")}

    def _begin(self) -> None:
        if not self._begun:
            self.workers.begin()
            self._begun = True

    def _wait(self, done: Callable[[], bool]) -> None:
        """Wait, and answer others meanwhile, for whatever tables: these may come to them in another order."""
        def answering() -> bool:
            for table in self.tables.values():
                table.serve()
            return done()

        self.workers.wait(answering)

    def pull(self, wanted: Mapping[str, Rows]) -> dict[str, Floats | None]:
        """Fetch the values ``[rows, width]`` of rows of tables that a step touches, ascending, each once; None: this
        worker's copy has them. All are asked for before any is waited for. Collective, of whatever tables in whatever
        order.

        Raises
        ------
        UserError
            As :meth:`SharedTable.pull` and :meth:`Workers.wait`.
        """
        self._begin()
        for name, rows in wanted.items():
            self.tables[name].pull(rows)
        self._wait(lambda: all(self.tables[name].ready() for name in wanted))
        return {name: self.tables[name].values() for name in wanted}

    def aggregate(self, dense: Sequence[Floats], tables: Mapping[str, tuple[Rows, Floats]]
                  ) -> tuple[list[Floats], dict[str, tuple[Rows, Floats]]]:
        """Sum gradients over all workers: of dense variables whole, of tables the rows that this worker owns.

        Dense gradients go round their ring while rows are on their way. A table of which this worker has pulled nothing
        is pulled now, without rows. Collective.

        Returns
        -------
        list of array, dict of str to (rows, values)
            Sums of dense gradients, which last until the next step; of each table the rows that this worker owns and
            any has touched, and the sums of their gradients ``[rows, width]``.

        Raises
        ------
        UserError
            If a gradient is not finite, as :meth:`SharedTable.push`, or as :meth:`Workers.wait`.
        """
        self._begin()
        odd = next((f"the gradient of table {name!r}" for name, (_, values) in tables.items()
                    if not np.isfinite(values).all()), None)
        if odd is None and not all(np.isfinite(part).all() for part in dense):
            odd = "a dense gradient"
        if odd is not None:
            raise UserError(f"{odd} of worker {self.workers.own} is not finite; give a smaller rate, or look at the "
                            "samples")
        self.pull({name: rows[:0] for name, (rows, _) in tables.items() if not self.tables[name].pulled})
        for name, (rows, values) in tables.items():
            self.tables[name].push(rows, values)
        pending = [self.tables[name].advance for name in tables]
        if self._dense is not None:
            fused(list(dense), self._dense.own)
            self._dense.begin()
            pending.append(self._dense.advance)

        def done() -> bool:
            pending[:] = [advance for advance in pending if not advance()]
            return not pending

        self._wait(done)
        sums = {name: self.tables[name].aggregated() for name in tables}
        parts, first = [], 0
        for part in dense:
            assert self._dense is not None
            parts.append(self._dense.total[first:first + part.size].reshape(part.shape))
            first += part.size
        for table in self.tables.values():
            table.end()
        self._begun = False
        return parts, sums
