"""An array of dies: its topology as a list of links with rates (:mod:`.topologies`), and the dies. Plain data."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.array.deadlock import circle_text, find_circle
from plinth.array.host import HOST_CLOCK_MHZ, HostRates
from plinth.array.routes import AllRoutes
from plinth.array.topologies import Link, cluster_links, full_ends, ring_ends, star_links, torus_ends, tree_links
from plinth.errors import UserError, one_line
from plinth.files.forms import NAME_PATTERN, described, is_integer
from plinth.limits import MAXIMUM_DIES
from plinth_hw.isa.parameters import PRESETS, DieParameters, preset

#: Most links of a die. Only arrays of clusters have dies with more, up to 67, which are planned for and simulated.
MAXIMUM_PORTS = 16
#: Longest latency of a link in cycles.
MAXIMUM_LATENCY = 1 << 20
#: Most bytes of memory of a die.
MAXIMUM_MEMORY = 1 << 40
#: Largest of rates, speeds and clocks; also the largest numerator and denominator.
MAXIMUM_RATE = 1 << 20
#: Topologies: the named ones derive their links, "links" lists them.
TOPOLOGIES = ("ring", "torus", "full", "h-tree", "star", "links", "clusters")
#: What codes tiles of dies whose preset does not: stages as they are built, or a model of ones that keep up with links.
BUILT, AT_LINKS = "built", "at-links"
#: Topologies that have two dimensions, what messages call them, and which those are.
SIDES = {"torus": ("a torus", "[rows, columns]"), "clusters": ("an array of clusters", "[groups, clusters]")}


def prime_factors(number: int) -> tuple[int, ...]:
    """The prime factors of a number of dies, the largest first."""
    factors, factor = [], 2
    while number > 1:
        while number % factor == 0:
            factors.append(factor)
            number //= factor
        factor = factor + 1 if factor * factor <= number else number
    return tuple(reversed(factors))


#: Types of an array's fields whose values are compared or taken apart, and what messages call them.
_KINDS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("topology", "preset"), (str, "a name")),
    **dict.fromkeys(("dimensions", "wiring", "routes", "tile_routes", "wiring_rates", "wiring_latencies", "speeds"),
                    (tuple, "a tuple")),
    **dict.fromkeys(("link_rate", "narrow_rate"), (Fraction | int | None, "a Fraction or nothing")),
    "clock_mhz": (Fraction | int, "a Fraction")}


@dataclass(frozen=True, kw_only=True)
class Array:
    """Dies and how they are joined.

    Parameters
    ----------
    name : str
        As in lists and reports.
    topology : str
        One of :data:`TOPOLOGIES`.
    dies : int
        From 1 to :data:`plinth.limits.MAXIMUM_DIES`; a power of two for an H-tree.
    preset : str
        Preset of every die.
    dimensions : tuple of int
        Rows and columns of a torus, groups and clusters of clusters; empty otherwise.
    wiring : tuple of (die, port, die, port)
        The links of topology "links"; empty otherwise.
    routes : tuple of tuple of int or None
        For each die and each destination the port by which it sends, None for itself; empty: the lowest that leads
        nearer.
    tile_routes : tuple of tuple of int or None
        The same of tiles; empty: as all else. Of dies that set routes only.
    wiring_rates : tuple of Fraction or None
        Words a cycle and direction of each link of ``wiring``, None: ``link_rate``; empty: all None.
    wiring_latencies : tuple of int or None
        Cycles from end to end of each link of ``wiring``, None: ``link_latency``; empty: all None.
    link_rate : Fraction or None
        Words a cycle and direction of a die's link; None: what the preset's links carry.
    narrow_rate : Fraction or None
        The same of links inside clusters; None: as others. Of topology "clusters" only.
    ring_links : int
        Links at ``link_rate`` side by side between neighbours of a group, as one that carries as much as all of them.
        Of topology "clusters" only.
    link_latency : int
        Cycles from die to die, of links without a latency of their own.
    speeds : tuple of Fraction
        Speed of each die relative to the others; empty: all 1.
    clock_mhz : Fraction
        Clock of dies and links.
    memory_bytes : int
        Memory of each die that plans and simulated steps may fill.
    codes : str or None
        Dies code and predict tiles: :data:`BUILT`, as stages that are built do, or :data:`AT_LINKS`, as fast as links,
        which is a model alone (:mod:`plinth.predict.codes`). None: as the preset says, as built.
    host : HostRates or None
        Hosts that run the step in numpy stand in the dies' places: the preset, of FP32, says what step they do, the
        rates how long it takes them. A cycle is a nanosecond. None: dies.

    Raises
    ------
    ValueError
        If a value is out of range, the dies are not connected, a port is used twice, or a die would need more
        ports than a router has, but for clusters, or routes are by ports that there are not.
    """

    name: str
    topology: str
    dies: int
    preset: str
    dimensions: tuple[int, ...] = ()
    wiring: tuple[tuple[int, int, int, int], ...] = ()
    routes: tuple[tuple[int | None, ...], ...] = ()
    tile_routes: tuple[tuple[int | None, ...], ...] = ()
    wiring_rates: tuple[Fraction | None, ...] = ()
    wiring_latencies: tuple[int | None, ...] = ()
    link_rate: Fraction | None = None
    narrow_rate: Fraction | None = None
    ring_links: int = 1
    link_latency: int = 5
    speeds: tuple[Fraction, ...] = ()
    clock_mhz: Fraction = Fraction(1000)
    memory_bytes: int = 8_000_000_000
    codes: str | None = None
    host: HostRates | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(NAME_PATTERN, self.name):
            raise ValueError(f"an array's name must be 1 to 64 letters, digits, '_', '-' or '.', not "
                             f"{described(self.name)}")
        for key, (kinds, what) in _KINDS.items():
            if not isinstance(getattr(self, key), kinds):
                raise ValueError(f"{key} must be {what}, not {described(getattr(self, key))}")
        if self.topology not in TOPOLOGIES:
            raise ValueError(f"topology must be one of {', '.join(TOPOLOGIES)}, not {described(self.topology)}")
        if not is_integer(self.dies, 1, MAXIMUM_DIES):
            raise ValueError(f"dies must be an integer from 1 to {MAXIMUM_DIES}, not {described(self.dies)}")
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}, not {described(self.preset)}")
        if self.dies > 1 and not PRESETS[self.preset].ports:
            raise ValueError(f"a die of preset {self.preset!r} has no links: an array has one of them, not "
                             f"{self.dies}; choose 1 die or another preset")
        numbers = 1 << PRESETS[self.preset].die_bits
        if self.dies > numbers:
            raise ValueError(f"preset {self.preset!r} numbers at most {numbers} dies, not {self.dies}; "
                             "choose a larger preset")
        self._check_latencies()
        if not is_integer(self.memory_bytes, 1, MAXIMUM_MEMORY):
            raise ValueError(f"memory_bytes must be an integer from 1 to {MAXIMUM_MEMORY}, not "
                             f"{described(self.memory_bytes)}")
        if self.codes not in (None, BUILT, AT_LINKS):
            raise ValueError(f"codes must be {BUILT} or {AT_LINKS}, not {described(self.codes)}")
        if self.codes is not None:
            try:
                preset(self.preset, codes=True)
            except ValueError as error:
                raise ValueError(f"dies of preset {self.preset!r} cannot code: {error}") from None
        self._check_host()
        self._check_rates()
        self._check_topology()
        self._check_links()
        for what, table in (("routes", self.routes), ("tile_routes", self.tile_routes)):
            if table:
                self._check_table(what, table)
        if self.tile_routes and not PRESETS[self.preset].sets_routes:
            some = ", ".join(die.name for die in PRESETS.values() if die.sets_routes)
            raise ValueError(f"dies of preset {self.preset!r} have the same routes for tiles as for all else; leave "
                             f"out tile_routes, or choose one of {some}")

    def _check_latencies(self) -> None:
        if self.wiring_latencies and len(self.wiring_latencies) != len(self.wiring):
            raise ValueError(f"wiring_latencies must have one value for each of {len(self.wiring)} links, not "
                             f"{len(self.wiring_latencies)}")
        for what, value in (("link_latency", self.link_latency),
                            *((f"latency of link {number}", latency)
                              for number, latency in enumerate(self.wiring_latencies) if latency is not None)):
            if not is_integer(value, 1, MAXIMUM_LATENCY):
                raise ValueError(f"{what} must be an integer from 1 to {MAXIMUM_LATENCY} cycles, not "
                                 f"{described(value)}")

    def _check_host(self) -> None:
        if self.host is None:
            return
        if self.clock_mhz != HOST_CLOCK_MHZ:
            raise ValueError(f"cycles of an array of hosts are nanoseconds; leave out clock_mhz, or make it "
                             f"{HOST_CLOCK_MHZ}, not {self.clock_mhz}")
        if PRESETS[self.preset].number_format != "fp32":
            raise ValueError(f"hosts compute in FP32, dies of preset {self.preset!r} do not; choose a preset that does")
        if self.codes is not None:
            raise ValueError("hosts send words as they are; leave out codes")

    def _check_rates(self) -> None:
        if self.narrow_rate is not None and self.topology != "clusters":
            raise ValueError(f"topology {self.topology!r} has no narrow_rate")
        if not is_integer(self.ring_links, 1, MAXIMUM_PORTS):
            raise ValueError(f"ring_links must be an integer from 1 to {MAXIMUM_PORTS}, not "
                             f"{described(self.ring_links)}")
        if self.ring_links > 1 and self.topology != "clusters":
            raise ValueError(f"topology {self.topology!r} has no ring_links")
        for what, values in (("wiring_rates", self.wiring_rates), ("speeds", self.speeds)):
            if not all(isinstance(value, Fraction | int | None) for value in values):
                raise ValueError(f"{what} must be Fractions, not {described(values)}")
        most = PRESETS[self.preset].flit_words
        for what, value in (("link_rate", self.rate), ("narrow_rate", self.narrow_rate),
                            *((f"rate of link {number}", rate) for number, rate in enumerate(self.wiring_rates))):
            if value is not None and value > most:
                raise ValueError(f"{what} is {value} words a cycle, but links of preset {self.preset!r} carry at most "
                                 f"{most}; lower it or choose another preset")
        for what, value in (("link_rate", self.link_rate), ("narrow_rate", self.narrow_rate),
                            ("clock_mhz", self.clock_mhz),
                            *((f"rate of link {number}", rate) for number, rate in enumerate(self.wiring_rates)),
                            *((f"speed of die {die}", speed) for die, speed in enumerate(self.speeds))):
            if value is not None and not (0 < value <= MAXIMUM_RATE and value.denominator <= MAXIMUM_RATE):
                raise ValueError(f"{what} must be above 0 and at most {MAXIMUM_RATE}, not {value}")
        if self.speeds and len(self.speeds) != self.dies:
            raise ValueError(f"speeds must have one value for each of {self.dies} dies, not {len(self.speeds)}")
        if self.wiring_rates and len(self.wiring_rates) != len(self.wiring):
            raise ValueError(f"wiring_rates must have one value for each of {len(self.wiring)} links, not "
                             f"{len(self.wiring_rates)}")

    def _check_topology(self) -> None:
        for key, setting, wanted in (("dimensions", self.dimensions, tuple(SIDES)), ("links", self.wiring, ("links",))):
            if setting and self.topology not in wanted:
                raise ValueError(f"topology {self.topology!r} has no {key}")
            if not setting and self.topology in wanted and self.dies > 1:
                raise ValueError(f"topology {self.topology!r} needs {key}")
        if self.topology in SIDES and self.dimensions:
            what, sides = SIDES[self.topology]
            if len(self.dimensions) != 2 or not all(is_integer(size, 1, MAXIMUM_DIES) for size in self.dimensions):
                raise ValueError(f"dimensions of {what} must be {sides}, not {described(list(self.dimensions))}")
            rows, columns = self.dimensions
            if rows * columns != self.dies:
                raise ValueError(f"{what} of {rows} x {columns} has {rows * columns} dies, not {self.dies}")
        if self.topology == "h-tree" and self.dies & (self.dies - 1):
            raise ValueError(f"an h-tree has a power of two of dies, not {self.dies}")
        if self.topology == "full" and self.dies - 1 > MAXIMUM_PORTS:
            raise ValueError(f"fully connected, each of {self.dies} dies needs {self.dies - 1} ports; a router has "
                             f"at most {MAXIMUM_PORTS}; choose fewer dies or a torus")

    def _check_links(self) -> None:
        used: set[tuple[int, int]] = set()
        for link in self.wiring:
            shown = described(list(link))
            for node, port in (link[:2], link[2:]):
                if not is_integer(node, 0, self.dies - 1):
                    raise ValueError(f"link {shown} names die {described(node)}; dies are 0 to {self.dies - 1}")
                if not is_integer(port, 0, MAXIMUM_PORTS - 1):
                    raise ValueError(f"link {shown} uses port {described(port)} of die {node}; a router has at "
                                     f"most {MAXIMUM_PORTS} ports, 0 to {MAXIMUM_PORTS - 1}")
                if (node, port) in used:
                    raise ValueError(f"link {shown} uses port {port} of die {node}, which another link has")
                used.add((node, port))
            if link[0] == link[2]:
                raise ValueError(f"link {shown} joins die {link[0]} to itself")
        if self.topology != "links":
            return  # The others join all dies by what they are.
        reached, fresh = {0}, [0]
        while fresh:
            node = fresh.pop()
            for other, _ in self.peers[node].values():
                if other not in reached:
                    reached.add(other)
                    fresh.append(other)
        missing = [die for die in range(self.dies) if die not in reached]
        if missing:
            raise ValueError(f"die {missing[0]} cannot be reached from die 0; join it with a link")

    def _check_table(self, what: str, table: tuple[tuple[int | None, ...], ...]) -> None:
        if self.switches:
            raise ValueError(f"topology {self.topology!r} has switches, whose routes cannot be given")
        if len(table) != self.dies or any(not isinstance(row, tuple) or len(row) != self.dies for row in table):
            raise ValueError(f"{what} must be {self.dies} rows of {self.dies} ports, a row a die")
        for die, row in enumerate(table):
            for other, port in enumerate(row):
                if (port is None) != (die == other):
                    raise ValueError(f"the route from die {die} to die {other} must be "
                                     f"{'null' if die == other else 'a port'}, not {described(port)}")
                if die != other and not is_integer(port, 0, MAXIMUM_PORTS - 1):
                    raise ValueError(f"the route from die {die} to die {other} is by port {described(port)}; a port is "
                                     f"an integer from 0 to {MAXIMUM_PORTS - 1}")
                if die != other and port not in self.peers[die]:
                    raise ValueError(f"the route from die {die} to die {other} is by port {port}, which has no link; "
                                     f"die {die} has links at {', '.join(map(str, self.peers[die]))}")

    @property
    def rate(self) -> Fraction:
        """Words a cycle and direction of a die's link."""
        if self.link_rate is not None:
            return self.link_rate
        die = PRESETS[self.preset]
        return die.link_rate * die.flit_words

    @property
    def switches(self) -> int:
        """Nodes without a die, numbered behind the dies, the root first."""
        if self.topology == "clusters":
            return int(bool(self.dimensions) and self.dimensions[1] > 1)
        if self.topology == "star":
            return int(self.dies > 1)
        return self.dies - 1 if self.topology == "h-tree" else 0

    @property
    def ports(self) -> int:
        """Router links that a die needs."""
        return max((port + 1 for die in range(self.dies) for port in self.peers[die]), default=0)

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """The number of parts into which each level cuts the dies, the highest level first: the prime factors of the
        rows of a torus, or of groups, then of its columns, or clusters; else of the dies."""
        return tuple(factor for size in self.dimensions or (self.dies,) for factor in prime_factors(size))

    @property
    def levels(self) -> int:
        """Levels down to one die."""
        return len(self.factors)

    @property
    def group_levels(self) -> int:
        """How many of the highest levels may split the elements of Winograd tiles: those of groups, else all."""
        if self.topology == "clusters":
            return len(prime_factors(self.dimensions[0])) if self.dimensions else 0
        return self.levels

    def level_rate(self, level: int) -> Fraction:
        """Words a cycle and direction of each link at a level of an H-tree: from the dies (level H) up it doubles.

        Level h has 2^h links, so that all levels carry the same in total.

        Raises
        ------
        ValueError
            If this is no H-tree or has no such level.
        """
        if self.topology != "h-tree" or not 1 <= level <= self.levels:
            raise ValueError(f"array {self.name!r} has no level {level} of an h-tree")
        return self.rate * 2 ** (self.levels - level)

    @property
    def relative_speeds(self) -> tuple[Fraction, ...]:
        """Speed of every die."""
        return self.speeds or (Fraction(1),) * self.dies

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Every link once, each carrying words both ways."""
        if self.topology == "h-tree":
            return tuple(tree_links(self.dies, self.level_rate, self.link_latency))
        if self.topology == "star":
            return tuple(star_links(self.dies, self.rate, self.link_latency))
        rows, columns = self.dimensions or (1, 1)
        if self.topology == "clusters":
            narrow = self.rate if self.narrow_rate is None else self.narrow_rate
            return tuple(cluster_links(rows, columns, self.rate * self.ring_links, narrow, self.link_latency,
                                       MAXIMUM_PORTS))
        ends = {"ring": lambda: ring_ends(self.dies), "torus": lambda: torus_ends(rows, columns),
                "full": lambda: full_ends(self.dies), "links": lambda: self.wiring}[self.topology]()
        rates = self.wiring_rates or (None,) * len(ends)
        latencies = self.wiring_latencies or (None,) * len(ends)
        return tuple(Link(*nodes, rate=self.rate if rate is None else rate,
                          latency=self.link_latency if latency is None else latency)
                     for nodes, rate, latency in zip(ends, rates, latencies, strict=True))

    @cached_property
    def peers(self) -> tuple[dict[int, tuple[int, int]], ...]:
        """For each node, dies first, then switches: port -> (node, port) at the other end."""
        peers: tuple[dict[int, tuple[int, int]], ...] = tuple({} for _ in range(self.dies + self.switches))
        for link in self.links:
            peers[link.a][link.a_port] = (link.b, link.b_port)
            peers[link.b][link.b_port] = (link.a, link.a_port)
        return tuple(dict(sorted(ports.items())) for ports in peers)

    def directed(self) -> list[tuple[int, int, int, int]]:
        """Every link twice, as (node, port out, node, port in)."""
        return [(node, port, other, there) for node, ports in enumerate(self.peers)
                for port, (other, there) in ports.items()]

    def timed(self) -> list[tuple[int, int, int, int, int]]:
        """Every link twice, as (node, port out, node, port in, cycles of latency), in the order of
        :meth:`directed`."""
        return [(*link, latency)
                for link, latency in zip(self.directed(), self.directed_latencies.tolist(), strict=True)]

    @cached_property
    def all_routes(self) -> AllRoutes:
        """Routes from each node to each die, over :meth:`directed`."""
        if self.routes:
            return AllRoutes.along(self.directed(), self.following)
        return AllRoutes.of(self.directed(), self.dies + self.switches, self.dies)

    @cached_property
    def following(self) -> NDArray[np.int64]:
        """The place in :meth:`directed` of the link over which each node sends to each die, -1 to itself."""
        if not self.routes:
            return self.all_routes.following
        number = {(node, port): place for place, (node, port, _, _) in enumerate(self.directed())}
        return np.array([[-1 if port is None else number[die, port] for port in row]
                         for die, row in enumerate(self.routes)], dtype=np.int64)

    def circle(self, pairs: Iterable[tuple[int, int]] | None = None, following: NDArray[np.int64] | None = None
               ) -> str:
        """A circle of links in which packets from dies to others, those of ``pairs`` or all, would wait for each other
        (:mod:`plinth.array.deadlock`), in words; empty if there is none.

        ``following``: by other routes than the array's own.
        """
        links = self.directed()
        pairs = product(range(self.dies), range(self.dies)) if pairs is None else pairs
        circle = find_circle(links, self.following if following is None else following, pairs)
        return circle_text(links, circle, self.dies) if circle else ""

    @cached_property
    def route_table(self) -> list[list[int | None]]:
        """For each die and destination the port by which it sends; None for itself."""
        links = self.directed()
        return [[None if number < 0 else links[number][1] for number in row]
                for row in self.all_routes.following[:self.dies].tolist()]

    def path(self, source: int, target: int) -> list[int]:
        """Places in :meth:`directed` of the links from a die to another, in the order of the way.

        Raises
        ------
        UserError
            If there is no such die.
        """
        for die in (source, target):
            if not isinstance(die, (int, np.integer)) or not 0 <= die < self.dies:
                raise UserError(f"array {self.name!r} has dies 0 to {self.dies - 1}, not {one_line(repr(die), 60)}")
        links, node = [], source
        while node != target:
            links.append(int(self.all_routes.following[node, target]))
            node = int(self.all_routes.heads[links[-1]])
        return links

    @cached_property
    def for_tiles(self) -> "Array":
        """The array as tiles see it: with their routes."""
        return replace(self, routes=self.tile_routes, tile_routes=()) if self.tile_routes else self

    @cached_property
    def directed_rates(self) -> NDArray[np.float64]:
        """Words a cycle of each of :meth:`directed`."""
        return np.array([float(self.port_rates[node, port]) for node, port, _, _ in self.directed()])

    @cached_property
    def directed_latencies(self) -> NDArray[np.int64]:
        """Cycles of latency of each of :meth:`directed`."""
        ends = {end: link.latency for link in self.links for end in ((link.a, link.a_port), (link.b, link.b_port))}
        return np.array([ends[node, port] for node, port, _, _ in self.directed()], dtype=np.int64)

    @property
    def has_latencies(self) -> bool:
        """Whether links differ in latency."""
        return any(latency not in (None, self.link_latency) for latency in self.wiring_latencies)

    @cached_property
    def route_latencies(self) -> NDArray[np.int64]:
        """Cycles that the links of the route from each die to each die take together ``[die, die]``."""
        dies = self.dies
        if not self.has_latencies:
            return self.all_routes.hops[:dies].astype(np.int64) * self.link_latency
        cycles, pairs = np.zeros(dies * dies, dtype=np.int64), np.arange(dies * dies)
        for pair, over in self.all_routes.walk(pairs // dies, pairs % dies):
            cycles[pair] += self.directed_latencies[over]
        return cycles.reshape(dies, dies)

    def ring_latency(self, rings: NDArray[np.int64]) -> int:
        """Cycles of links' latencies for the last chunk once around the slowest of some rings ``[ring, member]``.

        A chunk starts behind its owner and so takes all hops of the ring but one; the last chunk spares the shortest.
        """
        hops = self.route_latencies[rings, np.roll(rings, -1, axis=-1)]
        return int((hops.sum(axis=-1) - hops.min(axis=-1)).max())

    @cached_property
    def port_rates(self) -> dict[tuple[int, int], Fraction]:
        """Words a cycle of each link by its ends, as (node, port)."""
        return {end: link.rate for link in self.links for end in ((link.a, link.a_port), (link.b, link.b_port))}

    @cached_property
    def has_rates(self) -> bool:
        """Whether links of dies have rates of their own."""
        return any(rate != self.rate for (node, _), rate in self.port_rates.items() if node < self.dies)

    def die_parameters(self) -> DieParameters:
        """The preset with the ports and the link rates of this array; with no more ports than a router has."""
        return self._die_parameters

    @cached_property
    def _die_parameters(self) -> DieParameters:
        die = PRESETS[self.preset]
        return preset(self.preset, ports=max(die.ports, min(self.ports, MAXIMUM_PORTS)),
                      link_rate=self.rate / die.flit_words, port_rates=self.has_rates,
                      codes=die.codes or self.codes is not None)


def ring(dies: int, **settings: object) -> Array:
    """A ring of dies of preset ``ndp-demo``, or as ``settings`` say."""
    return Array(**{"name": f"ring-{dies}", "topology": "ring", "dies": dies, "preset": "ndp-demo",
                    **settings})  # type: ignore[arg-type]


def full(dies: int) -> Array:
    """Dies of preset ``ndp-demo``, each joined with all others."""
    return Array(name=f"full-{dies}", topology="full", dies=dies, preset="ndp-demo")


def torus(rows: int, columns: int) -> Array:
    """Rows and columns of dies of preset ``ndp-demo``."""
    return Array(name=f"torus-{rows}x{columns}", topology="torus", dies=rows * columns, dimensions=(rows, columns),
                 preset="ndp-demo")


#: Ends of names of MPT's arrays, and what codes their tiles.
_CODES = {"": None, "-ideal": AT_LINKS, "-codes": BUILT}


def clusters(groups: int, of: int, codes: str | None = None) -> Array:
    """Groups x clusters of MPT's workers (Table III): dies of 64x64 at 1 GHz, 5 ns a hop; two full links for rings, 60
    GB/s a direction together, and links of 10 GB/s inside clusters."""
    end = next(end for end, what in _CODES.items() if what == codes)
    return Array(name=f"mpt-{groups}x{of}{end}", topology="clusters", dies=groups * of, dimensions=(groups, of),
                 preset="ndp-paper", link_rate=Fraction(15), narrow_rate=Fraction(5, 2), codes=codes)


def data_parallel_workers(dies: int) -> Array:
    """MPT's workers where nothing but data parallelism runs: one group, with all I/O in its ring and nothing narrow.

    Section VII.B: "we assumed the memory modules have the same I/O link bandwidth for all configurations - four
    bi-directional full-width links (i.e., total 240 GB/sec). Thus, w_dp uses four rings"; for MPT "half of the I/O link
    bandwidth for collective operation, which resulted in two rings". A ring takes 30 GB/s of what a worker sends, so
    that four take 120, twice those of :func:`clusters`.
    """
    return replace(clusters(1, dies), name=f"mpt-{dies}-data", narrow_rate=None, ring_links=2)


#: HyPar, section 6.1: row-stationary dies of 12x14 with 8 GB each, links of 1600 Mb/s (50 million words a second) at
#: 250 MHz.
_HYPAR = {"dies": 16, "preset": "hypar-paper", "link_rate": Fraction(1, 5), "clock_mhz": Fraction(250)}

#: Arrays by name; rings, full arrays and tori of other sizes have names alike (:func:`sized`).
ARRAYS: dict[str, Array] = {
    array.name: array for array in (
        ring(1), ring(2), ring(4), ring(8),
        full(2), full(4), full(8),
        torus(2, 2), torus(2, 4), torus(4, 4),
        # HyPar, section 5: a binary tree, 25.6 Gb/s at each level.
        Array(name="hypar-16", topology="h-tree", **_HYPAR),  # type: ignore[arg-type]
        # The same with as many dies as there can be.
        Array(name="hypar-1024", topology="h-tree", **_HYPAR | {"dies": MAXIMUM_DIES}),  # type: ignore[arg-type]
        # HyPar, section 6.5.1: the same links in a torus.
        Array(name="torus-16", topology="torus", dimensions=(4, 4), **_HYPAR),  # type: ignore[arg-type]
        # MPT, section VII.A: 16 groups x 16 clusters.
        replace(clusters(16, 16), name="mpt-256"),
        # MPT, section VII.B: the same with all I/O bandwidth in rings of 256, for data parallelism.
        data_parallel_workers(256),
        # The same of dies of 96x96 with FP16 products (footnote 16).
        replace(clusters(16, 16), name="mpt-256-mixed", preset="ndp-paper-mixed"),
        # The same with what predicts and skips: of the paper's, as fast as links; of ours, as it is built.
        replace(clusters(16, 16, AT_LINKS), name="mpt-256-ideal"),
        replace(clusters(16, 16, BUILT), name="mpt-256-codes"),
    )
}


def sized(name: str) -> Array | None:
    """The array of a name such as ring-3, full-6, torus-3x4, mpt-4x8 or mpt-4x8-ideal; None
    if it has none of these forms.

    Raises
    ------
    ValueError
        If there cannot be an array of this size.
    """
    match = re.fullmatch(
        r"(ring|full)-([1-9][0-9]{0,3})|"
        r"(?:torus|(mpt))-([1-9][0-9]{0,3})x([1-9][0-9]{0,3})(?(3)(|-ideal|-codes))", name)
    if match is None:
        return None
    topology, dies, mpt, rows, columns, end = match.groups()
    if topology is None:
        return clusters(int(rows), int(columns), _CODES[end]) if mpt else torus(int(rows), int(columns))
    return {"ring": ring, "full": full}[topology](int(dies))


def sizes_of(name: str) -> str | None:
    """What sizes there are of the arrays whose names begin as a name does that no array has; None if none begin so."""
    word = re.match("[a-z]*", name)
    numbered = 1 << PRESETS["ndp-demo"].die_bits
    sizes = {"ring": f"ring-N, of 1 to {numbered} dies",
             "full": f"full-N, of 1 to {MAXIMUM_PORTS + 1} dies",
             "torus": f"torus-RxC, of R x C dies, {numbered} at most",
             "mpt": f"mpt-GxC, of G x C dies, {MAXIMUM_DIES} at most",
             "hypar": ", ".join(array for array in ARRAYS if array.startswith("hypar-"))}
    return sizes.get(word[0]) if word else None
