"""Small convolutional networks trained on real images, whose activations the measurements of this room are about.

Float32, direct convolution, momentum; seeded, so that whoever trains one gets the same images in the same order. The
float64 reference would do the same in several times the time. Trained weights are kept in the build folder.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from plinth.runtime.verilog import tool_errors
from plinth.train.data import named
from plinth.train.datasets import photographs
from plinth_hw.cache import cached_folder
from plinth_hw.installation import cache_root

Array = NDArray[np.float32]
#: Side of crops of photographs.
CROP = 32


@dataclass(frozen=True)
class Images:
    """Maps ``[samples, rows, columns, channels]`` and classes."""

    train_x: Array
    train_y: NDArray[np.int64]
    test_x: Array
    test_y: NDArray[np.int64]


def _crops(seed: int = 0, training: int = 6000, test: int = 1000) -> Images:
    """Squares of two photographs. The class is the photograph and the third of its height that the crop lies in; crops
    for testing come from the right quarter of each photograph, which those for training do not touch. Colours have the
    mean 0, and all together the deviation 1."""
    rng, shown = np.random.default_rng(seed), photographs()

    def drawn(count: int, part: slice) -> tuple[Array, NDArray[np.int64]]:
        x, y = np.empty((count, CROP, CROP, 3), dtype=np.float32), rng.integers(0, 3 * len(shown), count)
        for place, label in enumerate(y):
            photograph = shown[label // 3]
            third, quarter = (side // parts for side, parts in zip(photograph.shape, (3, 4), strict=False))
            row = third * int(label % 3) + int(rng.integers(0, third - CROP + 1))
            column = int(rng.integers(part.start * quarter, part.stop * quarter - CROP + 1))
            x[place] = photograph[row:row + CROP, column:column + CROP]
        return x, y

    (train_x, train_y), (test_x, test_y) = drawn(training, slice(0, 3)), drawn(test, slice(3, 4))
    mean, deviation = train_x.mean(axis=(0, 1, 2)), train_x.std()
    return Images((train_x - mean) / deviation, train_y, (test_x - mean) / deviation, test_y)


def _digits() -> Images:
    """The 8x8 digits, enlarged three times with linear interpolation, with a margin of two: 28x28."""
    data = named("digits")
    places = np.clip((np.arange(24) + 0.5) / 3 - 0.5, 0, 7)
    low = np.minimum(places.astype(int), 6)
    spread = np.zeros((24, 8), dtype=np.float32)
    spread[np.arange(24), low], spread[np.arange(24), low + 1] = 1 - (places - low), places - low

    def enlarged(x: NDArray[Any]) -> Array:
        maps = np.einsum("ri,cj,nij->nrc", spread, spread, x.reshape(-1, 8, 8).astype(np.float32))
        return np.pad(maps, ((0, 0), (2, 2), (2, 2)))[..., None].astype(np.float32)

    return Images(enlarged(data.train_x), data.train_y, enlarged(data.test_x), data.test_y)


@dataclass(frozen=True)
class Recipe:
    """A network of 3x3 convolutions with bias, each behind a ReLU, and how it is trained.

    Attributes
    ----------
    title : str
        What tables call it.
    channels : tuple of tuple of int
        Of convolutions; a 2x2 max-pool stands behind each group, and one fully connected layer behind all.
    classes, steps, batch, seed : int
    rate : float
        Falls to 0 with a half cosine; momentum is 0.9.
    """

    title: str
    images: Callable[[], Images]
    channels: tuple[tuple[int, ...], ...]
    classes: int
    steps: int
    rate: float
    batch: int = 32
    seed: int = 0

    @property
    def pooled(self) -> list[bool]:
        """Whether a pool stands behind each convolution."""
        return [place == len(group) - 1 for group in self.channels for place in range(len(group))]


RECIPES = {
    "photographs": Recipe("crops of photographs, 32x32", _crops, ((16, 32), (32, 64), (64,)), 6, 500, 0.003),
    "digits": Recipe("digits, enlarged to 28x28", _digits, ((16, 16), (32, 32)), 10, 300, 0.02),
}


@dataclass(frozen=True)
class Trained:
    """Weights ``[3, 3, in, out]`` and biases of convolutions, those of the fully connected layer, and its accuracy."""

    recipe: Recipe
    weights: list[Array]
    biases: list[Array]
    accuracy: float


def windows(x: Array) -> Array:
    """Taps of a 3x3 kernel about each place, ``[samples, rows, columns, 9 x channels]``."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = sliding_window_view(padded, (3, 3), axis=(1, 2))
    return taps.transpose(0, 1, 2, 4, 5, 3).reshape(*x.shape[:3], -1)


def pooled(x: Array) -> tuple[Array, NDArray[np.int64]]:
    """The largest of each 2x2, and which of the four that is."""
    n, rows, columns, channels = x.shape
    four = x.reshape(n, rows // 2, 2, columns // 2, 2, channels).transpose(0, 1, 3, 2, 4, 5)
    four = four.reshape(n, rows // 2, columns // 2, 4, channels)
    which = four.argmax(axis=3)
    return np.take_along_axis(four, which[:, :, :, None], axis=3)[:, :, :, 0], which


def unpooled(error: Array, which: NDArray[np.int64]) -> Array:
    """Errors of a pool's input."""
    n, rows, columns, channels = error.shape
    four = np.zeros((n, rows, columns, 4, channels), dtype=np.float32)
    np.put_along_axis(four, which[:, :, :, None], error[:, :, :, None], axis=3)
    return four.reshape(n, rows, columns, 2, 2, channels).transpose(0, 1, 3, 2, 4, 5).reshape(
        n, 2 * rows, 2 * columns, channels)


def errors(logits: Array, labels: NDArray[np.int64]) -> Array:
    """The errors of softmax cross-entropy by the logits."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    error = shifted / shifted.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    return (error / np.float32(len(labels))).astype(np.float32)


class ForwardPass:
    """A pass forwards by direct convolution: ``z`` of each convolution, and the logits."""

    def __init__(self, recipe: Recipe, weights: Sequence[Array], biases: Sequence[Array], x: Array) -> None:
        self.recipe, self.weights = recipe, weights
        self.taps: list[Array] = []
        self.z: list[Array] = []
        self.which: list[NDArray[np.int64]] = []
        for number, pool in enumerate(recipe.pooled):
            self.taps.append(windows(x))
            self.z.append(self.taps[-1] @ weights[number].reshape(-1, weights[number].shape[3]) + biases[number])
            x = np.maximum(self.z[-1], 0)
            if pool:
                x, which = pooled(x)
                self.which.append(which)
        self.shape, self.features = x.shape, x.reshape(len(x), -1)
        self.logits = self.features @ weights[-1] + biases[-1]

    def backward(self, error: Array) -> tuple[list[Array], list[Array], list[Array]]:
        """Propagate errors of logits: gradients of weights and of biases, and the errors of each ``z``."""
        weights, biases = [self.features.T @ error], [error.sum(axis=0)]
        back = (error @ self.weights[-1].T).reshape(self.shape)
        which, by_z = list(self.which), []
        for number in reversed(range(len(self.z))):
            if self.recipe.pooled[number]:
                back = unpooled(back, which.pop())
            dz = np.where(self.z[number] > 0, back, np.float32(0))
            flat = dz.reshape(-1, dz.shape[3])
            by_z.append(dz)
            kernel = self.weights[number]
            weights.append((self.taps[number].reshape(len(flat), -1).T @ flat).reshape(kernel.shape))
            biases.append(flat.sum(axis=0))
            if number:
                back = windows(dz) @ kernel[::-1, ::-1].transpose(0, 1, 3, 2).reshape(-1, kernel.shape[2])
        return weights[::-1], biases[::-1], by_z[::-1]


def _initial(recipe: Recipe, images: Images, rng: np.random.Generator) -> tuple[list[Array], list[Array]]:
    """He's."""
    _, rows, columns, inputs = images.train_x.shape
    weights = []
    for outputs in (channels for group in recipe.channels for channels in group):
        weights.append(rng.standard_normal((3, 3, inputs, outputs)) * np.sqrt(2 / (9 * inputs)))
        inputs = outputs
    features = inputs * (rows >> len(recipe.channels)) * (columns >> len(recipe.channels))
    weights.append(rng.standard_normal((features, recipe.classes)) / np.sqrt(features))
    return ([tensor.astype(np.float32) for tensor in weights],
            [np.zeros(tensor.shape[-1], dtype=np.float32) for tensor in weights])


def train(recipe: Recipe, say: Callable[[str], None] = lambda text: None) -> Trained:
    """Train a network by a recipe, in numpy."""
    images, rng = recipe.images(), np.random.default_rng(recipe.seed)
    weights, biases = _initial(recipe, images, rng)
    moved = [np.zeros_like(parameter) for parameter in (*weights, *biases)]
    for step in range(recipe.steps):
        chosen = rng.integers(0, len(images.train_x), recipe.batch)
        forward = ForwardPass(recipe, weights, biases, images.train_x[chosen])
        by_weights, by_biases, _ = forward.backward(errors(forward.logits, images.train_y[chosen]))
        rate = np.float32(recipe.rate * (1 + np.cos(np.pi * step / recipe.steps)) / 2)
        for parameter, gradient, velocity in zip((*weights, *biases), (*by_weights, *by_biases), moved, strict=True):
            velocity *= np.float32(0.9)
            velocity += gradient
            parameter -= rate * velocity
        if step % 100 == 99:
            right = (forward.logits.argmax(axis=1) == images.train_y[chosen]).mean()
            say(f"step {step + 1} of {recipe.steps}: {right:.0%} of the batch right")
    right = [ForwardPass(recipe, weights, biases, images.test_x[start:start + 100]).logits.argmax(axis=1)
             for start in range(0, len(images.test_x), 100)]
    return Trained(recipe, weights, biases, float((np.concatenate(right) == images.test_y).mean()))


def _kept(name: str) -> Path:
    recipe = RECIPES[name]
    settings = (recipe.channels, recipe.classes, recipe.steps, recipe.rate, recipe.batch, recipe.seed)
    key = hashlib.sha256(Path(__file__).read_bytes() + repr(settings).encode()).hexdigest()[:12]
    return cache_root() / "sparsity" / f"{name}-{key}"


@lru_cache(maxsize=4)
def trained(name: str) -> Trained:
    """A network of :data:`RECIPES`, from the cache if it is there, else trained and kept there.

    Raises
    ------
    UserError
        If the cache cannot be written.
    """
    folder = _kept(name)
    with tool_errors(), cached_folder(folder, "network.npz") as scratch:
        if scratch is not None:
            model = train(RECIPES[name])
            weights = {f"w{number}": values for number, values in enumerate(model.weights)}
            biases = {f"b{number}": values for number, values in enumerate(model.biases)}
            np.savez(scratch / "network.npz", allow_pickle=False, accuracy=np.array(model.accuracy), **weights,
                     **biases)
    with np.load(folder / "network.npz") as file:
        count = len(file.files) // 2
        return Trained(RECIPES[name], [file[f"w{number}"] for number in range(count)],
                       [file[f"b{number}"] for number in range(count)], float(file["accuracy"]))
