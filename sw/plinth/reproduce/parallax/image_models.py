"""Elements of the two image models, counted from the papers that describe them: weights of convolutions with a scale
and a shift a channel, and the classifier of 1,000 classes."""

from collections.abc import Iterable

#: Convolutions one behind the other: channels that come in, then of each the channels that go out, and taps.
Chain = tuple[int, tuple[tuple[int, int], ...]]
CLASSES = 1000


def _elements(chains: Iterable[Chain]) -> int:
    total = 0
    for inputs, convolutions in chains:
        for outputs, taps in convolutions:
            total += inputs * outputs * taps + 2 * outputs
            inputs = outputs
    return total


def resnet50() -> int:
    """Elements of ResNet-50 (He et al., 2016, Table 1, option B)."""
    chains: list[Chain] = [(3, ((64, 49),))]
    inputs = 64
    for blocks, inner in ((3, 64), (4, 128), (6, 256), (3, 512)):
        outputs = 4 * inner
        chains.append((inputs, ((outputs, 1),)))
        for _ in range(blocks):
            chains.append((inputs, ((inner, 1), (inner, 9), (outputs, 1))))
            inputs = outputs
    return _elements(chains) + inputs * CLASSES + CLASSES


def inception_v3() -> int:
    """Elements of Inception-v3 (Szegedy et al., 2016, Table 1) without its auxiliary classifier; blocks of 35, 17 and 8
    positions as the authors published them in TensorFlow's slim."""
    chains: list[Chain] = [(3, ((32, 9), (32, 9), (64, 9), (80, 1), (192, 9)))]
    for inputs, pooled in ((192, 32), (256, 64), (288, 64)):
        chains += [(inputs, each) for each in (((64, 1),), ((48, 1), (64, 25)), ((64, 1), (96, 9), (96, 9)),
                                               ((pooled, 1),))]
    chains += [(288, each) for each in (((384, 9),), ((64, 1), (96, 9), (96, 9)))]
    for inner in (128, 160, 160, 192):
        chains += [(768, each) for each in (((192, 1),), ((inner, 1), (inner, 7), (192, 7)),
                                            ((inner, 1), (inner, 7), (inner, 7), (inner, 7), (192, 7)), ((192, 1),))]
    chains += [(768, each) for each in (((192, 1), (320, 9)), ((192, 1), (192, 7), (192, 7), (192, 9)))]
    for inputs in (1280, 2048):
        chains += [(inputs, each) for each in (((320, 1),), ((384, 1),), ((448, 1), (384, 9)), ((192, 1),))]
        # Behind both chains with 384 channels stand a row and a column of three taps, beside each other.
        chains += [(384, ((384, 3),))] * 4
    return _elements(chains) + 2048 * CLASSES + CLASSES
