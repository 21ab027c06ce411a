"""Samples: of a data set with a name, the digits unless another is named, or a user's own; split once and for all."""

import hashlib
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.files.npz import MemberForm, array_file
from plinth.network.layers import Embedding, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.train.datasets import DATASETS, labelled
from plinth.train.scale import UNSCALED, Conversion, Scale

#: Seed of the split, which does not depend on the run's seed.
SPLIT_SEED = 0
#: Share of a user's samples that is kept for testing.
TEST_SHARE = 0.2
#: Most values of a user's samples: 2 GiB as FP32.
MAXIMUM_VALUES = 1 << 29


@dataclass(frozen=True)
class Dataset:
    """Features as FP32 ``[samples, features]``, a map's as row, column, channel, or row numbers of embeddings as
    integers; labels as integers ``[samples]``, or targets as FP32 ``[samples, outputs]``. All are scaled."""

    train_x: NDArray[Any]
    train_y: NDArray[Any]
    test_x: NDArray[Any]
    test_y: NDArray[Any]
    #: Number of classes; 0 for targets.
    classes: int
    #: What samples and targets have been multiplied by.
    scale: Scale = UNSCALED
    #: What messages call it, and the SHA-256 of samples and labels as they were given.
    name: str = ""
    sha256: str = ""

    def targets(self, samples: NDArray[np.int64]) -> NDArray[np.float32]:
        """One-hot classes, or targets, of training samples."""
        if not self.classes:
            return self.train_y[samples]
        targets = np.zeros((len(samples), self.classes), np.float32)
        targets[np.arange(len(samples)), self.train_y[samples]] = 1
        return targets


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples in memory, as :func:`load_data` takes them from a file.

    Parameters
    ----------
    x, y : array_like
        Real numbers of up to 8 bytes.

    Raises
    ------
    UserError
        If one is no array of such numbers.
    """

    x: NDArray[Any]
    y: NDArray[Any]

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            if np.ma.isMaskedArray(getattr(self, name)):
                raise UserError(f"{name} is a masked array, whose masks no step knows; fill it, or leave samples out")
            try:
                values = np.asarray(getattr(self, name))
            except (ValueError, TypeError) as error:
                raise UserError(f"{name} must be an array of real numbers ({error})") from None
            if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
                raise UserError(f"{name} must be an array of real numbers of up to 8 bytes, not of {values.dtype}")
            object.__setattr__(self, name, values.astype(values.dtype.newbyteorder("="), copy=False))


def digits() -> Dataset:
    """1,797 real 8x8 digits, pixels scaled to 0..1, split 1,437 to 360 after a fixed shuffle."""
    return named("digits")


def named(name: str) -> Dataset:
    """A data set with a name, split after a fixed shuffle, or as its source orders it.

    Raises
    ------
    UserError
        As :func:`plinth.train.datasets.labelled`.
    """
    return _labelled(name, Conversion())


def _words(name: str, network: Network) -> Dataset:
    """The samples of a text for a network: its last tenth is for testing."""
    what, rows, outputs = DATASETS[name].what, table_rows(network), network.output.elements
    if not rows or not isinstance(network.loss, SoftmaxCrossEntropy):
        raise UserError(f"network {network.name!r} has no embedding that {what} could number the rows of, or no "
                        "softmax-cross-entropy of words; give x= with fitting samples")
    x, y = labelled(name, (rows, network.input.elements, outputs))
    training = len(x) - len(x) // 10
    return Dataset(x[:training], y[:training], x[training:], y[training:], outputs, name=name, sha256=_digest(x, y))


def _labelled(name: str, conversion: Conversion) -> Dataset:
    x, y = labelled(name)
    sha256 = _digest(x, y)
    features, _, scale = conversion.scaled(x, None, DATASETS[name].what)
    assert features is not None
    source = DATASETS[name]
    order = np.arange(len(y)) if source.ordered else _shuffled(len(y))
    return _divided(features, y, order, source.training, source.classes, scale=scale, name=name, sha256=sha256)


def _digest(*arrays: NDArray[Any]) -> str:
    """SHA-256 of the forms and values of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _shuffled(count: int) -> NDArray[np.int64]:
    """Numbers of samples in the order in which they are divided, always the same."""
    return np.random.default_rng(SPLIT_SEED).permutation(count)


def _divided(x: NDArray[Any], y: NDArray[Any], order: NDArray[np.int64], training: int, classes: int, **origin: Any
             ) -> Dataset:
    train, test = order[:training], order[training:]
    return Dataset(x[train], y[train], x[test], y[test], classes, **origin)


def load_data(path: Path, network: Network, conversion: Conversion | None = None) -> Dataset:
    """Samples of an ``.npz`` file, for a network: arrays ``x`` and ``y``. A fifth, always the same, is for testing.

    ``x`` is ``[samples, features]`` or ``[samples, channels, rows, columns]`` as the network's input (maps of one
    channel may leave it out), real and finite; for embeddings row numbers, whole and within the smallest table.
    ``y`` holds class numbers ``[samples]`` for softmax-cross-entropy, ``[samples, outputs]`` for mean-squared-error.
    The file is untrusted: shapes are compared with the network before values are read.

    Parameters
    ----------
    conversion : Conversion or None
        Scale, and what ranges are held; None: values as they are, in FP32.

    Raises
    ------
    UserError
        If the file cannot be read or does not fit the network, or as :meth:`Conversion.scaled`.
    """
    remedy = "save it with `numpy.savez(path, x=..., y=...)`"
    with array_file(path, "an .npz file of plain arrays", remedy) as file:
        x, y = file.form("x"), file.form("y")
        _check_forms(x, y, network, str(path))
        return _fitted(file.read(x), file.read(y), network, str(path), path.name, conversion or Conversion())


def _check_forms(x: MemberForm | NDArray[Any], y: MemberForm | NDArray[Any], network: Network, where: str) -> None:
    """Compare kinds and shapes with what the network takes."""
    shown_x, shown_y = (f"{array.dtype} {list(array.shape)}" for array in (x, y))
    wanted, outputs = tuple(network.input), network.output.elements
    shapes = [wanted, wanted[1:]] if len(wanted) == 3 and wanted[0] == 1 else [wanted]
    if x.shape[1:] not in shapes:
        raise UserError(f"{where}: x must be real numbers of shape [samples, {', '.join(map(str, wanted))}] for "
                        f"network {network.name!r}, not {shown_x}")
    if isinstance(network.loss, SoftmaxCrossEntropy):
        if y.dtype.kind not in "iu" or len(y.shape) != 1:
            raise UserError(f"{where}: y must be class numbers from 0 to {outputs - 1}, one a sample, not {shown_y}")
    elif y.shape[1:] != (outputs,):
        raise UserError(f"{where}: y must be real numbers of shape [samples, {outputs}], not {shown_y}")
    if x.shape[0] != y.shape[0] or x.shape[0] < 2:
        raise UserError(f"{where}: x has {x.shape[0]} samples and y {y.shape[0]}; give as many of both, at least 2")
    if max(prod(x.shape), prod(y.shape)) > MAXIMUM_VALUES:
        raise UserError(f"{where}: x {list(x.shape)} or y {list(y.shape)} has more than {MAXIMUM_VALUES} values; give "
                        "fewer samples")


def _fitted(x: NDArray[Any], y: NDArray[Any], network: Network, where: str, name: str, conversion: Conversion
            ) -> Dataset:
    """Samples as networks read them, from arrays whose forms fit."""
    wanted, outputs = tuple(network.input), network.output.elements
    rows, sha256 = table_rows(network), _digest(x, y)
    classes = outputs if isinstance(network.loss, SoftmaxCrossEntropy) else 0
    if classes and (y.min() < 0 or y.max() >= outputs):
        raise UserError(f"{where}: y must be class numbers from 0 to {outputs - 1}, one a sample, not from {y.min()} "
                        f"to {y.max()}")
    if rows:
        _check_rows(x, rows, where)
        if conversion.scale is not None and conversion.scale.inputs != 1:
            raise UserError(f"{where}: x are row numbers of an embedding, which are not scaled, by "
                            f"{conversion.scale.inputs:.6g} neither; give scale=1, or 1 and a factor on targets")
    features, targets, scale = conversion.scaled(None if rows else x, None if classes else y, where)
    values: NDArray[Any] = (x.astype(np.int64) if features is None else features).reshape(len(x), *wanted)
    if len(wanted) == 3:
        values = values.transpose(0, 2, 3, 1)
    flat = np.ascontiguousarray(values.reshape(len(x), -1))
    return _divided(flat, y.astype(np.int64) if targets is None else targets, _shuffled(len(x)),
                    len(x) - max(1, round(TEST_SHARE * len(x))), classes, scale=scale, name=name, sha256=sha256)


def table_rows(network: Network) -> int:
    """Rows of the smallest embedding, which the network's input numbers; 0 if there is none."""
    return min((layer.rows for layer in network.layers if isinstance(layer, Embedding)), default=0)


def _check_rows(x: NDArray[Any], rows: int, where: str) -> None:
    """Refuse what numbers no row of a table."""
    odd = np.argwhere(~((x >= 0) & (x < rows) & (x == np.floor(x))) | (x.dtype.kind == "b"))
    if len(odd):
        raise UserError(f"{where}: x must be row numbers of an embedding, whole numbers from 0 to {rows - 1}, not "
                        f"{x[tuple(odd[0])]} (sample {odd[0][0]})")


def samples(source: Path | Samples | None, network: Network, conversion: Conversion | None = None) -> Dataset:
    """Load the samples of a network: those of a data set with a name, of a file or in memory, or the digits.

    Parameters
    ----------
    conversion : Conversion or None
        As :func:`load_data`.

    Raises
    ------
    UserError
        As :func:`named`, :func:`load_data` and :func:`check_data`, or if there is neither such a name nor a file.
    """
    if isinstance(source, Samples):
        where = "samples"
        _check_forms(source.x, source.y, network, where)
        dataset = _fitted(source.x, source.y, network, where, where, conversion or Conversion())
        check_data(dataset, network, where)
        return dataset
    name = "digits" if source is None else str(source)
    if name in DATASETS:
        where = DATASETS[name].what
        dataset = _labelled(name, conversion or Conversion()) if DATASETS[name].words is None else _words(name, network)
    else:
        path = Path(name)
        if not path.suffix and not path.exists():
            raise UserError(f"{name}: is neither a file nor a data set; give an .npz file or one of "
                            f"{', '.join(DATASETS)}")
        dataset, where = load_data(path, network, conversion), name
    check_data(dataset, network, where)
    return dataset


def check_data(dataset: Dataset, network: Network, where: str) -> None:
    """Refuse samples that do not fit a network.

    Raises
    ------
    UserError
        Naming both sizes.
    """
    if table_rows(network) and dataset.train_x.dtype.kind == "f":
        raise UserError(f"network {network.name!r} takes row numbers of an embedding, which {where} are not; give "
                        "x= with whole numbers")
    inputs, outputs = network.input.elements, network.output.elements
    target_count = dataset.classes or dataset.train_y.shape[1]
    if inputs != dataset.train_x.shape[1] or outputs != target_count or (
            bool(dataset.classes) != isinstance(network.loss, SoftmaxCrossEntropy)):
        raise UserError(f"network {network.name!r} takes {inputs} inputs and gives {outputs} outputs to its "
                        f"{network.loss.kind}; {where} have {dataset.train_x.shape[1]} and {target_count}"
                        f"{' classes' if dataset.classes else ''}; give x= with fitting samples")
