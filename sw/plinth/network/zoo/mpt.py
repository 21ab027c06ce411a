"""The networks of MPT's evaluation (Table I) and its five single convolution layers (Table II).

Batch normalisation has no layer here: its convolutions stand without bias, as in the sources.
"""

from plinth.network.layers import (
    Add,
    Convolution,
    Dense,
    Flatten,
    Join,
    Layer,
    MaxPool,
    MeanPool,
    MeanSquaredError,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network


def _convolution(name: str, source: str, channels: int, kernel: int = 3, stride: int = 1) -> Convolution:
    return Convolution(name=name, inputs=(source,), channels=channels, kernel=(kernel, kernel),
                       stride=(stride, stride), padding=(kernel // 2, kernel // 2), bias=False)


def _pool(name: str) -> MaxPool:
    return MaxPool(name=name, kernel=(3, 3), stride=(2, 2), padding=(1, 1))


def _end(positions: int, classes: int) -> list[Layer]:
    """Global mean, classifier, loss."""
    return [MeanPool(name="mean", kernel=(positions, positions), stride=(1, 1)), Flatten(name="flatten"),
            Dense(name="fc", outputs=classes), SoftmaxCrossEntropy(name="loss")]


def _resnet34() -> Network:
    layers: list[Layer] = [_convolution("conv1", "input", 64, kernel=7, stride=2), Relu(name="relu1"), _pool("pool1")]
    for group, (blocks, channels) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True), start=2):
        for number in range(1, blocks + 1):
            name, source = f"{group}_{number}", layers[-1].name
            first = number == 1 and group > 2
            layers += [_convolution(f"conv{name}a", source, channels, stride=2 if first else 1),
                       Relu(name=f"relu{name}a"), _convolution(f"conv{name}b", f"relu{name}a", channels)]
            if first:
                layers.append(_convolution(f"shortcut{name}", source, channels, kernel=1, stride=2))
                source = f"shortcut{name}"
            layers += [Add(name=f"add{name}", inputs=(f"conv{name}b", source)), Relu(name=f"relu{name}")]
    return Network(name="resnet-34", input=Shape((3, 224, 224)), layers=(*layers, *_end(7, 1000)))


def _wide_resnet() -> Network:
    """Activations stand before convolutions, and once more at the end."""
    layers: list[Layer] = [_convolution("conv1", "input", 16)]
    for group, channels in enumerate((160, 320, 640), start=2):
        for number in range(1, 7):
            name, source = f"{group}_{number}", layers[-1].name
            first = number == 1
            stride = 2 if first and group > 2 else 1
            layers += [Relu(name=f"relu{name}a", inputs=(source,)),
                       _convolution(f"conv{name}a", f"relu{name}a", channels, stride=stride),
                       Relu(name=f"relu{name}b"), _convolution(f"conv{name}b", f"relu{name}b", channels)]
            if first:
                source = f"shortcut{name}"
                layers.append(_convolution(source, f"relu{name}a", channels, kernel=1, stride=stride))
            layers.append(Add(name=f"add{name}", inputs=(f"conv{name}b", source)))
    return Network(name="wrn-40-10", input=Shape((3, 32, 32)), layers=(*layers, Relu(name="relu"), *_end(8, 10)))


def _fractal_block(layers: list[Layer], block: int, columns: int, source: str, channels: int) -> list[str]:
    """Add one fractal of convolutions; names of those whose mean is its output before ReLU, deepest first."""
    deep = []
    if columns > 1:
        deep = _fractal_block(layers, block, columns - 1, source, channels)
        deep = _fractal_block(layers, block, columns - 1, _joined(layers, block, deep), channels)
    number = sum(isinstance(layer, Convolution) and layer.name.startswith(f"conv{block}_") for layer in layers) + 1
    layers.append(_convolution(f"conv{block}_{number}", source, channels))
    return [*deep, layers[-1].name]


def _joined(layers: list[Layer], block: int, sources: list[str]) -> str:
    """ReLU of the mean of some layers; of one, just ReLU."""
    number = sum(layer.name.startswith(f"relu{block}_") for layer in layers) + 1
    if len(sources) > 1:
        layers.append(Join(name=f"join{block}_{number}", inputs=tuple(sources)))
        sources = [layers[-1].name]
    layers.append(Relu(name=f"relu{block}_{number}", inputs=tuple(sources)))
    return layers[-1].name


def _fractalnet() -> Network:
    layers: list[Layer] = [_convolution("conv0", "input", 64, kernel=7, stride=2), Relu(name="relu0"), _pool("pool0")]
    for block, channels in enumerate((128, 256, 512, 1024), start=1):
        _joined(layers, block, _fractal_block(layers, block, 4, layers[-1].name, channels))
        if block < 4:
            layers.append(MaxPool(name=f"pool{block}", kernel=(2, 2), stride=(2, 2)))
    return Network(name="fractalnet-4-4", input=Shape((3, 224, 224)), layers=(*layers, *_end(7, 1000)))


def _single(name: str, channels: int, size: int) -> Network:
    return Network(name=name, input=Shape((channels, size, size)), layers=(
        _convolution("conv", "input", channels), MeanSquaredError(name="loss")))


NETWORKS = (
    # He et al., CVPR 2016, Table 1, with projections (option B) where shapes change: 172,032 weights more than
    # MPT's Table I, which counts none.
    _resnet34(),
    # Zagoruyko and Komodakis, BMVC 2016: depth 40, width 10, CIFAR-10, with projections where shapes change:
    # 258,560 weights more than MPT's Table I, which counts none.
    _wide_resnet(),
    # Larsson et al., ICLR 2017, ImageNet: 4 blocks of 4 columns with 128, 256, 512 and 1,024 channels between the
    # first and last layers of ResNet-34; joins stand before ReLU, as MPT (Figure 14) moves them.
    _fractalnet(),
    # MPT, Table II: the layer called Early has 128 channels of 56x56 there (ResNet-34's conv2_x has 64).
    _single("mpt-early", 128, 56),
    # MPT, Table II, Mid-1: ResNet-34 conv4_x.
    _single("mpt-mid-1", 256, 14),
    # MPT, Table II, Late-1: ResNet-34 conv5_x.
    _single("mpt-late-1", 512, 7),
    # MPT, Table II, Mid-2: WRN-40-10 conv3.
    _single("mpt-mid-2", 320, 16),
    # MPT, Table II, Late-2: WRN-40-10 conv4.
    _single("mpt-late-2", 640, 8),
)
