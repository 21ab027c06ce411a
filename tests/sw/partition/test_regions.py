"""Who sends how many words to whom, against element-by-element ownership; the closed form against both."""

import math
import random

import numpy as np
import pytest
from tests.support.plan_graphs import dense, random_chain, random_graph, random_splits

from plinth.errors import UserError
from plinth.partition import exchanges, regions
from plinth.partition.axes import Region, overlap, plane
from plinth.partition.cuts import bounds, places
from plinth.partition.graph import SPLITS, PlanGraph
from plinth.partition.groups import RING, process_groups
from plinth.predict.exact import ExactWords


def owned(size: int, picks: list[tuple[int, int]]) -> np.ndarray:
    """Elements of a range that is cut again and again: of each cut the part taken, and of how many; the first parts may
    be one larger."""
    part = list(range(size))
    for pick, factor in picks:
        lengths = [len(part) // factor + (number < len(part) % factor) for number in range(factor)]
        part = part[sum(lengths[:pick]):][:lengths[pick]]
    mask = np.zeros(size, dtype=bool)
    mask[part] = True
    return mask


class Model:
    """Which die has which (sample, channel) of what, as boolean arrays."""

    def __init__(self, graph: PlanGraph, splits, batch: int, factors) -> None:
        self.graph, self.splits, self.batch = graph, splits, batch
        self.factors, self.levels = factors, len(factors)
        self.dies = math.prod(factors)

    def digits(self, die: int) -> list[int]:
        digits = []
        for factor in reversed(self.factors):
            die, digit = divmod(die, factor)
            digits.append(digit)
        return digits[::-1]

    def picks(self, die: int, node: int, *which: str) -> list[tuple[int, int]]:
        digits = self.digits(die)
        return [(digits[level], self.factors[level]) for want in which for level in range(self.levels)
                if self.splits[node][level] == want]

    def input(self, die: int, node: int) -> np.ndarray:
        return np.outer(owned(self.batch, self.picks(die, node, "dp")),
                        owned(self.graph.nodes[node].input_channels, self.picks(die, node, "mp")))

    def output(self, die: int, node: int) -> np.ndarray:
        if not self.graph.nodes[node].weighted:
            return self.input(die, node)
        return np.outer(owned(self.batch, self.picks(die, node, "dp")),
                        owned(self.graph.nodes[node].output_channels, self.picks(die, node, "op")))

    def owned(self, die: int, node: int) -> np.ndarray:
        if not self.graph.nodes[node].weighted:
            return self.input(die, node)
        readers = [edge.consumer for edge in self.graph.edges if edge.producer == node]
        digits = self.digits(die)
        samples, channels = self.picks(die, node, "dp"), self.picks(die, node, "op")
        for level in range(self.levels):
            if self.splits[node][level] == "mp":
                (channels if readers and self.splits[readers[0]][level] == "mp" else samples).append(
                    (digits[level], self.factors[level]))
        return np.outer(owned(self.batch, samples), owned(self.graph.nodes[node].output_channels, channels))

    def sent(self, source: list[np.ndarray], target: list[np.ndarray], positions: int) -> np.ndarray:
        words = np.zeros((self.dies, self.dies), dtype=np.int64)
        for sender in range(self.dies):
            for receiver in range(self.dies):
                if sender != receiver:
                    words[sender, receiver] = positions * (source[sender] & target[receiver]).sum()
        return words

    def transfers(self):
        graph, dies = self.graph, range(self.dies)
        transfers = {}

        def put(key, source, target, positions):
            words = self.sent(source, target, positions)
            transfers[key] = transfers[key] + words if key in transfers else words

        for number, node in enumerate(graph.nodes):
            owned = [self.owned(die, number) for die in dies]
            output = [self.output(die, number) for die in dies]
            # Every element has one owner, and that owner has a share of it.
            assert (np.sum(owned, axis=0) == 1).all()
            assert all((~own | part).all() for own, part in zip(owned, output, strict=True))
            raw = node.raw_elements // node.output_channels
            put((node.name, "fprop", "reduce", None), output, owned, raw)
            put((node.name, "bprop", "copy", None), owned, output, raw)
            for edge in graph.edges:
                if edge.producer == number:
                    reader = graph.nodes[edge.consumer].name
                    need = [self.input(die, edge.consumer) for die in dies]
                    put((node.name, "fprop", "copy", reader), owned, need, edge.elements // edge.channels)
                    put((node.name, "bprop", "reduce", reader), need, owned, edge.elements // edge.channels)
        return {key: words for key, words in transfers.items() if words.any()}

    def rings(self):
        rings = {}
        for number, node in enumerate(self.graph.nodes):
            if not node.weighted:
                continue
            groups: dict[tuple, list[int]] = {}
            for die in range(self.dies):
                rows = owned(node.input_channels, self.picks(die, number, "mp"))
                columns = owned(node.output_channels, self.picks(die, number, "op"))
                other = tuple(digit for digit, split in zip(self.digits(die), self.splits[number], strict=True)
                              if split != "dp")
                each = node.weights // (node.input_channels * node.output_channels)
                words = each * int(np.outer(rows, columns).sum()) + int(columns.sum()) * bool(node.bias)
                groups.setdefault((*other, words), []).append(die)
            for (*_, words), members in groups.items():
                rings[node.name, tuple(members)] = words
        return rings


def cases():
    rng = random.Random(7)
    for number in range(120):
        sizes = ((4, 8, 16), (3, 5, 7, 10), (1, 2, 9))[number % 3]
        graph = (random_chain(rng, rng.randint(1, 4), sizes) if number % 2 else
                 random_graph(rng, rng.randint(1, 2), sizes))
        factors = rng.choice(((), (2,), (2, 2), (3,), (2, 2, 2), (3, 2), (2, 3), (5,), (3, 2, 2), (2, 3, 2), (3, 3)))
        yield graph, random_splits(rng, graph, len(factors), SPLITS), rng.choice((8, 16, 6, 5, 3, 12)), factors


def check_transfers(graph, here, batch, factors, expected) -> None:
    """Words from every die to every other one, by exchange, are those expected."""
    counted: dict = {}
    for exchange in exchanges.exchanges(graph, here, factors):
        words = exchanges.words(exchange, batch, factors)
        assert words.sum() == exchanges.exchange_words(exchange, batch, factors)
        key = (exchange.layer, exchange.phase, exchange.kind, exchange.consumer)
        if words.any():
            counted[key] = counted[key] + words if key in counted else words
    assert counted.keys() == expected.keys()
    for key, words in expected.items():
        assert (counted[key] == words).all(), key


@pytest.mark.parametrize(("graph", "splits", "batch", "factors"), list(cases()))
def test_every_sender_receiver_and_word_follows_from_ownership(graph, splits, batch, factors) -> None:
    model = Model(graph, splits, batch, factors)
    here = regions.layouts(graph, splits)
    expected = model.transfers()
    check_transfers(graph, here, batch, factors, expected)
    rings = {(node.name, ring.members): ring.words for node, place in zip(graph.nodes, here, strict=True)
             if node.weighted for ring in regions.ring_messages(node, place, factors, place.groups(RING, factors))}
    assert rings == model.rings()
    total = sum(int(words.sum()) for words in expected.values()) + sum(
        2 * (len(members) - 1) * words for (_, members), words in model.rings().items())
    assert exchanges.total_words(graph, splits, batch, factors) == total
    assert ExactWords(graph, batch, factors).total_bytes(splits) == 4 * total


def test_level_costs_add_up_to_the_total_of_that_many_levels() -> None:
    rng = random.Random(3)
    for _ in range(20):
        graph = random_graph(rng, 2, (6, 8))
        splits = random_splits(rng, graph, 3, SPLITS)
        words = ExactWords(graph, 12, rng.choice(((2, 2, 2), (3, 2, 2), (2, 2, 3), (5, 2, 3))))
        above = tuple(vector[:2] for vector in splits)
        problem = words.level(above, SPLITS)
        owners = [splits[graph.edges[graph.outputs[number][0]].consumer][2] if graph.outputs[number] else "dp"
                  for number in range(len(graph.nodes))]
        labels = []
        for number, vector in enumerate(splits):
            places = [place for place, split in enumerate(problem.meanings[number]) if split == vector[2]]
            # Of the two labels of an mp node the first has an owner that halves the batch.
            labels.append(places[-1] if owners[number] == "mp" else places[0])
        cost = sum(problem.nodes[number][label] for number, label in enumerate(labels)) + sum(
            problem.pairs[number][labels[edge.producer]][labels[edge.consumer]]
            for number, edge in enumerate(graph.edges))
        assert 4 * cost == words.total_bytes(splits)


def test_halves_differ_by_at_most_one_and_the_lower_is_the_larger() -> None:
    low, high = bounds(10, (0, 1), (2, 2))
    assert list(high - low) == [3, 2, 3, 2]
    assert list(low) == [0, 3, 5, 8]


def test_groups_differ_in_their_levels_only_and_are_a_partition() -> None:
    def members(over, factors, owners=None):
        return process_groups(RING, over, factors, owners).members

    assert members((1,), (3, 2)) == ((0, 1), (2, 3), (4, 5))
    assert members((0,), (3, 2)) == ((0, 2, 4), (1, 3, 5))
    assert members((0, 2), (2, 3, 2)) == ((0, 1, 6, 7), (2, 3, 8, 9), (4, 5, 10, 11))
    assert members((), (3, 2)) == tuple((die,) for die in range(6)) and members((), ()) == ((0,),)
    # Die 5 has seat 0, die 4 seat 1, ...: members stand in the order of their seats.
    assert members((0,), (3, 2), (5, 4, 3, 2, 1, 0)) == ((4, 2, 0), (5, 3, 1))
    assert places((1, 0), (3, 2)).tolist() == [0, 3, 1, 4, 2, 5]


def random_region(rng: random.Random, levels: int) -> Region:
    """Some levels cut the batch, some the channels, in any order."""
    order = rng.sample(range(levels), levels)
    some = rng.randint(0, levels)
    return Region.of(samples=tuple(order[:some]), channels=tuple(order[some:rng.randint(some, levels)]))


def test_words_of_many_dies_are_counted_in_closed_form_as_by_the_dies() -> None:
    """With mixed radices and sizes that divide, do not, and are smaller than the parts."""
    rng = random.Random(11)
    for _ in range(300):
        factors = rng.choice(((3, 2, 2), (2, 3, 2), (3, 3), (5, 2), (2, 2, 2, 2), (3, 2, 5)))
        left, right = random_region(rng, len(factors)), random_region(rng, len(factors))
        batch, channels = rng.choice((1, 12, 60, 7)), rng.choice((2, 30, 36, 13))
        marks = [[np.outer((np.arange(batch) >= low) & (np.arange(batch) < high),
                           (np.arange(channels) >= first) & (np.arange(channels) < last))
                  for low, high, first, last in zip(*bounds(batch, region.cuts("samples"), factors),
                                                    *bounds(channels, region.cuts("channels"), factors), strict=True)]
                 for region in (left, right)]
        assert overlap(left, right, plane(batch, channels), factors) == sum(
            int((mine & theirs).sum()) for mine, theirs in zip(*marks, strict=True)), (left, right, factors)


@pytest.mark.parametrize(("splits", "message"), [
    ((("dp",),), "2 nodes"), ((("xp",), ("dp",)), "'xp'"), ((("dp", "mp"), ("dp",)), "levels"),
    ((("dp",), ("mp",)), "'mp'"), ((("dp",) * 11, ("dp",) * 11), "at most 10")])
def test_splits_that_do_not_fit_are_refused(splits, message) -> None:
    from plinth.partition.graph import chain
    with pytest.raises(UserError, match=message):
        regions.check_splits(chain("one", [dense("fc", 4, 4)]), splits)
