"""The widest local layers that fit: by what lowering and numpy's executor say, one common share, the output whole."""

import pytest

from plinth.errors import UserError
from plinth.lower.builder import DieMemoryError
from plinth.network.layers import Convolution, Dense, Embedding, Flatten, Relu, Sigmoid, SoftmaxCrossEntropy
from plinth.network.network import Network, perceptron
from plinth.network.shape import Shape
from plinth.network.zoo import NETWORKS
from plinth.profile.die_device import golden_die, lowered
from plinth.profile.numpy_device import NumpyDevice
from plinth.profile.widest import hidden_widths, shares, widest, with_widths
from plinth_hw.isa.parameters import preset

DIGITS = NETWORKS["digits-mlp"]
TINY = preset("fpga-tiny")
CONVOLUTIONAL = Network(name="convolutional", input=Shape((2, 8, 8)), layers=(
    Convolution(name="conv", channels=12, kernel=(3, 3), padding=(1, 1)), Relu(name="relu"), Flatten(name="flat"),
    Dense(name="hidden", outputs=30), Sigmoid(name="sigmoid"), Dense(name="output", outputs=10),
    SoftmaxCrossEntropy(name="loss")))


def elements(network: Network) -> int:
    return network.parameters


def test_shares_are_common_ascending_and_at_least_one() -> None:
    choices = shares((100, 10, 1))
    assert choices[0] == (1, 1, 1) and choices[-1] == (100, 10, 1)
    assert choices == sorted(set(choices)) and (50, 5, 1) in choices
    assert all(width % 2 == 0 for widths in shares((30, 12), 2) for width in widths)
    assert shares((7, 1), 2)[-1] == (7, 1)


@pytest.mark.parametrize("network", [DIGITS, CONVOLUTIONAL], ids=lambda network: network.name)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.77, 1.0])
def test_the_next_wider_does_not_fit(network: Network, share: float) -> None:
    choices = shares(hidden_widths(network))
    wanted = choices[int(share * (len(choices) - 1))]
    limit = elements(with_widths(network, wanted))
    found = widest(network, limit, elements)
    assert found.widths == wanted and found.needed_bytes == limit and found.whole == hidden_widths(network)
    assert widest(network, limit - 1, elements).widths < wanted if share else True


def test_the_output_and_all_else_stay() -> None:
    local = with_widths(CONVOLUTIONAL, (3, 5))
    assert hidden_widths(local) == (3, 5) and local.layer("output") == CONVOLUTIONAL.layer("output")
    assert [layer.name for layer in local.layers] == [layer.name for layer in CONVOLUTIONAL.layers]
    with pytest.raises(ValueError, match="zip"):
        with_widths(CONVOLUTIONAL, (3,))


def test_memory_of_a_die_is_what_lowering_takes() -> None:
    """The program with S_L fits so many words exactly, and the next wider one does not."""
    die = golden_die(TINY, 1 << 20)
    limit = 60_000 * TINY.word_bytes
    found = widest(DIGITS, limit, lambda network: die.memory_bytes(network, 32), step=die.channel_step)
    assert all(width % 2 == 0 for width in found.widths)
    program = lowered(with_widths(DIGITS, found.widths), 32, TINY, 60_000)
    assert program.memory_words * TINY.word_bytes == found.needed_bytes <= limit
    choices = shares(found.whole, 2)
    wider = choices[choices.index(found.widths) + 1]
    with pytest.raises(DieMemoryError) as full:
        lowered(with_widths(DIGITS, wider), 32, TINY, 60_000)
    assert full.value.needed_words > 60_000


def test_more_than_block_ram_has_is_no_error_of_the_search() -> None:
    board = preset("fpga-ulx3s")
    die = golden_die(board, board.block_ram_words)
    network = perceptron("wide", (64, 4096, 4096, 10))
    found = widest(network, board.block_ram_words * board.word_bytes, lambda some: die.memory_bytes(some, 16), step=2)
    assert 16 < found.widths[0] < 512 and not die.holds(network, 16)
    assert die.holds(with_widths(network, found.widths), 16)


def test_memory_of_numpy_grows_with_the_batch() -> None:
    device = NumpyDevice()
    assert device.memory_bytes(DIGITS, 16) < device.memory_bytes(DIGITS, 256)
    assert device.memory_bytes(DIGITS, 16) > 4 * 2 * DIGITS.parameters


def test_the_least_cost_for_each_multiply_add_may_be_narrower() -> None:
    found = widest(DIGITS, elements(DIGITS), elements, cost=lambda network: float(network.macs) ** 2)
    assert found.widths == (1, 1) and "least cost" in found.rule
    found = widest(DIGITS, elements(DIGITS), elements, cost=lambda network: 1.0)
    assert found.widths == found.whole


@pytest.mark.parametrize(("network", "limit", "reason"), [
    (DIGITS, 10, "with hidden layers of 1, 1 takes .* and does not fit 10 B; give more memory"),
    (perceptron("flat", (8, 4)), 1 << 20, "'flat' has no hidden layer"),
    (Network(name="table", input=Shape((4,)), layers=(
        Embedding(name="table", rows=9, width=4), Dense(name="out", outputs=3), SoftmaxCrossEntropy(name="loss"))),
     1 << 20, r"layer 'table' \(embedding\) of network 'table' has no width")], ids=["full", "shallow", "embedding"])
def test_what_cannot_be_local_is_refused(network: Network, limit: int, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        widest(network, limit, elements)
