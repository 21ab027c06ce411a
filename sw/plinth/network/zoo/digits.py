"""Networks for the 8x8 handwritten digits, 10 classes; the shapes are this project's own."""

from plinth.network.layers import Convolution, Dense, Flatten, MaxPool, Relu, Shape, SoftmaxCrossEntropy, Tanh
from plinth.network.network import Network, perceptron

NETWORKS = (
    # The job of `make train`.
    perceptron("digits-mlp", (64, 128, 64, 10)),
    # Those that local networks are shown on: with tanh, as Deep3 trains, for 8x8 and for 28x28 digits.
    perceptron("digits-tanh", (64, 256, 128, 10), Tanh),
    perceptron("mnist-tanh", (784, 512, 256, 10), Tanh),
    # Wide last layers, so that splitting their weights pays while convolutions stay data-parallel.
    Network(name="digits-cnn", input=Shape((1, 8, 8)), layers=(
        Convolution(name="conv1", channels=8, kernel=(3, 3), padding=(1, 1)),
        Relu(name="relu1"),
        MaxPool(name="pool1", kernel=(2, 2), stride=(2, 2)),
        Convolution(name="conv2", channels=20, kernel=(3, 3), padding=(1, 1)),
        Relu(name="relu2"),
        MaxPool(name="pool2", kernel=(2, 2), stride=(2, 2)),
        Flatten(name="flatten"),
        Dense(name="fc1", outputs=384),
        Relu(name="relu3"),
        Dense(name="fc2", outputs=10),
        SoftmaxCrossEntropy(name="loss"),
    )),
)
