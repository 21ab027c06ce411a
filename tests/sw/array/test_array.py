"""Arrays: links that follow from the topology, files, and what is said of an array that cannot be."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
import yaml

from plinth.array.array import ARRAYS, MAXIMUM_PORTS, Array, ring
from plinth.array.file import array_from_data, array_to_yaml, load_array
from plinth.errors import UserError
from plinth.files.documents import parse_yaml
from plinth_sim.rtl import cosim


@pytest.mark.parametrize("dies", [2, 4, 8])
def test_rings_are_those_of_the_co_simulation(dies: int) -> None:
    assert sorted(ring(dies).directed()) == sorted(cosim.ring(dies))
    assert ring(dies).ports == 2


def test_one_die_needs_no_links() -> None:
    assert ARRAYS["ring-1"].links == ()
    assert ARRAYS["ring-1"].ports == ARRAYS["ring-1"].levels == 0


def test_torus_joins_rows_and_columns() -> None:
    array = ARRAYS["torus-2x4"]
    assert array.ports == 4
    assert array.peers[0] == {0: (1, 1), 1: (3, 0), 2: (4, 3), 3: (4, 2)}
    assert array.peers[7] == {0: (4, 1), 1: (6, 0), 2: (3, 3), 3: (3, 2)}
    assert len(ARRAYS["torus-16"].links) == 32


def test_full_arrays_join_every_pair_once() -> None:
    array = ARRAYS["full-8"]
    assert array.ports == 7
    assert sorted((link.a, link.b) for link in array.links) == [(a, b) for a in range(8) for b in range(a + 1, 8)]
    for die in range(8):
        assert [peer for peer, _ in array.peers[die].values()] == [other for other in range(8) if other != die]


def test_every_port_leads_back() -> None:
    for array in ARRAYS.values():
        for node, port, other, there in array.directed():
            assert array.peers[other][there] == (node, port)


def test_h_tree_doubles_its_rate_towards_the_root() -> None:
    array = ARRAYS["hypar-16"]
    assert [array.switches, array.levels, array.ports] == [15, 4, 1]
    assert len(array.links) == 30
    assert [array.level_rate(level) for level in range(1, 5)] == [Fraction(8, 5), Fraction(4, 5), Fraction(2, 5),
                                                                  Fraction(1, 5)]
    # HyPar: 25.6 Gb/s at each level, 1600 Mb/s a link of a die.
    for level in range(1, 5):
        assert 2**level * array.level_rate(level) * 32 * array.clock_mhz == 25_600
    assert array.peers[16] == {0: (17, 2), 1: (18, 2)}
    assert {array.peers[die][0][0] for die in (0, 1)} == {23}
    assert sum(link.rate for link in array.links) == 4 * 16 * Fraction(1, 5)
    with pytest.raises(ValueError, match="no level 5"):
        array.level_rate(5)


def test_dies_get_ports_and_rate_of_the_array() -> None:
    die = replace(ARRAYS["full-8"], link_rate=Fraction(1, 8)).die_parameters()
    assert die.ports == 7
    assert die.link_rate * die.flit_words == Fraction(1, 8)
    assert ARRAYS["ring-4"].die_parameters().link_rate == Fraction(15, 16)


@pytest.mark.parametrize("name", ARRAYS)
def test_round_trip(name: str) -> None:
    text = array_to_yaml(ARRAYS[name])
    array = array_from_data(parse_yaml(text, "x"), "x")
    assert array == ARRAYS[name]
    assert array_to_yaml(array) == text


def test_a_file_of_links_with_unequal_dies(tmp_path) -> None:
    path = tmp_path / "array.yaml"
    path.write_text("""version: 1
name: chain-3
topology: links
dies: 3
preset: ndp-demo
links:
- [0, 0, 1, 1]
- [1, 0, 2, 1]
link_rate: 1/8
link_latency: 9
speeds: [1, 1/2, 0.25]
clock_mhz: 500
memory_bytes: 4000000
""")
    array = load_array(str(path))
    assert array.memory_bytes == 4_000_000 and ARRAYS["hypar-16"].memory_bytes == 8 * 10**9
    assert array.speeds == array.relative_speeds == (1, Fraction(1, 2), Fraction(1, 4))
    assert [(link.a, link.b, link.rate, link.latency) for link in array.links] == [
        (0, 1, Fraction(1, 8), 9), (1, 2, Fraction(1, 8), 9)]
    assert array_from_data(parse_yaml(array_to_yaml(array), "x"), "x") == array
    assert array.factors == (3,) and array.levels == 1


@pytest.mark.parametrize(("name", "factors"), [
    ("ring-1", ()), ("ring-8", (2, 2, 2)), ("ring-12", (3, 2, 2)), ("full-10", (5, 2)), ("ring-251", (251,)),
    ("torus-2x4", (2, 2, 2)), ("torus-4x3", (2, 2, 3)), ("torus-3x4", (3, 2, 2))])
def test_levels_are_the_factors_of_the_dies_and_of_a_torus_by_its_sides(name: str, factors: tuple[int, ...]) -> None:
    array = load_array(name)
    assert array.factors == factors and math.prod(factors) == array.dies


GOOD = {"version": 1, "name": "a", "topology": "ring", "dies": 4, "preset": "ndp-demo"}


@pytest.mark.parametrize(("change", "needle"), [
    ({"version": 2}, "version must be 1, not 2"),
    ({"dies": 0}, "dies must be an integer from 1"),
    ({"dies": "1e3"}, "write the number in plain digits"),
    ({"dies": 2000}, "from 1 to 1024"),
    ({"topology": "rong"}, "unknown topology the text 'rong'; did you mean 'ring'"),
    ({"preset": "npd-demo"}, "did you mean 'ndp-demo'"),
    ({"link_rat": 1}, "unknown key 'link_rat'; did you mean 'link_rate'"),
    ({"link_rate": -1}, "link_rate must be above 0"),
    ({"link_rate": 0}, "above 0"),
    ({"link_rate": "fast"}, "as 2, 0.125 or 15/16"),
    ({"link_rate": True}, "as 2, 0.125 or 15/16"),
    ({"link_rate": 3}, "carry at most 2"),
    ({"link_latency": 0}, "link_latency must be"),
    ({"speeds": [1, 1]}, "one value for each of 4 dies, not 2"),
    ({"speeds": [1, 1, 0, 1]}, "speed of die 2"),
    ({"speeds": 1}, "must be a list"),
    ({"clock_mhz": "1/0"}, "clock_mhz must be"),
    ({"memory_bytes": 0}, "memory_bytes must be an integer from 1"),
    ({"memory_bytes": 0.5}, "memory_bytes must be an integer from 1"),
    ({"dimensions": [2, 2]}, "topology 'ring' has no dimensions"),
    ({"topology": "torus"}, "topology 'torus' needs dimensions"),
    ({"topology": "torus", "dimensions": [2, 3]}, "has 6 dies, not 4"),
    ({"topology": "torus", "dimensions": [4]}, "must be \\[rows, columns\\]"),
    ({"topology": "h-tree", "dies": 12}, "a power of two of dies, not 12"),
    ({"topology": "full", "dies": 64}, "needs 63 ports; a router has at most"),
    ({"topology": "links"}, "topology 'links' needs links"),
    ({"topology": "links", "links": [[0, 0, 1, 1], [2, 0, 3, 1]]}, "die 2 cannot be reached from die 0"),
    ({"topology": "links", "links": [[0, 0, 1, 1], [1, 1, 3, 1]]}, "port 1 of die 1, which another link has"),
    ({"topology": "links", "links": [[0, 0, 4, 1]]}, "names die 4; dies are 0 to 3"),
    ({"topology": "links", "links": [[0, MAXIMUM_PORTS, 1, 1]]}, "a router has at most"),
    ({"topology": "links", "links": [[0, 0, 0, 1]]}, "to itself"),
    ({"topology": "links", "links": [[0, 0, 1]]}, "must be \\[die, port, die, port\\]"),
    ({"name": 3}, "name must be"),
    ({"codes": None}, "unknown codes nothing; known are built, at-links"),
    ({"codes": "buillt"}, "unknown codes the text 'buillt'; did you mean 'built'"),
])
def test_an_array_that_cannot_be_is_refused(change, needle) -> None:
    text = yaml.safe_dump({**GOOD, **change})
    with pytest.raises(UserError, match=needle) as caught:
        array_from_data(parse_yaml(text, "a.yaml"), "a.yaml")
    assert str(caught.value).startswith("a.yaml: ")
    assert "\n" not in str(caught.value)


def test_unknown_arrays_name_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'ring-4'"):
        load_array("ring4")
    with pytest.raises(UserError, match="cannot be read"):
        load_array("nowhere.yaml")


def test_constructor_checks_what_files_cannot_say() -> None:
    with pytest.raises(ValueError, match="topology must be one of"):
        Array(name="a", topology="comb", dies=2, preset="ndp-demo")
    assert Array(name="a", topology="ring", dies=256, preset="ndp-demo").dies == 256
    with pytest.raises(ValueError, match="preset 'ndp-demo' numbers at most 256 dies, not 257; choose a larger preset"):
        Array(name="a", topology="ring", dies=257, preset="ndp-demo")
    with pytest.raises(ValueError, match="a die of preset 'fpga-ulx3s' has no links: an array has one of them, not 2; "
                                         "choose 1 die or another preset"):
        Array(name="a", topology="ring", dies=2, preset="fpga-ulx3s")
    assert Array(name="a", topology="ring", dies=1, preset="fpga-ulx3s").die_parameters().ports == 0
