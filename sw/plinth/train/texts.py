"""Words of real texts, as row numbers of tables: for language models, and for translations of one text into another.

The texts are two English Bibles that packages ship, ``asv`` of 1901 and ``kjv`` of 1611, of some 790,000 words each, of
which 12,500 are distinct; both tell where each verse begins, so that verses of one are translations of the other's.
Packages are read as text: none of their code runs.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: What is a word; others are spaces.
_WORD = re.compile("[a-z]+(?:\u2019[a-z]+)?")
#: Where a verse begins, or ends: its number, and the place of a letter.
_VERSE = re.compile(r"\b(\d{7,8}): (\d{1,8}),")
_FILE = "plain_text_readers_bible.py"
TEXTS = ("asv", "kjv")


@dataclass(frozen=True)
class Text:
    """The words of a text.

    Parameters
    ----------
    words : tuple of str
        The distinct ones, the most frequent first, of equally frequent ones by the alphabet.
    numbers : array of int
        The number of each word of the text among them.
    verses : dict of int to (int, int)
        By number the first word of a verse, and the one behind its last.
    """

    words: tuple[str, ...]
    numbers: NDArray[np.int64]
    verses: dict[int, tuple[int, int]]

    def rows(self, count: int) -> NDArray[np.int64]:
        """The words as rows of a table of so many, all rarer words the last one."""
        return np.minimum(self.numbers, count - 1)


def parsed(source: str) -> Text:
    """The text in a module's source: what stands between its first triple quotes, and where verses begin in it.

    Raises
    ------
    ValueError
        If there is none.
    """
    parts = source.split('"""')
    if len(parts) < 3:
        raise ValueError("no text between triple quotes")
    body, behind = parts[1].lower(), parts[2]
    matches = list(_WORD.finditer(body))
    if not matches:
        raise ValueError("a text without words")
    words = [match.group() for match in matches]
    order = sorted(Counter(words).items(), key=lambda pair: (-pair[1], pair[0]))
    number = {word: place for place, (word, _) in enumerate(order)}
    starts = np.array([match.start() for match in matches])
    # Where each verse begins, and, further on, where it ends.
    places: dict[int, list[int]] = defaultdict(list)
    for verse, place in _VERSE.findall(behind):
        places[int(verse)].append(int(np.searchsorted(starts, int(place))))
    return Text(tuple(word for word, _ in order), np.array([number[word] for word in words]), {
        verse: (bounds[0], bounds[1]) for verse, bounds in places.items() if len(bounds) > 1})


@cache
def text(name: str) -> Text:
    """A text by its name.

    Raises
    ------
    ModuleNotFoundError
        If its package is not installed.
    OSError, ValueError
        If it cannot be read.
    """
    spec = find_spec(f"pythonbible_{name}")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named 'pythonbible_{name}'", name=f"pythonbible_{name}")
    return parsed((Path(spec.submodule_search_locations[0]) / _FILE).read_text(encoding="utf-8"))


def next_words(name: str, rows: int, context: int, classes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every window of words of a text, and the word behind it.

    Parameters
    ----------
    rows, classes : int
        Rows of the table, and words that are told apart; all rarer words are the last of each.
    context : int
        Words of a window.

    Returns
    -------
    x ``[samples, context]``, y ``[samples]``
        Samples in the order of the text.
    """
    source = text(name)
    windows = np.lib.stride_tricks.sliding_window_view(source.rows(rows), context)[:-1]
    return np.ascontiguousarray(windows), source.rows(classes)[context:]


