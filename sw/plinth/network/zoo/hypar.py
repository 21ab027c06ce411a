"""The networks of HyPar's evaluation (Song et al., HPCA 2019, section 6.1), VGG apart."""

from plinth.network.layers import (
    Convolution,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    MeanPool,
    Relu,
    Shape,
    SoftmaxCrossEntropy,
)
from plinth.network.network import Network, perceptron


def _convolution(number: int, channels: int, kernel: int, padding: int = 0, stride: int = 1) -> Convolution:
    return Convolution(name=f"conv{number}", channels=channels, kernel=(kernel, kernel), stride=(stride, stride),
                       padding=(padding, padding))


def _max_pool(number: int, kernel: int, stride: int = 2, *, ceil: bool = False) -> MaxPool:
    return MaxPool(name=f"pool{number}", kernel=(kernel, kernel), stride=(stride, stride), ceil=ceil)


def _mean_pool(number: int) -> MeanPool:
    return MeanPool(name=f"pool{number}", kernel=(3, 3), stride=(2, 2), ceil=True)


def _classifier(*widths: int) -> list[Layer]:
    """Flatten, fully connected layers with ReLU between, softmax."""
    layers: list[Layer] = [Flatten(name="flatten")]
    for number, width in enumerate(widths, start=1):
        layers.append(Dense(name=f"fc{number}", outputs=width))
        if number < len(widths):
            layers.append(Relu(name=f"relu-fc{number}"))
    return [*layers, SoftmaxCrossEntropy(name="loss")]


def _alexnet(name: str, channels: tuple[int, ...], pooled: set[int], width: int) -> Network:
    """Five convolutions with ReLU and three fully connected layers."""
    layers: list[Layer] = []
    for number, count in enumerate(channels, start=1):
        layers.append(_convolution(1, count, 11, padding=2, stride=4) if number == 1 else
                      _convolution(number, count, 5 if number == 2 else 3, padding=2 if number == 2 else 1))
        layers.append(Relu(name=f"relu{number}"))
        if number in pooled:
            layers.append(_max_pool(number, 3))
    return Network(name=name, input=Shape((3, 224, 224)), layers=(*layers, *_classifier(width, width, 1000)))


NETWORKS = (
    # HyPar, Table 3: widths 784-8192-8192-8192-10.
    perceptron("sfc", (784, 8192, 8192, 8192, 10)),
    # HyPar, Table 3: convolutions only, 20@5x5, 50@5x5 with 2x2 max pool, 50@5x5, 10@5x5 with 2x2 max pool,
    # no padding: 100,500 weights, as its data-parallel total in Figure 8 says.
    Network(name="sconv", input=Shape((1, 28, 28)), layers=(
        _convolution(1, 20, 5), Relu(name="relu1"),
        _convolution(2, 50, 5), Relu(name="relu2"), _max_pool(2, 2),
        _convolution(3, 50, 5), Relu(name="relu3"),
        _convolution(4, 10, 5), _max_pool(4, 2),
        Flatten(name="flatten"), SoftmaxCrossEntropy(name="loss"))),
    # LeNet of the Caffe examples (lenet_train_test.prototxt): its only ReLU follows the first dense layer.
    Network(name="lenet-c", input=Shape((1, 28, 28)), layers=(
        _convolution(1, 20, 5), _max_pool(1, 2), _convolution(2, 50, 5), _max_pool(2, 2), *_classifier(500, 10))),
    # The quick CIFAR-10 network of the Caffe examples (cifar10_quick_train_test.prototxt): pools of 3x3 with
    # stride 2 whose last window hangs over, no ReLU between the dense layers; 145,376 weights.
    Network(name="cifar-c", input=Shape((3, 32, 32)), layers=(
        _convolution(1, 32, 5, 2), _max_pool(1, 3, ceil=True), Relu(name="relu1"),
        _convolution(2, 32, 5, 2), Relu(name="relu2"), _mean_pool(2),
        _convolution(3, 64, 5, 2), Relu(name="relu3"), _mean_pool(3),
        Flatten(name="flatten"), Dense(name="fc1", outputs=64), Dense(name="fc2", outputs=10),
        SoftmaxCrossEntropy(name="loss"))),
    # Krizhevsky et al., NIPS 2012, both towers as one, every kernel over all channels: 62,378,344 parameters.
    _alexnet("alexnet", (96, 256, 384, 384, 256), {1, 2, 5}, 4096),
    # One of the two towers as Figure 2 of Krizhevsky et al. draws them: maps of 55, 27, 13, 13, 13, so that the
    # pools follow the second, third and fifth convolution. HyPar's figures imply it: 16.62 M weights give the
    # data-parallel total of its Figure 8.
    _alexnet("alexnet-tower", (48, 128, 192, 192, 128), {2, 3, 5}, 2048),
)
