"""The three calls around a loop for one device: the loops of the docs on one and on several workers, and what is
refused."""

import copy
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from difflib import ndiff
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.lookups import frequent_words, language_model
from tests.support.ranks import PATIENCE

import plinth
from plinth.files.forms import described
from plinth.host import mpi_launcher
from plinth.network.file import network_to_yaml
from plinth.runtime.mpi_messages import LEFT_SECONDS, MpiMessages
from plinth.workers import group
from plinth.workers.network_trainer import Trainer

DOCS = Path(__file__).parents[2] / "docs" / "workers.md"
#: Loops of the docs: for one device, and for several.
LOOPS = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


def written(folder: Path) -> None:
    """The network and the samples of the docs' loops."""
    network = language_model(rows=40, width=16, words=4, hidden=32, classes=10)
    (folder / "words.yaml").write_text(network_to_yaml(network))
    data = frequent_words(network, 96, np.random.default_rng(0))
    np.savez(folder / "words.npz", x=data.train_x, y=data.train_y)


def sized(loop: str, size: int) -> str:
    """A loop with so many samples a step."""
    assert loop.count("\nsize = 32\n") == 1
    return loop.replace("\nsize = 32\n", f"\nsize = {size}\n")


def curve(folder: Path, loop: str, workers: int, batch: int) -> list[float]:
    """Means over workers of the losses that a loop prints."""
    path = folder / f"loop{workers}.py"
    path.write_text(sized(loop, batch // workers))
    launcher = [mpi_launcher(), "-n", str(workers)] if workers > 1 else []
    run = subprocess.run([*launcher, sys.executable, str(path)], cwd=folder, capture_output=True, text=True,
                         timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    # What workers print comes in any order, lines within lines.
    losses = [float(loss) for loss in re.findall(r"\d+\.\d{6}", run.stdout)]
    assert len(losses) == workers * (96 // batch)
    return losses


@pytest.mark.parametrize("first", [0, pytest.param(2, marks=needs_torch)])
def test_the_calls_add_few_lines(first: int) -> None:
    one, several = (loop.splitlines() for loop in LOOPS[first:first + 2])
    added = [line for line in ndiff([line.strip() for line in one], [line.strip() for line in several])
             if line.startswith("+ ")]
    assert len(several) - len(one) <= 5 and 3 <= len(added) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_a_trainer_has_the_curve_of_one_device(workers: int, tmp_path: Path) -> None:
    written(tmp_path)
    alone = curve(tmp_path, LOOPS[0], 1, 24)
    together = curve(tmp_path, LOOPS[1], workers, 24)
    # Each worker prints the loss over all samples.
    np.testing.assert_allclose(sorted(together), sorted(alone * workers), atol=2e-6)


@needs_torch
@pytest.mark.slow
def test_a_module_has_the_curve_of_one_device(tmp_path: Path) -> None:
    written(tmp_path)
    alone = curve(tmp_path, LOOPS[2], 1, 24)
    together = curve(tmp_path, LOOPS[3], 2, 24)
    assert np.mean(together) == pytest.approx(np.mean(alone), abs=2e-6)


#: Steps touch even and odd rows in turn, so that owners of two pieces have no rows every other step, and a layer is
#: never used; the first argument is the optimizer.
ALTERNATING = """
import sys
import numpy as np
import plinth
import torch
from torch import nn

generator = np.random.default_rng(1)
x = torch.from_numpy(np.concatenate([2 * generator.integers(0, 4, (12, 3)) + step % 2 for step in range(8)]))
x, y = plinth.shard((x, torch.from_numpy(generator.integers(0, 3, 96))))
torch.manual_seed(0)
with plinth.partitioner(2):
    table = nn.Embedding(8, 5, sparse=True)
model = nn.ModuleList([table, nn.Linear(15, 3), nn.Linear(4, 4)])
optimizer = eval(sys.argv[1])
runner = plinth.get_runner(model, optimizer) if len(sys.argv) > 2 else None
size = 12 * len(y) // 96
for first in range(0, len(y), size):
    rows = table(input=x[first:first + size]).flatten(1)
    nn.functional.cross_entropy(model[1](rows), y[first:first + size]).backward()
    optimizer.step() if runner is None else runner.step()
    model.zero_grad()
if runner is not None:
    runner.refresh()
print("".join(f"<{' '.join(f'{value:.5f}' for value in weight.flatten().tolist())}>" for weight in model.parameters()))
"""


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("optimizer", [
    "torch.optim.SGD([*table.parameters(), *model[2].parameters()], lr=0.3, momentum=0.9)",
    "torch.optim.Adagrad(table.parameters(), lr=0.1, lr_decay=0.5)",
    "torch.optim.SparseAdam(table.parameters(), lr=0.1)"])
def test_states_go_on_where_no_own_row_is_touched(optimizer: str, tmp_path: Path) -> None:
    def weights(*command: str) -> list[list[float]]:
        run = subprocess.run([*command], capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        return [[float(value) for value in found.split()] for found in re.findall("<(.*?)>", run.stdout)]

    (tmp_path / "loop.py").write_text(ALTERNATING)
    alone = weights(sys.executable, "loop.py", optimizer)
    together = weights(mpi_launcher(), "-n", "2", sys.executable, "loop.py", optimizer, "shared")
    assert len(alone) == 5 and len(together) == 10
    for weight in weights(sys.executable, "loop.py", optimizer, "shared"), together[:5], together[5:]:
        assert len(weight[0]) == 40
        for found, wanted in zip(weight, alone, strict=True):
            np.testing.assert_allclose(found, wanted, atol=2e-5)


#: What each worker gives otherwise than the other, and what is said.
UNLIKE = {"plinth.get_runner(trainer, copies=('rings', 'servers')[own])": "have other copies, 'rings' and 'servers'",
          "plinth.get_runner(plinth.trainer('words.yaml', rate=1 + own))": "have other variables, or pieces of tables",
          "plinth.get_runner(trainer, touched=(0.5, 0.25)[own])": "have other touched, '0.5' and '0.25'"}


@pytest.mark.slow
def test_workers_that_are_not_alike_are_refused(tmp_path: Path) -> None:
    written(tmp_path)
    # A file each: lines that workers print meet.
    loop = ("import plinth\nfrom plinth.workers.group import rank_and_size\nown, _ = rank_and_size()\n"
            "said = open(f'said{own}', 'w')\n")
    for number, call in enumerate(UNLIKE):
        loop += (f"trainer = plinth.trainer('words.yaml', rate=0.5)\ntry:\n    {call}\n"
                 f"except plinth.Error as error:\n    print({number}, error, file=said)\n")
    (tmp_path / "loop.py").write_text(loop)
    run = subprocess.run([mpi_launcher(), "-n", "2", sys.executable, "loop.py"], cwd=tmp_path, capture_output=True,
                         text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    # Each names the other first.
    said = (tmp_path / "said1").read_text()
    for number, what in enumerate(UNLIKE.values()):
        assert f"{number} workers 0 and 1 {what}" in said


def test_a_rank_that_has_left_is_not_waited_for_without_end() -> None:
    """Messages of one that has left may be on their way for a while."""
    messages = object.__new__(MpiMessages)
    messages._transport, messages._patience = SimpleNamespace(endings={2: None}), 120  # type: ignore[assignment]
    messages._look(LEFT_SECONDS - 1)
    with pytest.raises(plinth.Error, match="rank 2 has ended, with no error, and nothing has come from others"):
        messages._look(LEFT_SECONDS + 1)
    messages._transport = SimpleNamespace(endings={2: "out of memory"})  # type: ignore[assignment]
    with pytest.raises(plinth.Error, match="rank 2 has ended with an error: out of memory"):
        messages._look(0)


#: How a worker ends that owns rows, and what the others, or the launcher, say of it: that kills all when one has ended,
#: and then names the one whose end it happens to hear of first.
ENDS = {"raise ValueError('out of samples')": "rank 1 has ended with an error: ValueError: out of samples",
        "os.kill(os.getpid(), 9)": "(signal 9)"}


@pytest.mark.slow
@pytest.mark.parametrize(("ends", "said"), ENDS.items(), ids=["raises", "is killed"])
def test_all_end_when_one_does(ends: str, said: str, tmp_path: Path) -> None:
    """An owner that ends in the middle of a run is named, and nobody waits for its rows; a checkpoint stays whole."""
    written(tmp_path)
    before, loop, behind = LOOPS[1].partition("    loss = trainer.step")
    marked = f"    if first == 16 and trainer._workers.own == 1:\n        import os\n        {ends}\n"
    save = "    if trainer._workers.own == 0:\n        np.savez('saved.npz', first=first)\n"
    (tmp_path / "loop.py").write_text(sized(f"{before}{marked}{loop}{behind}{save}", 8))
    run = subprocess.run([mpi_launcher(), "-n", "2", sys.executable, "loop.py"], cwd=tmp_path, capture_output=True,
                         text=True, timeout=PATIENCE)
    assert run.returncode != 0
    assert said in run.stdout + run.stderr
    with np.load(tmp_path / "saved.npz") as saved:
        assert saved["first"] == 8


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["torch.optim.SGD(model.parameters(), lr=0.5)",
                                       "torch.optim.Adagrad(model.parameters(), lr=0.1)"])
def test_a_module_learns_at_its_own_pace(optimizer: str, tmp_path: Path) -> None:
    """Losses fall, and behind the last step all workers have the same values, with all updates."""
    written(tmp_path)
    loop = LOOPS[3].replace("get_runner(model, optimizer)", "get_runner(model, optimizer, staleness=2)").replace(
        "torch.optim.Adagrad(model.parameters(), lr=0.1)", optimizer).replace(
            "for first", "x, y = x.repeat(8, 1), y.repeat(8)\nfor first")
    assert optimizer in loop and "staleness" in loop
    loop += """
runner.refresh()
total = sum(parameter.double().sum().item() for parameter in model.parameters())
stale = runner.staleness()
print(f"END {total:.9f} {len(stale)} {max(stale)} {runner.sent()['values'] > 0} END")
"""
    (tmp_path / "loop.py").write_text(sized(loop, 8))
    run = subprocess.run([mpi_launcher(), "-n", "3", sys.executable, "loop.py"], cwd=tmp_path, capture_output=True,
                         text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    ends = re.findall(r"END (\S+) (\d+) (\d+) True END", run.stdout)
    assert len(ends) == 3 and len({total for total, _, _ in ends}) == 1
    # Of three workers each has done 32 steps, and is two ahead at most.
    assert all(0 < int(updates) <= 96 and int(stale) <= 2 * 5 for _, updates, stale in ends)
    losses = [float(loss) for loss in re.findall(r"^(\d+\.\d{6})$", run.stdout, re.MULTILINE)]
    assert np.mean(losses[-12:]) < 0.7 * np.mean(losses[:12])


@pytest.mark.parametrize(("samples", "worker", "wanted"), [
    (list(range(7)), 0, [0, 2, 4]), (list(range(7)), 1, [1, 3, 5]),
    ((list("abcd"), range(4)), 1, (["b", "d"], [1, 3])),
    ({"x": "abcdef"}, 1, {"x": "bdf"})])
def test_each_worker_has_as_many_samples(samples: Any, worker: int, wanted: Any,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "rank_and_size", lambda: (worker, 2))
    part = plinth.shard(samples)
    if isinstance(part, tuple):
        part = tuple(map(list, part))
    assert part == wanted


def test_samples_without_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "rank_and_size", lambda: (1, 3))
    assert list(islice(plinth.shard(iter(range(20))), 3)) == [1, 4, 7]

    class Source:
        def __iter__(self) -> Iterator[int]:
            return iter(range(11))

    # Each epoch anew; of what is left nobody has more than another.
    shared = plinth.shard(Source())
    assert [list(shared), list(shared)] == [[1, 4, 7]] * 2
    array = np.arange(10).reshape(5, 2)
    np.testing.assert_array_equal(plinth.shard(array), array[1:3:3])


class Pair(NamedTuple):
    x: list[int]
    y: list[int]


def test_a_named_tuple_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "rank_and_size", lambda: (1, 2))
    shared = plinth.shard(Pair([1, 2, 3, 4], [5, 6, 7, 8]))
    assert (shared.x, shared.y) == ([2, 4], [6, 8])


@pytest.mark.parametrize("samples", [None, 5, np.float32(3), np.zeros(()), {1, 2, 3}], ids=repr)
def test_what_has_no_samples_is_refused(samples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "rank_and_size", lambda: (1, 2))
    assert "samples must be an array, a sequence, a tuple or dict of these, a dataset, or an iterable" in refusal(
        lambda: plinth.shard(samples))


def test_one_worker_has_all_samples() -> None:
    samples = object()
    assert plinth.shard(samples) is samples


def test_samples_that_cannot_be_shared_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "rank_and_size", lambda: (0, 3))
    with pytest.raises(plinth.Error, match="2 samples cannot be shared by 3 workers; give each at least one"):
        plinth.shard([1, 2])
    with pytest.raises(plinth.Error, match="samples have parts of 3, 4; give parts of one length"):
        plinth.shard((np.zeros(3), np.zeros(4)))


def test_a_trainer_alone() -> None:
    """Its steps are those of a numpy run, and a runner of one worker is itself."""
    network = language_model(rows=12, words=4)
    data = frequent_words(network, 40, np.random.default_rng(2))
    with plinth.partitioner(3):
        trainer = plinth.trainer(network, rate=0.1, update="momentum", momentum=0.5)
    assert trainer.pieces == {"table": 3} and plinth.trainer(network).pieces == {}
    assert plinth.get_runner(trainer) is trainer and trainer.ways == {"table": "rings"}
    before = trainer.parameters()
    losses = [trainer.step(data.train_x[:20], data.train_y[:20]) for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and trainer.planned_words() == 0
    assert trainer.touched() == {"table": len(np.unique(data.train_x[:20])) / 12}
    others = sum(values.size for name, values in before.items() if name != "table.weights")
    table = before["table.weights"].size
    assert trainer.alpha() == pytest.approx((others + trainer.touched()["table"] * table) / (others + table))
    assert trainer.notes == ("table: rings, as nothing moves between machines",)
    assert not np.array_equal(trainer.parameters()["table.weights"], before["table.weights"])


def test_row_numbers_of_a_worker_that_are_none_are_said_to_be_its() -> None:
    """Each worker has the samples of all, one behind the other."""

    class Two(group.Single):
        size = 2

        def told(self, value: Any) -> list[Any]:
            return [value, ([[0, 1, 2, 3], [0, 12, 0, 0]], [0, 1])]

    trainer = plinth.get_runner(plinth.trainer(language_model(rows=12)))
    trainer._workers = Two()
    assert ("x of worker 1, for table 'table', must be row numbers from 0 to 11, not 12, which stands at position 1 "
            "of sample 1 of the batch") in refusal(lambda: trainer.step([[0] * 4] * 2, [0, 1]))


def refusal(act: Any) -> str:
    with pytest.raises(plinth.Error) as error:
        act()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_cannot_be_is_refused() -> None:
    network = language_model(rows=12)
    trainer = plinth.trainer(network)
    assert "model must be a trainer of plinth.trainer, or a module of PyTorch, not 3" in refusal(
        lambda: plinth.get_runner(3))
    assert "a trainer has its own update rule; leave out optimizer" in refusal(
        lambda: plinth.get_runner(trainer, "adam"))
    assert "the model has no table 'tables'; it has table" in refusal(
        lambda: plinth.get_runner(trainer, copies={"tables": "rings"}))
    for options in ({"staleness": 1}, {"search_steps": 2}, {"average": False}, {"local_aggregation": False},
                    {"resources": [[0]]}):
        assert f"a trainer's workers are dies, which update together; leave out {next(iter(options))}" in refusal(
            lambda options=options: plinth.get_runner(trainer, **options))
    assert "the model has no table 'u'; it has table" in refusal(
        lambda: plinth.get_runner(trainer, touched={"u": 0.5}))
    assert "as many samples as targets, at least one, not x of shape (1, 4) and y of shape (2,)" in refusal(
        lambda: trainer.step([[0] * 4], [1, 2]))
    assert "not x of shape () and y of shape ()" in refusal(lambda: trainer.step(5, 3))
    assert "row numbers from 0 to 11, not 0.5" in refusal(lambda: trainer.step([[0, 0.5, 0, 0]], [0]))
    assert "input must be row numbers from 0 to 11, not 12, which stands at position 1 of sample 0" in refusal(
        lambda: trainer.step([[0, 12, 0, 0]], [0]))
    assert "y must be class numbers from 0 to 9, one a sample" in refusal(lambda: trainer.step([[0] * 4], [10]))
    trainer.step([[0] * 4], [1])
    assert "a batch has 2 samples, those before had 1; give every step as many" in refusal(
        lambda: trainer.step([[0] * 4] * 2, [1, 2]))
    assert "workers are joined before the first step; call get_runner before the loop" in refusal(
        lambda: plinth.get_runner(trainer))
    assert isinstance(trainer, Trainer)
    with plinth.partitioner(13):
        assert "table 'table' has 12 rows, and cannot be cut in 13 pieces; give at most as many pieces as rows" in (
            refusal(lambda: plinth.trainer(network)))


#: Calls by the arguments that they are given, and of some arguments how a refusal begins, with values that are refused.
CALLS: dict[str, tuple[Any, list[tuple[list[str], str, list[Any]]]]] = {
    "trainer": (lambda options: plinth.trainer(**{"network": language_model(rows=12), **options}), [
        (["rate", "momentum", "epsilon"], "a finite number", [True, "x", [], float("nan"), 10**400]),
        (["seed"], f"an integer from 0 to {2**63 - 1}", [None, True, "x", 0.5, -1, 2**63]),
        (["update"], "one of 'sgd', 'momentum', ", [None, True, "adam", 3, ["sgd"]]),
        (["network"], "a name, a path, or an object of the library", [True, 3, b"x", ["words"]])]),
    "partitioner": (lambda options: plinth.partitioner(**options).__enter__(), [
        (["pieces"], "an integer from 1 to 1024", [True, "2", 0.5, 0, 1025, [2]])]),
    "get_runner": (lambda options: plinth.get_runner(**{"model": plinth.trainer(language_model(rows=12)), **options}), [
        (["model"], "a trainer of plinth.trainer, or a module of PyTorch", [None, 3, "words", Trainer]),
        (["copies"], "one of 'auto', 'rings', ", [None, True, "server", 3, ["rings"]]),
        (["touched", "dense_from"], "a finite number from 0 to 1", [True, "x", -1, 1.5, float("nan"), [0.5], b"0.5"]),
        (["local_aggregation", "average"], "True or False", [None, 1, 0, "no", []]),
        (["search_steps", "staleness"], "an integer from 0 to 1048576", [None, True, "2", 0.5, -1, [1]])])}


@pytest.mark.parametrize(("call", "name", "wanted", "value"), [
    (call, name, wanted, value) for call, (_, cases) in CALLS.items() for names, wanted, values in cases
    for name in names for value in values],
    ids=lambda value: repr(value)[:20])
def test_arguments_of_a_wrong_kind_are_refused(call: str, name: str, wanted: str, value: Any) -> None:
    """One line names the argument, what it has to be, and what was given."""
    said = refusal(lambda: CALLS[call][0]({name: value}))
    assert said.startswith(f"{name} must be {wanted}")
    assert said.partition(", not ")[2][:12] in (repr(value)[:12], described(value)[:12])


def test_values_of_a_wrong_kind_for_one_table_are_refused() -> None:
    trainer = plinth.trainer(language_model(rows=12))
    for way in (3, ["rings"], None):
        assert "copies of table 'table' are kept equal by one of auto, rings, " in refusal(
            lambda way=way: plinth.get_runner(trainer, copies={"table": way}))
    assert "touched must be a finite number from 0 to 1, not 'x'" in refusal(
        lambda: plinth.get_runner(trainer, touched={"table": "x"}))


@needs_torch
@pytest.mark.parametrize("value", [True, 3, b"x", {"machines": [[0]]}, np.zeros((1, 1)), "", "a\0b", [["0"]], [[0.0]]],
                         ids=repr)
def test_resources_of_a_wrong_kind_are_refused(value: Any) -> None:
    import torch

    module = torch.nn.Linear(2, 3)
    said = refusal(lambda: plinth.get_runner(module, torch.optim.SGD(module.parameters(), lr=0.1), resources=value))
    assert said.startswith("resources")


#: In how many pieces embeddings are cut, of contexts that are entered before PyTorch is loaded.
LATE = """
import plinth
with plinth.partitioner(3):
    with plinth.partitioner(2):
        import torch
        made = [torch.nn.Embedding(8, 5, sparse=True)]
    made.append(torch.nn.Embedding(8, 5, sparse=True))
    with plinth.partitioner():
        made.append(torch.nn.Embedding(8, 5, sparse=True))
    made.append(torch.nn.Embedding(8, 5, sparse=True))
    module = torch.nn.Sequential(*made)
    runner = plinth.get_runner(module, torch.optim.SGD(module.parameters(), lr=0.1))
    made.append(torch.nn.Embedding(8, 5, sparse=True))
made.append(torch.nn.Embedding(8, 5, sparse=True))
from plinth.workers.torch_module import tables_of
print([table.pieces for table in runner._tables])
print([table.pieces for table in tables_of(torch.nn.Sequential(*made), 5)[1]])
"""


@needs_torch
def test_a_context_that_is_entered_before_pytorch_is_loaded_cuts() -> None:
    run = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "[2, 3, 1, 3]\n[2, 3, 5, 3, 3, 1]\n"


@needs_torch
def test_copies_of_what_is_cut_are_cut() -> None:
    import torch
    from torch import nn

    with plinth.partitioner(2):
        inner = nn.Embedding(8, 5, sparse=True)
    with plinth.partitioner(3):
        module = nn.Sequential(inner, nn.Sequential(nn.Embedding(8, 5, sparse=True)))
    module.append(nn.Embedding(8, 5, sparse=True))
    for made in (module, copy.copy(module), copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        runner: Any = plinth.get_runner(made, torch.optim.SGD(made.parameters(), lr=0.1))
        assert [table.pieces for table in runner._tables] == [2, 3, 1]


@needs_torch
@pytest.mark.parametrize(("looks", "said"), [
    ("table.weight[x]", "embedding '0.weight' has a gradient of all rows, as the step uses its weight in another way"),
    ("table.weight.index_select(0, x)", "embedding '0.weight' has a gradient of all rows"),
    ("table(x) + table.weight.sum()", "embedding '0.weight' has a gradient of all rows"),
    ("functional.embedding(x, table.weight, sparse=True)", "embedding '0.weight' has gradients of rows that no call")])
def test_other_uses_of_weights_than_calls_are_refused(looks: str, said: str) -> None:
    import torch
    from torch import nn

    table = nn.Embedding(5, 4, sparse=True)
    module = nn.Sequential(table)
    runner = plinth.get_runner(module, torch.optim.SGD(module.parameters(), lr=0.1))
    eval(looks, {"table": table, "functional": nn.functional, "x": torch.tensor([1, 3])}).sum().backward()
    assert said in refusal(runner.step)


@needs_torch
def test_rows_of_parameters_that_cannot_be_gathered_are_refused() -> None:
    import torch
    from torch import nn

    from plinth.workers.torch_module import ModuleVariables

    module, x = nn.ParameterDict({"w": nn.Parameter(torch.ones(5, 4)), "b": nn.Parameter(torch.ones(5))}), [1, 3]

    def step(rule: str = "SGD", copies: Any = "auto", **options: Any) -> Any:
        runner: Any = plinth.get_runner(module, getattr(torch.optim, rule)(
            module.parameters(), lr=0.1, **options), copies=copies)
        module.zero_grad()
        nn.functional.embedding(torch.tensor(x), module["w"], sparse=True).sum().backward()
        return runner.step

    for copies, asked in ({"w": "rings"}, "rings"), ("rings", "rings"), ("servers", "servers"):
        assert (f"parameter 'w' has gradients of rows, which all workers gather, and copies of {asked} were asked for; "
                "give copies={'w': 'gathered'}, or look it up without sparse=True") == refusal(step(copies=copies))
    assert "parameter 'w' is no embedding, and has no rows that servers could be asked for before a step" in refusal(
        lambda: step(copies={"w": "servers"}))
    assert refusal(lambda: step(copies={"b": "gathered"})) == (
        "the model has no table 'b'; it has none, and matrices w")
    assert "copies of table 'w' are kept equal by one of auto, rings, " in refusal(
        lambda: step(copies={"w": ["rings"]}))
    assert "Adam needs gradients of all rows, and parameter 'w' has those of rows that are looked up" in refusal(
        step("Adam"))
    assert "weight_decay changes all rows in each step, and parameter 'w' has gradients of rows" in refusal(
        step(weight_decay=0.1))
    # With staleness.
    said = refusal(lambda: ModuleVariables(module, 1).dense_gradients(np.float32(1)))
    assert said == ("parameter 'w' has gradients of rows, which workers that do not wait for each other have of "
                    "torch.nn.Embedding alone; make it one with sparse=True, look it up without sparse=True, or leave "
                    "out staleness")
    train = step()
    module["b"].grad = torch.ones(5).to_sparse()
    assert "parameter 'b' has a sparse gradient of shape (5,) that is not one of rows of a matrix" in refusal(train)
    module["b"].grad = None
    train()


#: A loop whose module reads rows of two matrices of its own, each in another way; its argument says how many workers.
INDEXED = """
import sys
import numpy as np
import plinth
import torch
from torch import nn

generator = np.random.default_rng(1)
x, y = plinth.shard(tuple(torch.from_numpy(generator.integers(0, most, 96)) for most in (50, 3)))
torch.manual_seed(0)
module = nn.ParameterDict({name: nn.Parameter(torch.randn(50, 3)) for name in ("named", "read")})
optimizer = torch.optim.Adagrad(module.parameters(), lr=0.1)
runner = plinth.get_runner(module, optimizer)
size = len(y) // 8
for first in range(0, len(y), size):
    rows = x[first:first + size]
    values = nn.functional.embedding(rows, module["named"], sparse=True) * module["read"][rows]
    nn.functional.cross_entropy(values, y[first:first + size]).backward()
    runner.step()
assert runner.ways == dict.fromkeys(("named", "read"), "gathered") or int(sys.argv[1]) == 1, runner.ways
print("".join(f"<{' '.join(f'{value:.5f}' for value in weight.flatten().tolist())}>" for weight in module.parameters()))
"""


@needs_torch
@pytest.mark.slow
def test_rows_that_are_read_by_number_have_the_values_of_one_device(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(INDEXED)

    def values(workers: int) -> Any:
        run = subprocess.run([mpi_launcher(), "-n", str(workers), sys.executable, "loop.py", str(workers)],
                             capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        return np.array([found.split() for found in re.findall("<(.*?)>", run.stdout)], float)

    np.testing.assert_allclose(values(3), np.tile(values(1), (3, 1)), atol=2e-5)


@needs_torch
def test_modules_that_cannot_be_shared_are_refused() -> None:
    import torch
    from torch import nn

    def runner(*parts: Any) -> Any:
        module = nn.Sequential(*parts)
        return lambda: plinth.get_runner(module, torch.optim.SGD(module.parameters(), lr=0.1))

    table = nn.Embedding(5, 4, sparse=True)
    tied = nn.Linear(4, 5)
    tied.weight = table.weight
    assert "embedding bag '0' is sparse" in refusal(runner(nn.EmbeddingBag(5, 4, sparse=True, mode="sum")))
    assert "embedding '0' has max_norm" in refusal(runner(nn.Embedding(5, 4, sparse=True, max_norm=1.0)))
    assert "embedding '0' has scale_grad_by_freq" in refusal(
        runner(nn.Embedding(5, 4, sparse=True, scale_grad_by_freq=True)))
    assert "embedding '0' is torch.float64 on cpu" in refusal(runner(nn.Embedding(5, 4, sparse=True).double()))
    assert "parameter '1.weight' is torch.float64" in refusal(runner(table, nn.Linear(4, 2).double()))
    assert "weight '1.weight' is that of sparse embedding '0.weight' too" in refusal(runner(table, tied))
    module = nn.Sequential(table, nn.Linear(4, 2))
    assert "a module needs the optimizer that its loop updates with" in refusal(lambda: plinth.get_runner(module))
    assert "optimizer must be one of PyTorch, over the module's parameters, not the text 'sgd'" in refusal(
        lambda: plinth.get_runner(module, "sgd"))
    assert "optimizer has 2 parameters that are not the module's" in refusal(
        lambda: plinth.get_runner(module, torch.optim.SGD(nn.Linear(2, 3).parameters(), lr=0.1)))
    assert "resources: a worker of a machine is a number from 0 to 0, not 1" in refusal(
        lambda: plinth.get_runner(module, torch.optim.SGD(module.parameters(), lr=0.1), resources=[[0, 1]]))
    with plinth.partitioner(6):
        cut = nn.Embedding(5, 4, sparse=True)
    assert "an embedding of 5 rows cannot be cut in 6 pieces" in refusal(runner(cut))
    for options in ({"resources": [[0]]}, {"copies": "rings"}, {"search_steps": 3}, {"dense_from": 0.5}):
        assert f"whoever it shares a machine with; leave out {next(iter(options))}" in refusal(
            lambda options=options: plinth.get_runner(module, torch.optim.SGD(module.parameters(), lr=0.1),
                                                      staleness=2, **options))
    shared = plinth.get_runner(module, torch.optim.SGD(module.parameters(), lr=0.1))
    assert "has rows 0 to 4, not 7, which stands at [1, 0] of what it looks up" in refusal(
        lambda: module(torch.tensor([[0], [7]])))
    assert shared.touched() == {"0.weight": 0}
    module(torch.tensor([[1]]))
    # A table of 5 x 4, and what stands behind it.
    dense = sum(parameter.numel() for parameter in module.parameters()) - 20
    assert shared.alpha() == pytest.approx((dense + 4) / (dense + 20))
    assert shared.touched() == {"0.weight": 1 / 5} and shared.notes == (
        "0.weight: rings, as nothing moves between machines",)
    # Rules that change all rows, which PyTorch says at the first update, in many lines.
    def ruled(kind: str, **options: Any) -> Any:
        rule = getattr(torch.optim, kind)(module.parameters(), lr=0.1, **options)
        return lambda: plinth.get_runner(module, rule)

    for kind in ("Adam", "AdamW", "RMSprop", "Rprop", "Adadelta"):
        assert f"{kind} needs gradients of all rows, and sparse embedding '0' has those of rows that are looked up" in (
            refusal(ruled(kind)))
    for kind in ("SGD", "Adagrad"):
        assert "weight_decay changes all rows in each step, and sparse embedding '0' has gradients of rows" in refusal(
            ruled(kind, weight_decay=0.1))
    for norm in (0, -1, float("nan"), "1"):
        assert "a norm to clip to is a positive number" in refusal(lambda norm=norm: shared.clip(norm))
    assert "is looked up twice in a step" in refusal(lambda: module(torch.tensor([[2]])))
    assert shared.ways == {"0.weight": "rings"}
