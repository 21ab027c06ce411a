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


def translated_words(source: str, target: str, rows: tuple[int, int], contexts: tuple[int, int], classes: int
                     ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every word of a text, with words of its translation around the same place and the words before it.

    A verse of the one text is the translation of the other's verse with the same number. A word's place in its verse,
    in parts of the verse's length, is the place in the translated verse around which a window of words is taken.
    Windows may reach into the neighbouring verses.

    Parameters
    ----------
    source, target : str
        The text that is translated, and the one whose words are told.
    rows : (int, int)
        Rows of the table of each text; all rarer words are the last row.
    contexts : (int, int)
        Words of a window of the source, and words of the target before the one that is told.
    classes : int
        Words that are told apart; all rarer words are the last one.

    Returns
    -------
    x ``[samples, sum of contexts]``, y ``[samples]``
        Row numbers of the source, then of the target; samples verse by verse, in the order of the target's verses.

    Raises
    ------
    ModuleNotFoundError, OSError, ValueError
        As :func:`text`, of either text; ValueError also if a text is shorter than its window.
    """
    translated, told = text(source), text(target)
    pairs = [(place, translated.verses[verse]) for verse, place in told.verses.items() if verse in translated.verses]
    (first, end), (source_first, source_end) = np.array(pairs, np.int64).reshape(-1, 2, 2).transpose(1, 2, 0)
    words = end - first
    verse_of = np.repeat(np.arange(len(pairs)), words)
    in_verse = np.arange(words.sum()) - np.repeat(np.cumsum(words) - words, words)
    place = first[verse_of] + in_verse
    source_place = source_first[verse_of] + in_verse * (source_end - source_first)[verse_of] // words[verse_of]
    windows, before = (np.lib.stride_tricks.sliding_window_view(words_of.rows(count), context) for words_of, count,
                       context in zip((translated, told), rows, contexts, strict=True))
    # The first words of the text have too few before them.
    with_context = place >= contexts[1]
    place, source_place = place[with_context], source_place[with_context]
    window = np.clip(source_place - contexts[0] // 2, 0, len(windows) - 1)
    return np.concatenate([windows[window], before[place - contexts[1]]], axis=1), told.rows(classes)[place]
