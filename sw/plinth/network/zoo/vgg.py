"""VGG A to E: Simonyan and Zisserman, ICLR 2015, Table 1; parameters as in its Table 2."""

from plinth.network.layers import Convolution, Dense, Flatten, Layer, MaxPool, Relu, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network

#: Channels of the five groups of convolutions.
_CHANNELS = (64, 128, 256, 512, 512)


def _vgg(name: str, kernels: tuple[tuple[int, ...], ...]) -> Network:
    """``kernels``: sizes of the kernels of each group; a 2x2 max pool ends a group."""
    layers: list[Layer] = []
    for group, (sizes, channels) in enumerate(zip(kernels, _CHANNELS, strict=True), start=1):
        for number, size in enumerate(sizes, start=1):
            layers.append(Convolution(name=f"conv{group}_{number}", channels=channels, kernel=(size, size),
                                      padding=(size // 2, size // 2)))
            layers.append(Relu(name=f"relu{group}_{number}"))
        layers.append(MaxPool(name=f"pool{group}", kernel=(2, 2), stride=(2, 2)))
    layers += [Flatten(name="flatten"),
               Dense(name="fc1", outputs=4096), Relu(name="relu-fc1"),
               Dense(name="fc2", outputs=4096), Relu(name="relu-fc2"),
               Dense(name="fc3", outputs=1000), SoftmaxCrossEntropy(name="loss")]
    return Network(name=name, input=Shape((3, 224, 224)), layers=tuple(layers))


NETWORKS = (
    # Configuration A: 11 weighted layers.
    _vgg("vgg-a", ((3,), (3,), (3, 3), (3, 3), (3, 3))),
    # Configuration B: 13 weighted layers.
    _vgg("vgg-b", ((3, 3), (3, 3), (3, 3), (3, 3), (3, 3))),
    # Configuration C: B with a convolution of 1x1 behind each of the last three groups.
    _vgg("vgg-c", ((3, 3), (3, 3), (3, 3, 1), (3, 3, 1), (3, 3, 1))),
    # Configuration D: the 1x1 of C as 3x3.
    _vgg("vgg-d", ((3, 3), (3, 3), (3, 3, 3), (3, 3, 3), (3, 3, 3))),
    # Configuration E: 19 weighted layers.
    _vgg("vgg-e", ((3, 3), (3, 3), (3, 3, 3, 3), (3, 3, 3, 3), (3, 3, 3, 3))),
)
