"""Matrices of a module that are no embeddings, and whose rows a step reads by number: workers have the parameters of
one device, and send the rows that they touch."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.worker_threads import in_threads

from plinth.errors import UserError
from plinth.names import AUTO_COPIES, GATHERED_ROWS, RINGS, SERVERS
from plinth.partition.row_costs import VariableLoad, machine_words
from plinth.workers.group import Single
from plinth.workers.indexed import IndexedMatrices, SparseGradient, touched_rows, whole
from plinth.workers.machines import Machines, machines_of
from plinth.workers.runner import TableSettings

ROWS, WIDTH, BATCH, STEPS = 60, 4, 12, 7
#: How a step reads rows of the matrix, and whether autograd gives a sparse gradient then.
READS = {"functional.embedding(x, self.rows, sparse=True)": True, "self.rows[x]": False,
         "self.rows.index_select(0, x.flatten()).reshape(*x.shape, -1)": False}
#: Steps that do not read the matrix, and the first one that does.
UNREAD, FOUND = (0, 3), 1


def batch(step: int, part: int = 0, parts: int = 1) -> Any:
    """A part of the row numbers of a step, of which two are never read, and of classes."""
    import torch

    generator = np.random.default_rng(step)
    samples = torch.from_numpy(generator.integers(0, ROWS - 2, (BATCH, 2))), torch.from_numpy(
        generator.integers(0, 3, BATCH))
    return [of_all[part::parts] for of_all in samples]


def reader(read: str) -> Any:
    """A module with a matrix that a step reads in some way, an embedding, and a dense layer."""
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            generator = torch.Generator().manual_seed(3)
            self.rows = nn.Parameter(torch.randn(ROWS, WIDTH, generator=generator))
            self.table, self.out = nn.Embedding(ROWS, WIDTH, sparse=True), nn.Linear(2 * WIDTH, 3)
            for weight in (self.table.weight, self.out.weight, self.out.bias):
                nn.init.normal_(weight, generator=generator)

        def forward(self, x: Any, step: int) -> Any:
            names = {"functional": nn.functional, "self": self, "x": x, "step": step}
            return self.out((self.table(x) + (0 if step in UNREAD else eval(read, names))).flatten(1))

    return Reader()


def loop(module: Any, update: Callable[[], object], part: int = 0, parts: int = 1, steps: int = STEPS) -> None:
    """Train as on one device."""
    from torch import nn

    for step in range(steps):
        x, y = batch(step, part, parts)
        nn.functional.cross_entropy(module(x, step), y).backward()
        update()
        module.zero_grad()


def values(module: Any) -> dict[str, Any]:
    return {name: parameter.detach().numpy().copy() for name, parameter in module.named_parameters()}


def alone(first: Any, rule: Callable[[Any], Any]) -> Any:
    module = copy.deepcopy(first)
    optimizer = rule(module)
    loop(module, optimizer.step)
    return values(module)


def together(first: Any, rule: Callable[[Any], Any], workers: int, **options: Any) -> list[Any]:
    """What each worker has behind the last step: its runner, and its values."""
    from plinth.workers.torch_runner import TorchRunner

    def work(own: Any) -> Any:
        module = copy.deepcopy(first)
        runner = TorchRunner(module, rule(module), own, machines_of(None, workers, []), **{
            "ways": AUTO_COPIES, **options})
        loop(module, runner.step, own.own, workers)
        runner.refresh()
        return runner, values(module)

    return in_threads(workers, work) if workers > 1 else [work(Single())]


def read_rows(step: int, part: int, parts: int) -> int:
    return 0 if step in UNREAD else len(np.unique(batch(step, part, parts)[0].numpy()))


RULES: dict[str, Callable[[Any, Any], Any]] = {
    "sgd": lambda optim, module: optim.SGD(module.parameters(), lr=0.3),
    "momentum": lambda optim, module: optim.SGD(module.parameters(), lr=0.1, momentum=0.9),
    "adagrad": lambda optim, module: optim.Adagrad(module.parameters(), lr=0.2),
    "sparse": lambda optim, module: optim.SparseAdam([module.rows, module.table.weight], lr=0.1)}


def ruled(rule: str) -> Callable[[Any], Any]:
    return lambda module: RULES[rule](pytest.importorskip("torch").optim, module)


def in_steps(read: str, rule: str, workers: int, **options: Any) -> list[Any]:
    """The runner of each worker, behind the last step, where they have the parameters of one device."""
    first = reader(read)
    wanted = alone(first, ruled(rule))
    outcomes = together(first, ruled(rule), workers, **options)
    for _, found in outcomes:
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, atol=2e-6)
    return [runner for runner, _ in outcomes]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("rule", ["sgd", "momentum", "adagrad"])
@pytest.mark.parametrize("read", READS, ids=["embedding", "index", "index_select"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_have_the_parameters_of_one_device(read: str, rule: str, workers: int, named: bool) -> None:
    """Whether the matrix is found or named; the rows that are touched move, and no others."""
    runners = in_steps(read, rule, workers, ways={"rows": GATHERED_ROWS} if named else AUTO_COPIES)
    for own, runner in enumerate(runners if workers > 1 else []):
        assert runner.ways == {"table.weight": SERVERS, "rows": GATHERED_ROWS}
        # The step that finds the matrix has sent the whole gradient round the ring.
        counts = [read_rows(step, own, workers) for step in range(0 if named else FOUND + 1, STEPS)]
        traffic = runner.exchange.traffic["rows"].network
        assert traffic.values == sum(counts) * WIDTH * (workers - 1) == pytest.approx(sum(
            machine_words(GATHERED_ROWS, VariableLoad(ROWS * WIDTH, count / ROWS), workers) for count in counts))
        assert traffic.indices == (sum(counts) + len(counts)) * (workers - 1)
        assert runner.touched()["rows"] == pytest.approx(np.mean([
            read_rows(step, worker, workers) / ROWS for step in range(STEPS) if step not in UNREAD
            for worker in range(workers)]))
        note = next(line for line in runner.notes if line.startswith("rows "))
        assert ": gathered, " in note and " by rings" in note and "servers" not in note


def test_all_words_are_counted() -> None:
    """Those of the step that finds a matrix are too, which sends its whole gradient."""
    workers = 3
    found, named = (sum(runner.sent()["values"] for runner in in_steps("self.rows[x]", "sgd", workers, ways=ways))
                    for ways in (AUTO_COPIES, {"rows": GATHERED_ROWS}))
    first = sum(read_rows(FOUND, worker, workers) for worker in range(workers)) * WIDTH * (workers - 1)
    rings = (FOUND + 1) * machine_words(RINGS, VariableLoad(ROWS * WIDTH), workers) * workers
    assert found - named == rings - first


@pytest.mark.parametrize("named", [False, True])
def test_rows_whose_gradients_are_zero_are_rows(named: bool) -> None:
    """Autograd names them, and SparseAdam moves them."""
    read = "functional.embedding(x, self.rows, sparse=True) * (x[:, :1] > 20).unsqueeze(-1)"
    in_steps(read, "sparse", 2, ways={"rows": GATHERED_ROWS} if named else AUTO_COPIES)


@pytest.mark.parametrize("read", ["functional.embedding(x, self.rows, sparse=True)", "self.rows[x]"])
def test_gradients_that_turn_out_to_have_all_rows_go_round_the_ring(read: str) -> None:
    for runner in in_steps(f"{read} + (self.rows.mean() if step > 1 else 0)", "sgd", 3):
        assert runner.ways == {"table.weight": SERVERS}
        assert any(line.startswith("rows (") and ": rings, " in line for line in runner.notes)


def test_aggregated_gradients_are_those_of_one_device() -> None:
    """Sparse where all of a step are, whether they went round the ring or not; their norm, and what clips them."""
    read = "functional.embedding(x, self.rows, sparse=True) + (self.rows.sum() if step == 2 else 0)"
    torch = pytest.importorskip("torch")
    from plinth.workers.torch_runner import TorchRunner

    first = reader(read)

    def work(own: Any) -> Any:
        module = copy.deepcopy(first)
        runner = TorchRunner(module, ruled("sgd")(module), own, machines_of(None, own.size, []), ways=AUTO_COPIES)
        layouts, norms = [], []
        for step in range(STEPS):
            x, y = batch(step, own.own, own.size)
            torch.nn.functional.cross_entropy(module(x, step), y).backward()
            runner.aggregate()
            layouts.append(None if module.rows.grad is None else module.rows.grad.layout)
            norms.append(norm := runner.global_norm())
            if own.size == 1:
                assert norm == pytest.approx(np.sqrt(sum(float((parameter.grad.to_dense() ** 2).sum()) for parameter
                                                         in module.parameters() if parameter.grad is not None)))
            assert runner.clip(norm / 2) == norm
            assert runner.global_norm() == pytest.approx(norm / 2, rel=1e-5)
            runner.step()
        return layouts, norms

    rows, dense = torch.sparse_coo, torch.strided
    alone = work(Single())
    for layouts, norms in in_threads(2, work):
        assert layouts == alone[0] == [None, rows, dense, None, rows, rows, rows]
        assert norms == pytest.approx(alone[1], rel=1e-5)


MATRIX = TableSettings("w", (100, 8))
#: Four machines of one worker each, where gathered rows are fewer words than a ring if a worker touches less than half.
FOUR = Machines(((0,), (1,), (2,), (3,)))


def decided(matrices: IndexedMatrices, *steps: tuple[int, bool]) -> list[bool]:
    """Whether the matrix is gathered behind each step, of which the workers together touch so many rows, and have a
    dense gradient or not."""
    gathered = []
    for count, dense in steps:
        before = matrices.names
        sparse, changed = matrices.read({"w": True}, [count, float(dense)])
        assert sparse == ([] if dense else ["w"]) and changed == (matrices.names != before)
        gathered.append(bool(matrices.names))
    return gathered


def test_few_rows_make_a_matrix_gathered() -> None:
    """Once and for all: a gradient that is 0 tells nothing; gathered rows that are too many go back, for good."""
    def made(searched: Any = ("w",), ways: Any = AUTO_COPIES, **options: Any) -> IndexedMatrices:
        return IndexedMatrices([MATRIX], searched, FOUR, ways, **options)

    assert decided(made(), (0, True), (199, True), (200, True), (400, True), (4, True)) == [
        False, True, True, False, False]
    assert decided(made(), (200, True), (4, True)) == [False, False]
    assert decided(made(dense_from=0.4), (160, True), (4, True)) == [False, False]
    # The weights of a layer, of which rows may be 0 by chance.
    assert decided(made(()), (4, True), (4, False), (400, False)) == [False, True, True]
    # One worker's rows beside another one's dense gradient say nothing.
    assert decided(layer := made(()), (4, True)) == [False] and layer.notes() == ()
    assert decided(made((), touched={"w": 0.3}), (4, True)) == [True]
    assert decided(made(touched={"w": 0.6}), (4, True), (4, False)) == [False, True]
    assert decided(made(ways={"w": GATHERED_ROWS}), (400, True)) == [True]
    for ways in (RINGS, {"w": RINGS}, SERVERS):
        assert decided(made(ways=ways), (4, True)) == [False]
    assert made(touched={"w": 0.3}).notes() == (
        "w (30.00% of rows touched): gathered, 720 words that a machine sends in a step; 1,200 by rings",)
    assert made().notes() == made(ways=RINGS, touched=0.1).notes() == ()


def test_weights_of_layers_are_not_searched() -> None:
    nn = pytest.importorskip("torch").nn
    from plinth.workers.torch_module import ModuleVariables

    class Scaled(nn.Linear):
        pass

    module = reader("self.rows[x]")
    inner = nn.ParameterList([nn.Parameter(module.rows.detach())])
    module.more = nn.ModuleList([Scaled(2, 3), nn.Embedding(4, 2), inner])
    module.vector, module.fixed = nn.Parameter(module.rows[0].detach()), nn.Parameter(module.rows.detach(), False)
    variables = ModuleVariables(module, 1)
    assert [matrix.name for matrix in variables.matrices] == [
        "rows", "out.weight", "more.0.weight", "more.1.weight", "more.2.0"]
    assert variables.own_matrices == {"rows", "more.2.0"}


def test_gradients_of_rows_and_whole_ones() -> None:
    dense = np.zeros((5, 2), np.float32)
    dense[[1, 4]] = [[0, 2], [np.nan, 0]]
    rows = touched_rows(dense, dense.shape)
    assert rows.rows.tolist() == [1, 4]
    np.testing.assert_array_equal(whole(rows, dense.shape), dense)
    assert whole(dense, dense.shape) is dense and not whole(None, dense.shape).any()
    named = SparseGradient(np.array([0]), np.zeros((1, 2), np.float32))
    assert touched_rows(named, dense.shape) is named and touched_rows(None, dense.shape).values.shape == (0, 2)


@pytest.mark.parametrize(("ways", "said"), [
    ({"w": SERVERS}, "parameter 'w' is no embedding, and has no rows that servers could be asked for before a step "
                     "reads them; give copies of gathered or rings, or make it a torch.nn.Embedding with sparse=True"),
    ({"w": RINGS}, "parameter 'w' has gradients of rows, which all workers gather, and copies of rings were asked "
                   "for; give copies={'w': 'gathered'}, or look it up without sparse=True"),
    (SERVERS, "parameter 'w' has gradients of rows, which all workers gather, and copies of servers were asked for; "
              "give copies={'w': 'gathered'}, or look it up without sparse=True")])
def test_ways_that_a_matrix_cannot_go_are_refused(ways: Any, said: str) -> None:
    with pytest.raises(UserError) as error:
        IndexedMatrices([MATRIX], ["w"], FOUR, ways).report(
            {"w": SparseGradient(np.array([1]), np.zeros((1, 8), np.float32))}, {})
    assert str(error.value) == said
