"""HyPar's planner and communication models against the paper's numbers and an exhaustive search."""

import random
from itertools import pairwise

import pytest
from tests.support.plan_graphs import convolution, dense, random_chain, random_graph

from plinth.errors import UserError
from plinth.partition.graph import DP, MP, PlanGraph, chain
from plinth.partition.regions import Splits
from plinth.plan.planners.exhaustive import exhaustive
from plinth.plan.planners.hypar import hypar
from plinth.plan.planners.simple import data, model, one_weird_trick
from plinth.predict.models import MODELS
from plinth.predict.published import VARIANTS, PublishedWords


def written(splits: Splits) -> list[str]:
    """0 is dp, 1 is mp, a word a layer, levels from left to right."""
    return ["".join("0" if split == DP else "1" for split in vector) for vector in splits[:-1]]


SFC = chain("sfc", [dense(f"fc{number + 1}", inputs, outputs)
                    for number, (inputs, outputs) in enumerate(pairwise((784, 8192, 8192, 8192, 10)))])
SCONV = chain("sconv", [convolution("conv1", 1, 20, 5, 28, 24, 24), convolution("conv2", 20, 50, 5, 24, 20, 10),
                        convolution("conv3", 50, 50, 5, 10, 6, 6), convolution("conv4", 50, 10, 5, 6, 2, 1)])
LENET = chain("lenet-c", [convolution("conv1", 1, 20, 5, 28, 24, 12), convolution("conv2", 20, 50, 5, 12, 8, 4),
                          dense("fc1", 800, 500, 50), dense("fc2", 500, 10)])


def vgg(*blocks: tuple[int, ...]) -> PlanGraph:
    nodes, channels, side = [], 3, 224
    for number, block in enumerate(blocks, start=1):
        for layer, outputs in enumerate(block, start=1):
            pooled = side // 2 if layer == len(block) else side
            nodes.append(convolution(f"conv{number}_{layer}", channels, outputs, 3, side, side, pooled))
            channels = outputs
        side //= 2
    return chain("vgg", [*nodes, dense("fc1", 512 * 49, 4096, 512), dense("fc2", 4096, 4096),
                         dense("fc3", 4096, 1000)])


VGG_A = vgg((64,), (128,), (256, 256), (512, 512), (512, 512))
VGG_E = vgg((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4)


@pytest.mark.parametrize(("graph", "data_gb", "hypar_gb"), [
    (SFC, "16.9", "0.681"), (SCONV, "0.0121", "0.0121"), (LENET, "0.0517", "0.0161"), (VGG_A, "15.9", "1.47"),
    (VGG_E, "17.2", "2.76")])
def test_figure_8_to_three_digits(graph, data_gb, hypar_gb) -> None:
    words = MODELS["published"](graph, 256)
    assert f"{words.total_bytes(data(graph, 4)) / 1e9:.3g}" == data_gb
    assert f"{words.total_bytes(hypar(words, 4)) / 1e9:.3g}" == hypar_gb


@pytest.mark.parametrize("variant", ["literal", "figure-8"])
def test_the_four_partitions_that_the_text_states(variant) -> None:
    def partition(graph: PlanGraph) -> list[str]:
        return written(hypar(PublishedWords(graph, 256, variant), 4))

    assert partition(SFC) == ["1101", "1111", "1111", "1111"]
    assert partition(SCONV) == ["0000"] * 4
    assert [[layer[level] for layer in partition(LENET)] for level in (0, 3)] == [["0", "0", "1", "1"]] * 2
    vgg_a = dict(zip((node.name for node in VGG_A.nodes), partition(VGG_A), strict=False))
    assert (vgg_a["conv5_2"], vgg_a["fc1"]) == ("0001", "1111")


def test_the_plain_reading_gives_vggs_under_model_parallelism_and_halves_data_parallelism() -> None:
    assert set(VARIANTS) == {"plain", "literal", "figure-8"}
    for graph, model_gb, data_gb in ((VGG_A, 50.1, 15.9), (VGG_E, 180, 17.2)):
        words = PublishedWords(graph, 256, "plain")
        assert words.total_bytes(model(graph, 4)) / 1e9 == pytest.approx(model_gb, rel=0.013)
        assert words.total_bytes(data(graph, 4)) / 1e9 == pytest.approx(data_gb / 2, rel=0.004)
    assert written(hypar(PublishedWords(LENET, 256, "plain"), 4))[-1] == "1010"


@pytest.mark.parametrize(("node", "batch", "dp", "mp"), [
    (dense("fc", 70, 100), 32, 56_000, 25_600), (convolution("conv", 20, 50, 5, 12, 8, 8), 32, 200_000, 819_200)])
def test_the_worked_examples_of_section_3_4(node, batch, dp, mp) -> None:
    graph = chain("one", [node])
    words = MODELS["published"](graph, batch)
    assert words.total_bytes(data(graph, 1)) == dp
    assert words.total_bytes(model(graph, 1)) == mp


def test_table_2_as_printed() -> None:
    graph = chain("two", [dense("one", 1, 64), dense("two", 64, 1)])
    words = PublishedWords(graph, 16, "literal")
    single = {(split, other): words.edge_elements(0, split, other, (0, 0), (0, 0)) / (16 * 64)
              for split in (DP, MP) for other in (DP, MP)}
    assert single == {(DP, DP): 0, (DP, MP): 0.5, (MP, MP): 0.5, (MP, DP): 0.5}


def test_the_published_model_knows_no_output_split() -> None:
    graph = chain("one", [dense("fc", 4, 4)])
    with pytest.raises(UserError, match="'op'"):
        MODELS["published"](graph, 4).total_bytes((("op",), ("dp",)))


@pytest.mark.parametrize("name", MODELS)
def test_algorithm_1_is_the_best_of_one_level(name) -> None:
    rng = random.Random(11)
    for trial in range(40):
        sizes = ((2, 4, 8), (3, 5, 7))[trial % 2]
        graph = random_chain(rng, rng.randint(1, 6), sizes) if trial % 4 < 2 else random_graph(
            rng, rng.randint(1, 2), sizes)
        words = MODELS[name](graph, rng.choice((2, 7, 16, 64)))
        assert words.total_bytes(hypar(words, 1)) == words.total_bytes(exhaustive(graph, 1, words.total_bytes))
        if name == "exact":
            every = ("dp", "mp", "op")
            assert words.total_bytes(hypar(words, 1, every)) == words.total_bytes(
                exhaustive(graph, 1, words.total_bytes, every))


def test_the_search_of_all_combinations_refuses_large_spaces() -> None:
    with pytest.raises(UserError, match=r"17,592,186,044,416 combinations .* 65,536"):
        exhaustive(VGG_A, 4, lambda splits: 0)


def test_ties_go_to_dp() -> None:
    # With a batch of 4 both sums of a 4 x 1 layer have as many elements.
    graph = chain("tie", [dense("fc", 4, 1)])
    assert hypar(MODELS["published"](graph, 4), 1)[0] == ("dp",)


def test_one_weird_trick_goes_by_the_kind_of_layer() -> None:
    assert written(one_weird_trick(LENET, 2)) == ["00", "00", "11", "11"]
