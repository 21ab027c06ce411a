"""Axes cut by list, and parts owned by any die: who sends what, element by element."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.partitions import random_lists, random_parts
from tests.support.plan_graphs import dense, random_chain, random_graph, random_splits
from tests.sw.partition.test_regions import Model, check_transfers, owned

from plinth.errors import UserError
from plinth.partition import exchanges, regions
from plinth.partition.axes import Region, alike, overlap, pattern
from plinth.partition.cuts import Listed, pieces, ranges_of, runs_of
from plinth.partition.graph import SPLITS, chain
from plinth.partition.groups import RING, ProcessGroups, no_partition, process_groups
from plinth.partition.lists import check_lists
from plinth.partition.regions import Lists


class ListedModel(Model):
    """Which die has which element, with lists and owners."""

    def __init__(self, graph, splits, batch, factors, lists) -> None:
        super().__init__(graph, splits, batch, factors)
        self.lists = lists

    def _axis(self, size: int, parts, picks: list[tuple[int, int]]) -> np.ndarray:
        """Elements of an axis: of a list's part, further cut by what picks the list leaves."""
        if parts is None:
            return owned(size, picks)
        number, count, depth = 0, 1, 0
        while count < len(parts) or not depth:
            pick, factor = picks[depth]
            number, count, depth = number * factor + pick, count * factor, depth + 1
        part = [index for first, end in parts[number] for index in range(first, end)]
        mask = np.zeros(size, dtype=bool)
        mask[np.array(part, dtype=int)[owned(len(part), picks[depth:])]] = True
        return mask

    def _region(self, die: int, node: int, axes) -> np.ndarray:
        node_lists = self.lists[node] or Lists()
        seat = die if node_lists.owners is None else node_lists.owners.index(die)
        sides = []
        for size, which, levels in axes:
            picks = [(self.digits(seat)[level], self.factors[level]) for level in levels]
            sides.append(self._axis(size, getattr(node_lists, which), picks))
        return np.outer(*sides)

    def _levels(self, node: int, split: str) -> list[int]:
        return [level for level in range(self.levels) if self.splits[node][level] == split]

    def input(self, die: int, node: int) -> np.ndarray:
        return self._region(die, node, ((self.batch, "samples", self._levels(node, "dp")),
                                        (self.graph.nodes[node].input_channels, "inputs", self._levels(node, "mp"))))

    def output(self, die: int, node: int) -> np.ndarray:
        if not self.graph.nodes[node].weighted:
            return self.input(die, node)
        return self._region(die, node, ((self.batch, "samples", self._levels(node, "dp")),
                                        (self.graph.nodes[node].output_channels, "outputs", self._levels(node, "op"))))

    def owned(self, die: int, node: int) -> np.ndarray:
        if not self.graph.nodes[node].weighted:
            return self.input(die, node)
        readers = [edge.consumer for edge in self.graph.edges if edge.producer == node]
        samples, channels = self._levels(node, "dp"), self._levels(node, "op")
        for level in self._levels(node, "mp"):
            (channels if readers and self.splits[readers[0]][level] == "mp" else samples).append(level)
        return self._region(die, node, ((self.batch, "samples", samples),
                                        (self.graph.nodes[node].output_channels, "outputs", channels)))

    def weights(self, die: int, node: int) -> np.ndarray:
        layer = self.graph.nodes[node]
        return self._region(die, node, ((layer.input_channels, "inputs", self._levels(node, "mp")),
                                        (layer.output_channels, "outputs", self._levels(node, "op"))))

    def rings(self):
        """Dies that have the same slice and together all samples, each once, in the order of their seats."""
        words = {}
        for number, node in enumerate(self.graph.nodes):
            if not node.weighted:
                continue
            owners = (self.lists[number] or Lists()).owners or tuple(range(self.dies))
            groups: dict[tuple, list[int]] = {}
            for seat in range(self.dies):
                key = tuple(digit for digit, split in zip(self.digits(seat), self.splits[number], strict=True)
                            if split != "dp")
                groups.setdefault(key, []).append(owners[seat])
            each = node.weights // (node.input_channels * node.output_channels)
            for members in groups.values():
                slices = [self.weights(die, number) for die in members]
                assert all((weights == slices[0]).all() for weights in slices)
                samples = sum(self.input(die, number).any(axis=1).astype(int) for die in members)
                assert samples.max(initial=0) <= 1
                outputs = self.output(members[0], number)
                # A bias lies with the slice, also where that has no rows.
                columns = (outputs.any(axis=0).sum() if outputs.any() else
                           max(self.output(die, number).any(axis=0).sum() for die in members))
                words[node.name, tuple(members)] = each * int(slices[0].sum()) + int(columns) * bool(node.bias)
        return words


def cases():
    rng = random.Random(23)
    for number in range(90):
        sizes = ((4, 8, 6), (3, 5, 7), (1, 2, 9))[number % 3]
        graph = (random_chain(rng, rng.randint(1, 3), sizes) if number % 2 else random_graph(rng, 1, sizes))
        factors = rng.choice(((2,), (2, 2), (3,), (3, 2), (2, 3), (2, 2, 2)))
        splits = random_splits(rng, graph, len(factors), SPLITS)
        batch = rng.choice((8, 6, 5, 3))
        yield graph, splits, batch, factors, random_lists(rng, graph, splits, batch, factors)


@pytest.mark.parametrize(("graph", "splits", "batch", "factors", "lists"), list(cases()))
def test_every_sender_receiver_and_word_follows_from_the_lists(graph, splits, batch, factors, lists) -> None:
    check_lists(graph, splits, lists, batch, factors)
    model = ListedModel(graph, splits, batch, factors, lists)
    here = regions.layouts(graph, splits, lists, factors)
    expected = model.transfers()
    check_transfers(graph, here, batch, factors, expected)
    rings = {(node.name, ring.members): ring.words for node, place in zip(graph.nodes, here, strict=True)
             if node.weighted for ring in regions.ring_messages(node, place, factors, place.groups(RING, factors))}
    expected_rings = model.rings()
    assert rings.keys() == expected_rings.keys()
    total = sum(int(words.sum()) for words in expected.values()) + sum(
        2 * (len(members) - 1) * words for (_, members), words in rings.items())
    assert exchanges.total_words(graph, splits, batch, factors, lists) == total
    for key, words in expected_rings.items():
        # Where no die of the ring has samples nobody can tell its columns.
        assert rings[key] == words or not any(
            model.input(die, [node.name for node in graph.nodes].index(key[0])).any() for die in key[1])


def test_words_of_even_lists_by_digits_are_those_without_lists() -> None:
    rng = random.Random(5)
    for _ in range(20):
        graph, factors = random_graph(rng, 1, (6, 8)), (2, 3)
        splits = random_splits(rng, graph, 2, SPLITS)

        def even(size: int, levels: list[int], factors=factors):
            parts = [list(range(size))]
            for level in levels:
                parts = [part for whole in parts for part in np.array_split(whole, factors[level])]
            return ranges_of(map(len, parts)) if levels else None

        lists = []
        for node, vector in zip(graph.nodes, splits, strict=True):
            dp, mp, op, _ = ([level for level, level_split in enumerate(vector) if level_split == split]
                             for split in SPLITS)
            lists.append(Lists(even(12, dp), even(node.input_channels, mp),
                               even(node.output_channels, op) if node.weighted else None, tuple(range(6))))
        assert exchanges.total_words(graph, splits, 12, factors, tuple(lists)) == exchanges.total_words(
            graph, splits, 12, factors)


def test_owners_move_what_is_sent_and_leave_how_much() -> None:
    """The same owners everywhere: every die does what another did."""
    rng = random.Random(9)
    for _ in range(20):
        graph, factors = random_graph(rng, 1, (6, 7)), (2, 2)
        splits = random_splits(rng, graph, 2, SPLITS)
        owners = tuple(rng.sample(range(4), 4))
        lists = (Lists(owners=owners),) * len(graph.nodes)
        plain, moved = (list(exchanges.exchanges(graph, regions.layouts(graph, splits, some, factors), factors))
                        for some in ((), lists))
        for exchange, moved_exchange in zip(plain, moved, strict=True):
            there = exchanges.words(moved_exchange, 10, factors)
            assert (exchanges.words(exchange, 10, factors) == there[np.ix_(owners, owners)]).all()


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.randoms(use_true_random=False), st.integers(0, 12), st.integers(1, 4))
def test_runs_tell_the_indices(rng, size, count) -> None:
    parts = random_parts(rng, size, count)
    for part in parts:
        assert [index for first, end in runs_of(part) for index in range(first, end)] == part
    listed = Listed((0,), tuple(map(runs_of, parts)))
    assert listed.order.tolist() == [index for part in parts for index in part]
    assert listed.ordered == (listed.order.tolist() == list(range(size)))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_pieces_are_what_two_parts_have_in_common(rng, size) -> None:
    """Each element once, where both have it, and one behind the other in a piece."""
    left_axis, right_axis = (Listed((0,), tuple(map(runs_of, random_parts(rng, size, 3)))) for _ in range(2))
    for mine in range(3):
        for theirs in range(3):
            low, high = left_axis.edges[mine:mine + 2].tolist()
            first, last = right_axis.edges[theirs:theirs + 2].tolist()
            common = []
            for here, there, count in pieces(left_axis, low, high, right_axis, first, last):
                left = left_axis.order[low + here:low + here + count].tolist()
                assert left == right_axis.order[first + there:first + there + count].tolist() and count > 0
                common += left
            assert sorted(common) == sorted(
                {*left_axis.order[low:high].tolist()} & {*right_axis.order[first:last].tolist()})
            assert len(common) == len(set(common))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.randoms(use_true_random=False), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4))
def test_regions_have_as_many_axes_as_are_named(rng, samples, channels, elements) -> None:
    """Three axes, the third one elements of a tile: against sets of triples."""
    factors, sizes = (2, 2), (("samples", samples), ("channels", channels), ("elements", elements))

    def cuts(size):
        kind = rng.randint(0, 3)
        return {0: (), 1: (0,), 2: (1,)}.get(kind, (Listed((0,), tuple(map(runs_of, random_parts(rng, size, 2)))),))

    def region():
        return Region.of(rng.choice((None, tuple(rng.sample(range(4), 4)))), **{axis: cuts(size)
                                                                               for axis, size in sizes})

    def held(region, die):
        seat = die if region.owners is None else region.owners.index(die)
        indices = []
        for axis, size in sizes:
            picks = region.cuts(axis)
            if picks and isinstance(picks[0], Listed):
                part = [index for first, end in picks[0].parts[seat // 2] for index in range(first, end)]
            else:
                digit = [seat // 2, seat % 2]
                part = np.flatnonzero(owned(size, [(digit[level], 2) for level in picks])).tolist()
            indices.append(part)
        return {(x, y, z) for x in indices[0] for y in indices[1] for z in indices[2]}

    first, second = region(), region()
    ones, twos = [held(first, die) for die in range(4)], [held(second, die) for die in range(4)]
    words = pattern(first, second, sizes, factors)
    for die in range(4):
        for other in range(4):
            assert words[die, other] == (0 if die == other else len(ones[die] & twos[other]))
    assert overlap(first, second, sizes, factors) == sum(len(a & b) for a, b in zip(ones, twos, strict=True))
    if alike(first, second, sizes, factors):
        assert ones == twos


@pytest.mark.parametrize(("lists", "message"), [
    (Lists(samples=(((0, 4),), ((3, 8),))), "layer 'fc': samples: index 3 is in parts 0 and 1; give each index"),
    (Lists(samples=(((0, 2), (1, 4)), ((4, 8),))), "samples: index 1 is twice in part 0"),
    (Lists(samples=(((0, 3),), ((4, 8),))), "samples: index 3 is in no part"),
    (Lists(samples=(((0, 3),), ((3, 7),))), "samples: index 7 is in no part"),
    (Lists(samples=(((0, 3),), ((3, 9),))), "index 8 of part 1 is out of range; indices go from 0 to 7"),
    (Lists(samples=(((-1, 3),), ((3, 8),))), "index -1 of part 0 is out of range"),
    (Lists(samples=(((0, 8),), (), ())), "samples: the list has 3 parts; give 2, as the splits cut it"),
    (Lists(inputs=(((0, 4),), ())), "inputs: the list has 2 parts; no level splits this axis: leave the list out"),
    (Lists(owners=(0, 0)), "layer 'fc': owners are no partition of 2 dies: die 0 is in two; give each die one seat"),
    (Lists(owners=(0,)), "die 1 is in none"), (Lists(owners=(0, 2)), "2 is no die")])
def test_lists_that_are_no_partition_are_refused(lists, message) -> None:
    with pytest.raises(UserError) as caught:
        check_lists(chain("one", [dense("fc", 4, 4)]), (("dp",), ("dp",)), (lists, None), 8, (2,))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_groups_are_a_partition_of_the_dies() -> None:
    with pytest.raises(ValueError, match="die 1 is in two"):
        ProcessGroups(RING, ((0, 1), (1, 2)))
    assert no_partition([[0, 1], [3]], 4) == "die 2 is in none"
    assert no_partition([[0, True]], 2) == "True is no die" and no_partition([["x"]], 1) == "'x' is no die"
    groups = process_groups(RING, (1,), (2, 2), (3, 1, 0, 2))
    assert groups.members == ((0, 2), (3, 1)) and groups.of(1) == (3, 1) and groups.number(1) == 1
    assert Region.of((3, 1, 0, 2), samples=(0,)).groups((2, 2)).members == ((0, 2), (3, 1))
