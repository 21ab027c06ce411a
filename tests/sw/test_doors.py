"""Whatever file is given: it is read, or refused in one line, in little memory."""

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.hostile import DOORS, NETWORK, campaign, text_of
from tests.support.hostile_pieces import Piece, array_piece, npy_head, zipped

from plinth import cli
from plinth.array.file import load_array
from plinth.errors import MAXIMUM_MESSAGE, UserError, one_line, quoted
from plinth.network.file import load_network
from plinth.network.sparse.pattern_file import read_patterns
from plinth.network.sparse.tsv import read_layer
from plinth.train import checkpoint
from plinth.train.data import load_data

READERS: dict[str, Callable[[Path], object]] = {
    "samples.npz": lambda path: load_data(path, NETWORK), "checkpoint.npz": lambda path: checkpoint.load(path, NETWORK),
    "network.yaml": lambda path: load_network(str(path)), "network.onnx": lambda path: load_network(str(path)),
    "array.yaml": lambda path: load_array(str(path)), "layer.tsv": lambda path: read_layer(path, 3, 4),
    "patterns.npz": read_patterns}


@pytest.mark.parametrize("name", list(DOORS))
def test_wrong_files_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    """A small part of the campaign of ``tests/long/test_doors.py``."""
    tally = campaign(name, 1 << 20, 60, 40, tmp_path)
    assert tally.refused > 20 and tally.read


@pytest.mark.parametrize("name", list(READERS))
def test_pipes_devices_and_folders_are_refused(name: str, tmp_path: Path) -> None:
    """A pipe without a writer would block whoever opens it."""
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(UserError, match=r"cannot be read \(a folder, a pipe or a device\)"):
        READERS[name](path)
    path.unlink()
    for other in (Path("/dev/zero"), tmp_path):
        path.symlink_to(other)
        with pytest.raises(UserError, match=r"cannot be read \(a folder, a pipe or a device\)"):
            READERS[name](path)
        path.unlink()
    with pytest.raises(UserError, match="No such file"):
        READERS[name](path)


def huge(claimed: str, body: bytes = b"", **settings: Any) -> Piece:
    return Piece(b"x.npy", npy_head("'<f4'", "False", claimed), body, **settings)


LABELS = array_piece("y", np.zeros(10, np.int64))


#: Files whose head, or also directory, claims far more than there is; and a real bomb, 70 kB that unpack to 70 MB.
CLAIMS: dict[str, tuple[Callable[[], bytes], str]] = {
    "head": (lambda: zipped([huge(f"({10**10}, 4)"), LABELS]), "of float32, but has 0 bytes"),
    "digits": (lambda: zipped([huge(f"({'9' * 12}, 4)"), LABELS]), "of float32, but has 0 bytes"),
    "directory": (lambda: zipped([huge(f"({10**8}, 4)", entry={7: 1_600_000_128, 8: 1_600_000_128}), LABELS]),
                  "lie over each other"),
    "ratio": (lambda: zipped([huge(f"({10**8}, 4)", deflated=True, entry={8: 1_600_000_128}), LABELS]), "cannot give"),
    "bomb": (lambda: zipped([huge("(4500000, 4)", bytes(72_000_000), deflated=True), LABELS]), "unpacks from"),
    "members": (lambda: zipped([LABELS], {2: 40_000, 3: 40_000}), "does not fit"),
}


@pytest.mark.parametrize("name", list(CLAIMS))
def test_what_a_file_claims_is_compared_before_anything_is_made_of_it(name: str, tmp_path: Path) -> None:
    path, (content, needle) = tmp_path / "my.npz", CLAIMS[name]
    path.write_bytes(content())
    for read in (READERS["samples.npz"], READERS["checkpoint.npz"]):
        tracemalloc.start()
        try:
            with pytest.raises(UserError) as caught:
                read(path)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 4 << 20
        if read is READERS["samples.npz"]:
            assert needle in text_of(caught.value)


def test_messages_are_one_printable_line_and_cut() -> None:
    assert one_line("a\n b\tc\x1b[31m \u202ed \udc80\u2028e") == "a b c\\x1b[31m \\u202ed \\udc80 e"
    assert one_line("naïve 日本") == "naïve 日本"
    long = text_of(UserError("start " + "x" * 100_000 + " remedy"))
    assert long.startswith("start x") and long.endswith("x remedy") and len(long) == MAXIMUM_MESSAGE
    assert quoted("a" * 100) == repr("a" * 64 + "...") and quoted("\x1b") == r"'\x1b'"


@pytest.mark.parametrize("text", [
    'version: 2\nname: a\ninput: [4]\nlayers:\n- {name: "fc\\e[31m", kind: "\\u202edense"}\n',
    'version: 2\nname: a\ninput: [4]\n"lay\\e[2Jers": 1\n',
    "version: 2\nname: a\ninput: [4]\nlayers:\n- {name: fc, kind: null}\n",
    f"version: 2\nname: a\ninput: [4]\nlayers:\n- {{name: {'n' * 90_000}, kind: {'k' * 90_000}}}\n",
])
def test_nothing_of_a_file_steers_the_terminal(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(text)
    with pytest.raises(SystemExit) as info:
        cli.main(["plan", str(path)])
    assert info.value.code == 2
    error = capsys.readouterr().err
    assert error.endswith("\n") and error[:-1].isprintable() and len(error) < MAXIMUM_MESSAGE + 100
    assert str(path) in error


@pytest.mark.parametrize("key", ["planner", "model", "array"])
def test_names_in_a_plan_are_names(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    cli.main(["plan", "digits-mlp", "--array", "ring-2", "--out", str(path)])
    data = json.loads(path.read_text())
    for name in ("\x1b[31mred", "[red]", "a b", "\u202e", "", "x" * 65, None):
        path.write_text(json.dumps({**data, key: name}))
        capsys.readouterr()
        with pytest.raises(SystemExit):
            cli.main(["simulate", "--plan", str(path)])
        error = capsys.readouterr().err
        assert f"{key} must be a name, not" in error and error[:-1].isprintable()


def test_what_a_user_types_does_not_steer_the_terminal_either(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["plan", "\x1b[31m"], ["\x1b[31m"], ["plan", "vgg-a", "--array", "\u202e" + "a" * 5000]):
        with pytest.raises(SystemExit):
            cli.main(arguments)
        error = capsys.readouterr().err
        assert error[:-1].isprintable() and len(error) < MAXIMUM_MESSAGE + 100
