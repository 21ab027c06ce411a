"""Readers of measurements that packages ship with their code: movements of a wrist, and segments of photographs.

Both give samples for training first and those for testing behind them, every value within Q3.12, and take them from the
package's file: none of its code runs.
"""

import pickle
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Sensors of the watch, and the exercises of which a recording is one.
CHANNELS, EXERCISES = 6, 7
#: Samples of a window, 2 s at 50 Hz, and from one window's start to the next one's.
WINDOW, STRIDE = 100, 25
#: Units of the channels, of what is recorded: 1 of accelerations (up to 5.8), 4 of angular velocities (up to 29.0).
_UNITS = np.array([1, 1, 1, 4, 4, 4])
#: Share of each recording that is for training: its beginning.
_TRAINING_SHARE = 4, 5

#: Attributes of a segment, and what it can be of.
ATTRIBUTES, SURFACES = 18, ("brickface", "cement", "foliage", "grass", "path", "sky", "window")
#: Standard deviations beyond which an attribute is cut off.
_LIMIT = 4.0

#: What a pickle of arrays calls, by whatever name a version of numpy has for it.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_CALLED = {("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype,
           ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
           ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT}


def folder(package: str) -> Path:
    """The folder of a package, found without importing it.

    Raises
    ------
    ModuleNotFoundError
        If it is not installed.
    """
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    return Path(found.submodule_search_locations[0])


@contextmanager
def _intact() -> Iterator[None]:
    """Turn whatever a damaged archive or pickle raises into a ValueError."""
    try:
        yield
    except (zipfile.BadZipFile, pickle.UnpicklingError, NotImplementedError, RuntimeError, LookupError, TypeError,
            AttributeError, OverflowError, MemoryError) as error:
        raise ValueError(f"the file is not whole ({error})") from error


class _Arrays(pickle.Unpickler):
    """Unpickler of arrays and plain values, which calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return str.encode  # Bytes of an array, as protocol 2 has them.
        try:
            return _CALLED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is neither an array nor a plain value") from None


def _recordings() -> tuple[list[NDArray[np.float64]], NDArray[np.int64]]:
    """Recordings, each ``[samples, channels]``, and their exercises."""
    with (folder("seglearn") / "data" / "watch_dataset.npy").open("rb") as file, _intact():
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        content = _Arrays(file).load().item()
        exercises = np.asarray(content["y"]).astype(np.int64)
        recordings = [np.asarray(recording, np.float64) for recording in content["X"]]
    if len(recordings) != len(exercises) or not len(exercises) or not set(exercises) <= set(range(EXERCISES)) or any(
            recording.ndim != 2 or recording.shape[1] != CHANNELS or not np.isfinite(recording).all()
            for recording in recordings):
        raise ValueError("the file holds other recordings")
    return recordings, exercises


def windows(recording: NDArray[np.float64]) -> NDArray[np.float32]:
    """Windows of a recording, ``[windows, WINDOW * CHANNELS]``: channels of a sample side by side, each in its unit."""
    if len(recording) < WINDOW:
        return np.empty((0, WINDOW * CHANNELS), np.float32)
    views = np.lib.stride_tricks.sliding_window_view(recording / _UNITS, WINDOW, axis=0)[::STRIDE]
    return views.transpose(0, 2, 1).reshape(len(views), -1).astype(np.float32)


def movements() -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    """Windows of the acceleration and rotation of a wrist during shoulder exercises, and which exercise it was.

    The last fifth of every recording is for testing; no window lies across, so that no measurement is in both. Persons
    are: the same ten did all exercises.

    Returns
    -------
    x, y : array
        Windows, ``[samples, 600]``, and exercises, ``[samples]``, in the order of the recordings.
    training : int
        How many at their beginning are for training.

    Raises
    ------
    ImportError, OSError, EOFError, ValueError
        If the package is not installed, or its file is not whole.
    """
    recordings, exercises = _recordings()
    numerator, denominator = _TRAINING_SHARE
    cuts = [len(recording) * numerator // denominator for recording in recordings]
    parts = [[windows(recording[:cut]) for recording, cut in zip(recordings, cuts, strict=True)],
             [windows(recording[cut:]) for recording, cut in zip(recordings, cuts, strict=True)]]
    y = [np.repeat(exercises, [len(part) for part in half]) for half in parts]
    return np.concatenate(parts[0] + parts[1]), np.concatenate(y), len(y[0])


def segments(training: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Attributes of segments of outdoor photographs, and the surface that each is of.

    Attributes have the mean 0 and the standard deviation 1 over the samples for training, and are cut off at four
    standard deviations.

    Parameters
    ----------
    training : int
        How many at the beginning are for training.

    Returns
    -------
    x, y : array
        Attributes, ``[samples, 18]``, and surfaces, ``[samples]``, in the order of the file.

    Raises
    ------
    ImportError, OSError, EOFError, ValueError
        If the package is not installed, or its file is not whole.
    """
    with _intact(), zipfile.ZipFile(folder("river") / "datasets" / "segment.csv.zip") as archive:
        lines = archive.read(archive.namelist()[0]).decode("ascii").splitlines()[1:]
    table: Any = np.loadtxt(lines, delimiter=",", dtype=np.str_, ndmin=2)
    if table.shape[1] != ATTRIBUTES + 1 or not set(table[:, -1]) <= set(SURFACES) or len(table) <= training:
        raise ValueError("the file holds other segments")
    attributes = table[:, :-1].astype(np.float64)
    y = np.searchsorted(SURFACES, table[:, -1]).astype(np.int64)
    spread = attributes[:training].std(axis=0)
    standard = (attributes - attributes[:training].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if not np.isfinite(standard).all():
        raise ValueError("the file holds values that are not finite")
    return np.clip(standard, -_LIMIT, _LIMIT).astype(np.float32), y
