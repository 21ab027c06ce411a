"""Files that are wrong on purpose, for every door through which files come in.

A :class:`Door` is a reader and good files for it. What it is given is a good file with bytes or words changed, or one
put together from pieces that are each right or wrong (so that a checksum does not hide what lies behind it). The
property is always the same: it is read, or refused by a `UserError` of one printable line; no other exception.

``python -m tests.support.hostile DOOR SEED BYTES PIECES`` runs a campaign in its own process, whose memory may grow
by :data:`ROOM` only, and prints how many files were read and refused.
"""

import gzip
import json
import re
import resource
import signal
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.support.hostile_pieces import array_piece, wrong, wrong_checkpoint, wrong_message, wrong_npz, zipped
from tests.support.onnx_models import every_operator

from plinth.array.array import ARRAYS, Array
from plinth.array.file import array_from_data, array_to_data, load_array
from plinth.errors import MAXIMUM_MESSAGE, UserError
from plinth.files.documents import dump_yaml
from plinth.network.file import load_network, network_from_data, network_to_data
from plinth.network.network import perceptron
from plinth.network.onnx.reader import MAXIMUM_FAULTS, read_onnx
from plinth.network.sparse.pattern_file import PatternFile
from plinth.network.sparse.tsv import read_layer
from plinth.network.zoo import NETWORKS
from plinth.partition.cuts import ranges_of, runs_of
from plinth.partition.graph import from_network
from plinth.partition.regions import Lists
from plinth.plan.lists_file import layers_from_data, load_lists
from plinth.plan.plan_file import load_plan, plan_from_data
from plinth.plan.planning import plan_network
from plinth.projection.projection import Projection
from plinth.train import checkpoint
from plinth.train.data import load_data
from plinth.train.scale import Scale
from plinth.train.settings import RunSettings
from plinth.update.rule import UpdateRule

#: Bytes by which a campaign's process may grow: far more than any of its files needs, far less than they claim.
ROOM = 256 << 20
#: Seconds after which one file counts as never read.
PATIENCE = 60

NETWORK = perceptron("small", (4, 3, 2))
#: Words that stand in for those of a text.
WORDS = [
    b"null", b"~", b"[]", b"{}", b"1e999", b".nan", b"-.inf", b"-1", b"0", b"9" * 19, b"9" * 40, b"0x10", b"010",
    b"1:30", b"1/0", b'"\\e[31m"', b"&a", b"*a", b"!!python/name:os.system", b"!!binary aGk=", b"? ", b"- ", b"<<",
    b"=", b"@", b"`", b"%YAML 9.9", b"---", b"...", b"\xe2\x80\xae", b"\xff", b"\0", b"true", b"2001-01-01", b"'",
    b'"', b"|", b">", b"#", b"[" * 40, b"{a: " * 40, b"x" * 3000, b"\t", b"\r"]


def text_of(error: UserError) -> str:
    """The message, which must be one line that a terminal can show; of several faults each has one, up to a bound."""
    text = str(error)
    for line in (text, *error.notes):
        assert line.isprintable() and line.strip() and len(line) <= MAXIMUM_MESSAGE, ascii(line)
    assert len(error.notes) <= MAXIMUM_FAULTS + 1
    return text


@dataclass(frozen=True)
class Door:
    """A reader of files, good files for it, and files made of pieces."""

    suffix: str
    good: tuple[bytes, ...]
    read: Callable[[Path], object]
    #: Files of pieces, or plain data as a file of text holds them, and what reads them.
    pieces: st.SearchStrategy[Any] | None = None
    read_piece: Callable[[Any], object] | None = None
    text: bool = False


def mutated(generator: np.random.Generator, content: bytes, other: bytes, text: bool) -> bytes:
    """A file with one to four changes."""
    changed = bytearray(content)
    for _ in range(int(generator.choice([1, 1, 1, 2, 4]))):
        if not changed:
            break
        # Where formats keep what decides most: at the beginning and the end.
        near = generator.integers(4)
        place = int(generator.integers(len(changed)) if near > 1 else generator.integers(min(120, len(changed))) if near
                    else len(changed) - 1 - generator.integers(min(400, len(changed))))
        match generator.integers(9 if text else 7):
            case 0:
                changed[place] ^= 1 << int(generator.integers(8))
            case 1:
                changed[place] = int(generator.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF, generator.integers(256)]))
            case 2:
                changed[place:place + 4] = int(generator.choice([0, 1, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
                                               ).to_bytes(4, "little")
            case 3:
                del changed[place:place + int(generator.integers(1, 64))]
            case 4:
                changed[place:place] = changed[place:place + int(generator.integers(1, 64))]
            case 5:
                start = int(generator.integers(len(other)))
                changed[place:place] = other[start:start + int(generator.integers(1, 64))]
            case 6:
                del changed[place:]
            case _:
                words = list(re.finditer(rb"[\w./'\"-]+", bytes(changed)))
                if words:
                    word = words[int(generator.integers(len(words)))]
                    changed[word.start():word.end()] = WORDS[int(generator.integers(len(WORDS)))]
    return bytes(changed)


def _samples(deflated: bool) -> Door:
    generator = np.random.default_rng(0)
    good = [array_piece("x", generator.random((10, 4), dtype=np.float32), deflated),
            array_piece("y", generator.integers(0, 2, 10), deflated)]
    return Door(".npz", (zipped(good),), lambda path: load_data(path, NETWORK), wrong_npz(good))


def _checkpoint() -> Door:
    settings = RunSettings(epochs=9, batch=8, rule=UpdateRule(epsilon=1e-6), number_format="fp32", scale=Scale(0.5),
                           data="digits", data_sha256="0" * 64, network_sha256="1" * 64, tiles="",
                           tile_options={"winograd": "off"}, preset="ndp-demo", array="ring-2", dies=2, planner="data")
    header = {"version": 3, "network": "small", "epoch": 3, "step": 1, "seed": 7, "layers": ["fc1", "fc2"],
              "generators": [5, 6], "settings": settings.to_data()}
    arrays = [array_piece(name, np.ones(variable.shape, np.float32)) for name, variable in NETWORK.variables.items()]
    whole = zipped([array_piece("header", np.frombuffer(json.dumps(header).encode(), np.uint8)), *arrays])
    return Door(".npz", (whole,), lambda path: checkpoint.load(path, NETWORK), wrong_checkpoint(header, arrays))


def _networks() -> Door:
    data = (network_to_data(NETWORKS["digits-cnn"]), {
        "version": 2, "name": "words", "input": [2], "layers": [
            {"name": "small", "kind": "embedding", "inputs": ["input"], "rows": 5, "width": 2},
            {"name": "large", "kind": "embedding", "inputs": ["input"], "rows": 9, "width": 2},
            {"name": "both", "kind": "add", "inputs": ["small", "large"], "shape": [4]},
            {"name": "fc", "kind": "dense", "outputs": 3, "bias": False},
            {"name": "loss", "kind": "softmax-cross-entropy"}]})
    return Door(".yaml", tuple(dump_yaml(network).encode() for network in data),
                lambda path: from_network(load_network(str(path))), wrong(data),
                lambda content: from_network(network_from_data(content, "file")), text=True)


def _arrays() -> Door:
    own = Array(name="own", topology="links", dies=3, preset="ndp-demo", wiring=((0, 0, 1, 1), (1, 0, 2, 1)))
    data = (*map(array_to_data, (ARRAYS["torus-2x4"], ARRAYS["hypar-16"], own)),
            {**array_to_data(ARRAYS["ring-2"]), "speeds": [1, "3/4"], "clock_mhz": 0.5, "link_rate": "15/16"})
    return Door(".yaml", tuple(dump_yaml(array).encode() for array in data), lambda path: _used(load_array(str(path))),
                wrong(data), lambda content: _used(array_from_data(content, "file")), text=True)


def _used(array: Array) -> object:
    """What every use of an array derives first."""
    return array.die_parameters(), array.directed(), array.relative_speeds


def _plans(suffix: str) -> Door:
    network = NETWORKS["digits-mlp"]
    graph = from_network(network)
    plans = [plan_network(network, ARRAYS["ring-2"], planner=planner, batch=8).plan for planner in ("hypar", "data")]
    uneven = Lists(samples=tuple(map(runs_of, ([0, 2, 3], [1, 4, 5, 6, 7]))), owners=(1, 0))
    plans[1] = plans[1].resharded(lists=(Lists(samples=ranges_of((8, 0))), *(uneven,) * (len(graph.nodes) - 1)))
    data = tuple(plan.to_data() for plan in plans)
    texts = tuple((dump_yaml(plan_data) if suffix == ".yaml" else json.dumps(plan_data)).encode() for plan_data in data)
    return Door(suffix, texts, lambda path: load_plan(path, network), wrong(data),
                lambda content: plan_from_data(content, graph, "file"), text=True)


def _parts() -> Door:
    network, array = NETWORKS["digits-mlp"], ARRAYS["ring-2"]
    graph = from_network(network)
    data = ({"fc1": {"samples": {"sizes": [8, 0]}, "owners": [1, 0]},
             "fc2": {"samples": {"lists": [[0, [2, 5]], [1, 6, 7]]}}, "loss": {"samples": {"sizes": [3, 5]}}},)

    def used(lists: dict[str, Lists]) -> object:
        return plan_network(network, array, planner="data", batch=8, lists=lists)

    return Door(".yaml", tuple(dump_yaml(layers).encode() for layers in data),
                lambda path: used(load_lists(path, graph)), wrong(data),
                lambda content: used(layers_from_data(content, graph, "file")), text=True)


def _onnx() -> Door:
    good = tuple(every_operator())
    return Door(".onnx", tuple(model.SerializeToString() for model in good), lambda path: from_network(read_onnx(path)),
                wrong_message(good))


def _layers() -> Door:
    text = b"".join(b"%d\t%d\t0.0625\n" % (row, column) for row in range(1, 9) for column in range(1, 9, 3))
    return Door(".tsv", (text, gzip.compress(text, mtime=0), text.replace(b"\t", b" ")),
                lambda path: read_layer(path, 8, 8), text=True)


def _patterns() -> Door:
    good = [array_piece("fc.shape", np.array([4, 5])), array_piece("fc.indptr", np.array([0, 2, 2, 5, 6])),
            array_piece("fc.indices", np.array([0, 4, 1, 2, 3, 0], np.int32)),
            array_piece("fc.values", np.ones(6, np.float32))]
    return Door(".npz", (zipped(good),), lambda path: PatternFile(path).rows(0, [1, 3]), wrong_npz(good))


def _projection() -> Door:
    header = {"version": 1, "beta": 0.1, "coordinates": "dictionary"}
    arrays = [array_piece("basis", np.eye(2, 4, dtype=np.float32)),
              array_piece("dictionary", np.array([[1, 0, 0, 0], [0.6, 0.8, 0, 0]], np.float32))]
    whole = zipped([array_piece("header", np.frombuffer(json.dumps(header).encode(), np.uint8)), *arrays])
    return Door(".npz", (whole,), lambda path: Projection.load(path).project(np.ones((1, 4))),
                wrong_checkpoint(header, arrays))


DOORS: dict[str, Callable[[], Door]] = {
    "samples": lambda: _samples(False), "packed-samples": lambda: _samples(True), "checkpoint": _checkpoint,
    "network": _networks, "array": _arrays, "plan-yaml": lambda: _plans(".yaml"), "plan-json": lambda: _plans(".json"),
    "parts": _parts, "onnx": _onnx, "sparse-layer": _layers, "patterns": _patterns,
    "projection": _projection,
}


@dataclass
class Tally:
    """How many files were read and refused."""

    read: int = 0
    refused: int = 0

    def count(self, door: Door, content: Any, path: Path) -> None:
        """Hand one file, or plain data, to a door."""
        signal.alarm(PATIENCE)
        try:
            if isinstance(content, bytes):
                path.write_bytes(content)
                door.read(path)
            else:
                assert door.read_piece is not None
                door.read_piece(content)
            self.read += 1
        except UserError as error:
            text_of(error)
            self.refused += 1
        finally:
            signal.alarm(0)


def campaign(name: str, start: int, byte_cases: int, piece_cases: int, folder: Path) -> Tally:
    """Good files, files with bytes changed, and files of pieces; a failure names the case and keeps the file."""
    door, tally = DOORS[name](), Tally()
    path = folder / f"case{door.suffix}"
    for content in door.good:
        tally.count(door, content, path)
    assert not tally.refused, f"{name}: a good file is refused"
    for case in range(start, start + byte_cases):
        generator = np.random.default_rng([case, zlib.crc32(name.encode())])
        original, other = door.good[case % len(door.good)], door.good[(case + 1) % len(door.good)]
        content = mutated(generator, original, other, door.text)
        try:
            tally.count(door, content, path)
        except Exception as error:
            raise AssertionError(f"{name}: case {case} of bytes, {path}: {error!r}") from error
    if door.pieces is not None and piece_cases:
        @seed(start)
        @settings(max_examples=piece_cases, database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
                  suppress_health_check=list(HealthCheck))
        @given(door.pieces)
        def check(content: Any) -> None:
            tally.count(door, content, path)

        check()
    return tally


@contextmanager
def little_memory(room: int = ROOM) -> Iterator[None]:
    """Within, the address space of this process cannot grow by more than ``room`` bytes."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + room, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def main(arguments: list[str]) -> None:
    """A campaign under limits."""
    name, *numbers = arguments
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as folder:
        campaign(name, 0, 1, 1, Path(folder))  # what is loaded at first use
        with little_memory():
            tally = campaign(name, *map(int, numbers), Path(folder))
    print(json.dumps({"door": name, "read": tally.read, "refused": tally.refused}))


if __name__ == "__main__":
    main(sys.argv[1:])
