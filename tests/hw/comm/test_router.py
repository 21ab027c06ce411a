"""Router: rings, tori, full arrays; random packets in all classes, credits and backpressure on every side."""

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from tests.support.refusal import refused
from tests.support.verilated import Verilated

from plinth.array.array import ARRAYS
from plinth.array.array import ring as ring_array
from plinth.array.routes import routes as routes_of
from plinth_hw.comm.flit import PacketKind, flit_layout, taken_layout
from plinth_hw.comm.input_buffer import InputBuffer
from plinth_hw.comm.router import Router
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.operations import Traffic as Kind
from plinth_hw.isa.parameters import preset

#: Short buffers, so that they fill.
PARAMETERS = preset("ndp-tiny", chunk_words=8, flit_words=2, die_bits=3, engines=frozenset({Engine.COLLECTIVE}))
#: The same with routes looked up as flits come.
AHEAD = replace(PARAMETERS, chunk_words=16, transforms=((2, 3),),
                engines=frozenset({Engine.COLLECTIVE, Engine.TRANSFER}))
LAYOUT = flit_layout(PARAMETERS)
CLASSES = PARAMETERS.classes
TAKEN = [taken_layout(PARAMETERS, number) for number in range(CLASSES)]
TRANSFER = PARAMETERS.transfer_class
LONGEST = PARAMETERS.packet_flits


@cache
def built(parameters):
    """Built once for all arrays of it."""
    return Verilated(Router(parameters))


class RouterArray:
    """Routers joined by links (die, port out, other die, port in); what benches reach is the rest of their ports."""

    def __init__(self, dies, links, parameters=PARAMETERS):
        self.router = built(replace(parameters, ports=max(2, *(link[1] + 1 for link in links))))
        self.routers = [self.router.copy() for _ in range(dies)]
        self.links = [(getattr(self.routers[die], f"link_out_{port}"),
                       getattr(self.routers[other], f"link_in_{other_port}"))
                      for die, port, other, other_port in links]

    def configure(self, ctx, rate):
        """Numbers of the dies, and the rate of all links."""
        for die, mine in enumerate(self.routers):
            ctx.set(mine.die, die)
            for link in mine.rates:
                ctx.set(link, {"numerator": rate.numerator, "denominator": rate.denominator})

    def simulate(self, *benches, **options):
        """Run test benches until all end."""
        self.router.simulate(*benches, copies=self.routers, links=self.links, **options)


def flit(**fields):
    """Bits of a flit."""
    return LAYOUT.const(fields).as_bits()


def field(layout, bits, name):
    """A field of a flit, or of what a die takes of it."""
    place = layout[name]
    return bits >> place.offset & (1 << place.width) - 1


def taken(bits, number):
    """What a die takes of a flit of a class."""
    parts = [(name, place.offset, field(LAYOUT, bits, name)) for name, place in TAKEN[number]]
    return sum((part & (1 << TAKEN[number][name].width) - 1) << offset for name, offset, part in parts)


@dataclass
class Traffic:
    """What a die sends, per class, and how willing it is to send and receive."""

    flits: list[deque]
    send: float = 1.0
    receive: float = 1.0
    #: Cycle from which it receives.
    opens: int = 0


def packets(rng, dies, die, count, to=None, advances=True):
    """``count`` packets a class for random other dies; fields as they must arrive."""
    flits = [deque() for _ in range(CLASSES)]
    for number in range(CLASSES):
        for packet in range(count):
            target = (die + to) % dies if to else (die + int(rng.integers(1, dies))) % dies
            length = int(rng.integers(1, LONGEST + 1)) if number else 1
            kinds = [PacketKind.STORE, PacketKind.ADD, *[PacketKind.ADVANCE] * (advances and length == 1)]
            kind = kinds[rng.integers(len(kinds))]
            for place in range(length):
                fields = {"destination": target, "traffic_class": number, "tail": place == length - 1,
                          "message": die, "data": [int(word) for word in rng.integers(0, 1 << 32, 2)]}
                if number:
                    fields |= {"group": int(rng.integers(16)), "chunk": packet, "words": place % 2}
                if number == TRANSFER:
                    fields |= {"kind": kind}
                if number == 0:
                    fields |= {"chunk": int(rng.integers(dies))}
                flits[number].append(flit(**fields))
    return flits


class Bench:
    """Drives a ring, keeps and checks what comes out."""

    def __init__(self, dies, traffic, rate=Fraction(15, 16), routes=None, seed=0, ends=None,
                 limit_cycles=20_000, links=None, nowhere=None, parameters=PARAMETERS):
        self.dies, self.traffic, self.rate = dies, traffic, rate
        self.array = RouterArray(dies, links or ring_array(dies).directed(), parameters)
        self.routes = routes or (lambda die, to: int(2 * ((to - die) % dies) > dies))
        self.seed = seed
        #: Port by which each die sends what is for a die that there is not.
        self.nowhere = nowhere or {}
        #: Destinations of flits that each die has thrown away.
        self.lost = [[] for _ in range(dies)]
        self.sent = defaultdict(list)
        for die, mine in enumerate(traffic):
            for number, flits in enumerate(mine.flits):
                for bits in flits:
                    to = field(LAYOUT, bits, "destination")
                    # Where packets of this kind end that do not go to their destination.
                    to = (ends or {}).get((to, field(LAYOUT, bits, "kind")), to)
                    if to >= dies:
                        continue
                    self.sent[die, to, number].append(taken(bits, number))
        self.expected = [[sum(len(flits) for key, flits in self.sent.items() if key[1:] == (die, number))
                          for number in range(CLASSES)] for die in range(dies)]
        self.arrived = [[[] for _ in range(CLASSES)] for _ in range(dies)]
        self.words = np.zeros((dies, 3), int)
        #: words on each link in each cycle
        self.ports = []
        self.ready = 0
        self.array.simulate(*(self._die(die) for die in range(dies)), self._configure,
                            background=[self._count], limit_cycles=limit_cycles)

    def takes(self, die, number, rng, cycle):
        """Whether a die takes a flit of a class in this cycle."""
        return cycle >= self.traffic[die].opens and rng.random() < self.traffic[die].receive

    async def _configure(self, ctx):
        self.array.configure(ctx, self.rate)
        for die, router in enumerate(self.array.routers):
            ports = {to: self.routes(die, to) for to in range(self.dies)}
            ports |= {6: self.nowhere[die]} if die in self.nowhere else {}
            for to, port in ports.items():
                await self._write(ctx, router, to, port)
            ctx.set(router.route_write.valid, 0)
        self.ready = 1

    async def _write(self, ctx, router, to, port):
        """A route of a die: a port, or one for each kind of traffic."""
        for kind, kind_port in enumerate(port if isinstance(port, tuple) else [port]):
            ctx.set(router.route_write, {"valid": 1, "destination": to, "port": kind_port} | (
                {"traffic": 1 << kind} if isinstance(port, tuple) else {}))
            await ctx.tick()

    def _die(self, die):
        mine, router = self.traffic[die], self.array.routers[die]
        ejects = [getattr(router, f"eject_{number}") for number in range(CLASSES)]
        # Looked up once: members of an interface take longer to find than a cycle to simulate.
        inject, readies = router.inject, [eject.ready for eject in ejects]
        valid, flit_bits = inject.valid, inject.flit.as_value()
        sampled = [inject.credit, *(part for eject in ejects for part in (
            eject.valid, eject.payload.as_value()))]

        async def bench(ctx):
            rng = np.random.default_rng(1000 * self.seed + die)
            credits = [PARAMETERS.inject_buffer_flits] * CLASSES
            arrived, cycle = self.arrived[die], 0
            held = [None] * CLASSES
            while not self.ready:
                await ctx.tick()
            while (any(mine.flits) or [len(flits) for flits in arrived] != self.expected[die]
                   or credits != [PARAMETERS.inject_buffer_flits] * CLASSES):
                possible = [c for c in range(CLASSES) if mine.flits[c] and credits[c]]
                sends = bool(possible) and rng.random() < mine.send
                if sends:
                    number = possible[rng.integers(len(possible))]
                    credits[number] -= 1
                    ctx.set(flit_bits, mine.flits[number].popleft())
                ctx.set(valid, sends)
                takes = [self.takes(die, number, rng, cycle) for number in range(CLASSES)]
                for ready, take in zip(readies, takes, strict=True):
                    ctx.set(ready, take)
                _, _, credit, *offers = await ctx.tick().sample(*sampled)
                for number in range(CLASSES):
                    credits[number] += credit >> number & 1
                    assert credits[number] <= PARAMETERS.inject_buffer_flits
                    offered, bits = offers[2 * number:2 * number + 2]
                    assert held[number] in (None, bits), "a flit changed while it waited"
                    assert held[number] is None or offered
                    held[number] = bits if offered and not takes[number] else None
                    if offered and takes[number]:
                        arrived[number].append(bits)
                cycle += 1
            ctx.set(valid, 0)

        return bench

    async def _count(self, ctx):
        routers = self.array.routers
        sampled = [count for router in routers for count in (
            router.injected_words, router.transit_words, router.port_words.as_value(), router.lost)]
        while True:
            _, _, *counts = await ctx.tick().sample(*sampled)
            ports = [[bits >> 2 * port & 3 for port in range(len(routers[0].port_words))]
                     for bits in counts[2::4]]
            self.ports.append(ports)
            for die in range(self.dies):
                self.words[die] += counts[4 * die], counts[4 * die + 1], sum(ports[die])
                lost = counts[4 * die + 3]
                self.lost[die] += [lost.die] * lost.valid

    def check(self):
        """Every packet arrived, whole, unmixed and in order; the counts of words are right."""
        words = np.zeros(self.dies, int)
        for die, classes in enumerate(self.arrived):
            streams = defaultdict(list)
            for number, flits in enumerate(classes):
                inside = None
                for bits in flits:
                    origin = field(TAKEN[number], bits, "message")
                    assert inside in (None, origin), "packets of a class are mixed"
                    inside = origin if number and not field(TAKEN[number], bits, "tail") else None
                    streams[origin, die, number].append(bits)
                    advance = number == TRANSFER and field(TAKEN[number], bits, "kind") == PacketKind.ADVANCE.value
                    words[origin] += field(TAKEN[number], bits, "words") + 1 if number and not advance else 0
            for key, flits in streams.items():
                assert flits == self.sent[key]
        assert self.nowhere or (self.words[:, 0] == words).all()
        assert (self.words[:, :2].sum(axis=1) == self.words[:, 2]).all()
        return self


@pytest.mark.parametrize("parameters", [PARAMETERS, AHEAD])
@pytest.mark.parametrize(("dies", "seed", "send", "receive", "rate"), [
    (2, 2, 0.6, 0.4, Fraction(1)), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        (2, 1, 1.0, 1.0, Fraction(15, 16)), (4, 3, 1.0, 1.0, Fraction(1)), (4, 4, 0.7, 0.5, Fraction(15, 16)),
        (4, 5, 1.0, 0.2, Fraction(3, 7))))])
def test_random(dies, seed, send, receive, rate, parameters):
    """Random packets to random dies, over several hops, in all classes at once. No packet crosses from the
    last die to the first: only control and transfer packets may go round."""
    rng = np.random.default_rng(seed)
    Bench(dies, [Traffic(packets(rng, dies, die, 60 // dies), send, receive) for die in range(dies)], rate,
          routes=lambda die, to: int(to < die), seed=seed, parameters=parameters).check()


def test_classes_are_apart():
    """A die that does not take one class yet gets everything of the others."""
    rng = np.random.default_rng(6)
    traffic = [Traffic(packets(rng, 2, die, 30)) for die in range(2)]
    blocked = CLASSES - 1
    passed = []

    class Late(Bench):
        """Takes the last class only when all else is there."""

        def takes(self, die, number, rng, cycle):
            if number != blocked:
                return True
            others = [len(flits) for flits in self.arrived[die]][:blocked] == self.expected[die][:blocked]
            passed.append(others)
            return others

    Late(2, traffic, seed=6).check()
    assert passed.count(False) > 100


@pytest.mark.parametrize("rate", [
    pytest.param(Fraction(15, 16), marks=pytest.mark.slow), pytest.param(Fraction(1), marks=pytest.mark.slow),
    Fraction(2, 5)])
def test_rate(rate):
    """A stream of flits gets the rate of the link, no more and no less."""
    count = 40
    flits = [deque(), *packets(np.random.default_rng(7), 2, 0, count, advances=False)[1:]]
    total = sum(len(f) for f in flits)
    bench = Bench(2, [Traffic(flits), Traffic([deque() for _ in range(CLASSES)])], rate).check()
    busy = np.array([ports[0][0] > 0 for ports in bench.ports])
    first, last = busy.nonzero()[0][[0, -1]]
    assert busy.sum() == total
    assert abs((last - first) * float(rate) - total) < 4
    # Within any stretch a flit more than the rate at most.
    excess = np.cumsum(busy - float(rate))
    assert (excess - np.minimum.accumulate(excess)).max() <= 2


@pytest.mark.parametrize(("dies", "hops"), [
    pytest.param(4, 3, marks=pytest.mark.slow), pytest.param(4, 2, marks=pytest.mark.slow), (2, 1)])
def test_bubble(dies, hops):
    """More control packets than the ring holds, all the same way round, and nobody takes any at first:
    without the bubble rule the links' buffers fill with packets that only pass through."""
    rng = np.random.default_rng(8)
    count = dies * (PARAMETERS.link_buffer_flits + 8)
    traffic = []
    for die in range(dies):
        control = packets(rng, dies, die, count, to=hops)[0]
        traffic.append(Traffic([control, *(deque() for _ in range(CLASSES - 1))], opens=600))
    Bench(dies, traffic, Fraction(1), routes=lambda die, to: 0).check()


def only(number, rng, dies, die, count, **options):
    """Packets of one class alone; options as of :func:`packets`."""
    mine = packets(rng, dies, die, count, **options)
    return [mine[other] if other == number else deque() for other in range(CLASSES)]


@pytest.mark.parametrize("number", [1, TRANSFER])
@pytest.mark.parametrize(("dies", "hops", "opens"), [
    pytest.param(4, 2, 0, marks=pytest.mark.slow), pytest.param(4, 2, 500, marks=pytest.mark.slow),
    pytest.param(4, 3, 500, marks=pytest.mark.slow), pytest.param(6, 3, 500, marks=pytest.mark.slow)])
def test_data_across_a_ring(dies, hops, opens, number):
    """All dies send more than the ring holds across it, all the same way round, and take nothing at first: without
    the bubble rule every buffer fills with packets that wait for the next one."""
    rng = np.random.default_rng(dies + hops)
    traffic = [Traffic(only(number, rng, dies, die, 30, to=hops), opens=opens) for die in range(dies)]
    Bench(dies, traffic, Fraction(1), routes=lambda die, to: 0).check()


@pytest.mark.parametrize(("name", "seed", "opens"), [
    pytest.param("torus-2x4", 2, 300, marks=pytest.mark.long), ("torus-2x2", 2, 300), ("full-4", 3, 300)])
@pytest.mark.slow
def test_other_arrays(name, seed, opens):
    """Random packets to random dies by the shortest ways, transfers most of all."""
    array = ARRAYS[name]
    dies, links = array.dies, array.directed()
    table = routes_of(links, dies)
    rng = np.random.default_rng(seed)
    traffic = []
    for die in range(dies):
        flits = packets(rng, dies, die, 6)
        flits[TRANSFER].extend(only(TRANSFER, rng, dies, die, 16)[TRANSFER])
        traffic.append(Traffic(flits, opens=opens))
    Bench(dies, traffic, Fraction(1), routes=lambda die, to: table[die][to] or 0, seed=seed, links=links).check()


@pytest.mark.slow
def test_transfers_use_the_whole_link():
    """Packets of full length from one die to the next follow each other at the link's rate."""
    rng = np.random.default_rng(9)
    flits = only(TRANSFER, rng, 2, 0, 200, advances=False)
    total = len(flits[TRANSFER])
    bench = Bench(2, [Traffic(flits), Traffic([deque() for _ in range(CLASSES)])], Fraction(15, 16)).check()
    busy = np.array([ports[0][0] > 0 for ports in bench.ports])
    first, last = busy.nonzero()[0][[0, -1]]
    assert last - first < total * 16 / 15 + 4


@pytest.mark.slow
def test_what_ends_here_leaves_routes_known():
    """Packets of one flit go two links on: those that pass through a die come in turn with those that end there, and
    need no lookup."""
    count = 100
    traffic = [Traffic([*(deque() for _ in range(TRANSFER)), deque(
        flit(destination=(die + 2) % 4, traffic_class=TRANSFER, tail=1, kind=PacketKind.STORE, message=die,
             chunk=number, words=1, data=[number, die]) for number in range(count))]) for die in range(4)]
    bench = Bench(4, traffic, Fraction(1), routes=lambda die, to: 0).check()
    busy = np.array([ports[0][0] > 0 for ports in bench.ports])
    first, last = busy.nonzero()[0][[0, -1]]
    assert busy.sum() == 2 * count and last - first < 2.2 * count


def test_routes_looked_up_ahead_keep_nobody():
    """Packets of one flit to the next two dies in turn, among those that pass through: a flit a cycle."""
    count = 60
    traffic = [Traffic([*(deque() for _ in range(TRANSFER)), deque(
        flit(destination=(die + 1 + number % 2) % 4, traffic_class=TRANSFER, tail=1, kind=PacketKind.STORE, message=die,
             chunk=number % 16, words=1, data=[number, die]) for number in range(count))]) for die in range(4)]
    bench = Bench(4, traffic, Fraction(1), routes=lambda die, to: 0, parameters=AHEAD).check()
    busy = np.array([ports[0][0] > 0 for ports in bench.ports])
    first, last = busy.nonzero()[0][[0, -1]]
    assert busy.sum() == 1.5 * count and last - first < 1.7 * count


def test_tiles_to_all_in_turn_fill_the_links():
    """Every die of a ring sends packets of two flits to all others in turn, all of them to the same one at a time, and
    the fuller direction's links never wait for long: neither behind tiles that end here, nor for the other direction's.
    """
    dies, rounds, rate = 6, 24, Fraction(15, 16)
    traffic = [Traffic([*(deque() for _ in range(TRANSFER)), deque(
        flit(destination=to, traffic_class=TRANSFER, tail=place, kind=PacketKind.STORE, message=die, chunk=number % 16,
             words=1, data=[number, die])
        for number in range(rounds) for to in range(dies) if to != die for place in range(2))]) for die in range(dies)]
    bench = Bench(dies, traffic, rate, parameters=AHEAD).check()
    busy = np.array([[ports[0] > 0 for ports in cycle] for cycle in bench.ports])
    first, last = busy.any(axis=1).nonzero()[0][[0, -1]]
    assert (busy.sum(axis=0) == 12 * rounds).all() and 12 * rounds / rate >= 0.92 * (last - first + 1)


@pytest.mark.parametrize(("port", "parameters"), [
    (0, PARAMETERS), (1, AHEAD), pytest.param(1, PARAMETERS, marks=pytest.mark.slow)])
def test_error_packets_take_the_port_they_name(port, parameters):
    """Among advances to the same destination, which go their way, an ERROR goes to the next die on its port."""
    def control(kind):
        return flit(destination=2, traffic_class=0, tail=1, kind=kind, chunk=1, message=port)

    advance, error = PacketKind.ADVANCE, PacketKind.ERROR
    kinds = [advance, error, advance, error, error]
    others = [deque() for _ in range(CLASSES - 1)]
    traffic = [Traffic([deque(map(control, kinds)), *others]),
               *(Traffic([deque() for _ in range(CLASSES)]) for _ in range(3))]
    ends = 3 if port else 1
    bench = Bench(4, traffic, ends={(2, error.value): ends}, parameters=parameters)
    assert bench.arrived[ends][0] == [taken(control(error), 0)] * 3
    assert bench.arrived[2][0] == [taken(control(advance), 0)] * 2


def to_nowhere(number, die, length):
    """A packet for a die that the array does not have."""
    return [flit(**{"destination": 6, "traffic_class": number, "tail": place == length - 1, "message": die,
                    "kind": PacketKind.STORE if number == TRANSFER else PacketKind.ADVANCE, "data": [place, 9]})
            for place in range(length)]


@pytest.mark.parametrize(("first", "parameters"), [
    (0, PARAMETERS), (1, PARAMETERS), (TRANSFER, PARAMETERS), (TRANSFER, AHEAD)])
def test_packets_without_a_route_are_thrown_away(first, parameters):
    """They are reported, with the destination; what comes before, between and behind them arrives.

    Die 0 knows a way to die 6, others do not: the packets are lost on die 1, and where they are sent elsewhere."""
    rng = np.random.default_rng(40 + first)
    sent, counts = [], []
    for die in range(3):
        flits = only(first, rng, 3, die, 12)
        mixed, lost = deque(), 0
        while flits[first]:
            if rng.random() < 0.5:
                length = 1 if first == 0 else int(rng.integers(1, LONGEST + 1))
                mixed.extend(to_nowhere(first, die, length))
                lost += length
            while not field(LAYOUT, flits[first][0], "tail"):
                mixed.append(flits[first].popleft())
            mixed.append(flits[first].popleft())
        flits[first] = mixed
        sent.append(Traffic(flits))
        counts.append(lost)
    bench = Bench(3, sent, Fraction(1), nowhere={0: 0}, parameters=parameters)
    # Of flits that two inputs of die 1 lose in the same cycle one is reported.
    lost = [len(numbers) for numbers in bench.lost]
    assert all(counts) and (lost[0], lost[2]) == (0, counts[2]) and max(counts[:2]) <= lost[1] <= sum(counts[:2])
    assert {number for lost in bench.lost for number in lost} == {6}
    bench.check()


def test_packets_do_not_turn_back():
    """A packet whose route leads back by the port by which it came ends there; it does not stand in others' way."""
    rng = np.random.default_rng(43)
    flits = only(TRANSFER, rng, 3, 0, 10, to=1)
    flits[TRANSFER].extendleft(to_nowhere(TRANSFER, 0, 1))
    empty = [Traffic([deque() for _ in range(CLASSES)]) for _ in range(2)]
    bench = Bench(3, [Traffic(flits), *empty], Fraction(1), nowhere={0: 0, 1: 1}).check()
    assert bench.lost == [[], [6], []]


#: Of which each kind of traffic has routes of its own.
SETTING, SETTING_AHEAD = (replace(parameters, sets_routes=True) for parameters in (PARAMETERS, AHEAD))


@pytest.mark.parametrize("parameters", [SETTING, SETTING_AHEAD])
def test_kinds_of_traffic_have_routes_of_their_own(parameters):
    """Chunks go round a ring one way, tiles the other, and advances the shorter one."""
    dies, rng = 4, np.random.default_rng(44)
    mine = [packets(rng, dies, die, 10) for die in range(dies)]
    wanted = np.zeros((dies, 2), int)
    for die, flits in enumerate(mine):
        for number, bits in ((traffic, bits) for traffic in range(1, CLASSES) for bits in flits[traffic]):
            if number < TRANSFER or field(LAYOUT, bits, "kind") != PacketKind.ADVANCE.value:
                port = int(number == TRANSFER)
                steps = (field(LAYOUT, bits, "destination") - die) % dies
                for hop in range(dies - steps if port else steps):
                    wanted[(die + (-hop if port else hop)) % dies, port] += field(LAYOUT, bits, "words") + 1
    bench = Bench(dies, [Traffic(flits, 0.8, 0.6) for flits in mine], seed=44, parameters=parameters,
                  routes=lambda die, to: (int(2 * ((to - die) % dies) > dies), 0, 1)).check()
    assert (np.array(bench.ports).sum(axis=0) == wanted).all()


def test_a_kind_of_traffic_is_quiet_when_its_packets_have_gone():
    """Neither while a packet's rest is to come, nor while flits wait for the die; others are, all along."""
    array = RouterArray(2, ring_array(2).directed(), SETTING)
    first, second = array.routers
    tiles = 1 << Kind.TILES.value
    everything = (1 << len(Kind)) - 1
    count = 12
    flits = [flit(destination=1, traffic_class=TRANSFER, tail=number == count - 1, kind=PacketKind.STORE)
             for number in range(count)]

    async def bench(ctx):
        def quiet():
            return [ctx.get(first.quiet), ctx.get(second.quiet)]

        array.configure(ctx, Fraction(1))
        ctx.set(first.route_write, {"valid": 1, "destination": 1, "port": 0, "traffic": tiles})
        await ctx.tick()
        ctx.set(first.route_write.valid, 0)
        for bits in flits:
            ctx.set(first.inject.flit.as_value(), bits)
            ctx.set(first.inject.valid, 1)
            await ctx.tick()
            ctx.set(first.inject.valid, 0)
            await ctx.tick().repeat(12)
            if bits is flits[0]:
                assert quiet() == [everything & ~tiles, everything]
        assert quiet() == [everything, everything & ~tiles]
        ctx.set(getattr(second, f"eject_{TRANSFER}").ready, 1)
        await ctx.tick().repeat(count)
        assert quiet() == [everything, everything]

    array.simulate(bench, limit_cycles=500)


def test_bad_parameters():
    with refused(ValueError, "power of two above 1, not 1"):
        InputBuffer(PARAMETERS, 1)
