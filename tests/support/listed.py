"""Steps as text: what each operation's tasks are, in lines that a reader compares and a program keeps.

A line has an operation's name, its tasks on all dies, the words of the places that they name (read, written), and
eight digits of everything else that they say. ``python -m tests.support.listed`` writes the steps of :data:`STEPS`
anew, after a change that is meant to change them: what has changed is read in the difference.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.networks import CONCATENATED, DOUBLED, random_plan, trainable_network, winograd_network

from plinth.array.array import full, ring
from plinth.buffers import Buffer
from plinth.driver.program import Program, program_digest
from plinth.lower.training import lower_step
from plinth.network.layers import (
    Convolution,
    Dense,
    Flatten,
    Gelu,
    LeakyRelu,
    Relu,
    Relu6,
    Shape,
    Sigmoid,
    SoftmaxCrossEntropy,
    Tanh,
)
from plinth.network.network import Network, perceptron
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import Node, from_network
from plinth.sharding import Sharding
from plinth.step.between import Exchange
from plinth.step.build import step_of
from plinth.step.step import Step
from plinth.step.tasks import Arrivals, Item, Task
from plinth.step.vector import VectorProgram
from plinth.update.rule import FORMS, PLAIN, UpdateRule
from plinth_hw.isa.parameters import DieParameters, preset

LISTED = Path(__file__).resolve().parents[1] / "sw" / "step" / "listed.txt"
MEMORY_WORDS = 1 << 22


def _said(what: Any) -> str:
    """All that data says, of nodes and dies their names."""
    if isinstance(what, Node | DieParameters):
        return what.name
    if isinstance(what, Enum):
        return f"{type(what).__name__}.{what.name}"
    if isinstance(what, np.integer | np.floating):
        return repr(what.item())
    if isinstance(what, VectorProgram):
        parts = [what.rows, what.columns, what.regions, what.loads, what.stores, what.instructions, what.written]
        return f"program({', '.join(map(_said, parts))})"
    if isinstance(what, Buffer):
        return f"{what.place}+{what.address}:{what.rows}x{what.columns}/{what.stride}{'p' * what.packed}@{what.base}"
    if is_dataclass(what):
        return f"{type(what).__name__}({', '.join(_said(getattr(what, field.name)) for field in fields(what))})"
    if isinstance(what, Mapping):
        return "{" + ", ".join(f"{_said(key)}: {_said(value)}" for key, value in what.items()) + "}"
    if isinstance(what, tuple | list):
        return f"[{', '.join(map(_said, what))}]"
    return repr(what)


def _operation(item: Item) -> str:
    """What an item is of: its task's name without the numbers that tell an operation's tasks apart."""
    if isinstance(item, Arrivals):
        return "arrivals"
    return re.sub(r"\[.*?\]|\.\d+\b", "", item.name)


def step_lines(step: Step) -> Iterator[str]:
    """A line for each operation, in the order in which they come; then of what moves between dies, what they hold, all
    places, and what groups stand for."""
    lines: dict[str, tuple[list[int], list[str]]] = {}
    grouped = []
    for die in range(step.dies):
        for place, item in enumerate(step.tasks(die)):
            counts, said = lines.setdefault(_operation(item), ([0, 0, 0], []))
            counts[0] += 1
            if isinstance(item, Task):
                for number, places in ((1, item.reads), (2, item.writes)):
                    counts[number] += sum(buffer.rows * buffer.row_words for buffer in places)
            said.append(f"{die} {place} {_said(item)}")
        grouped += [f"{most} {die} {_said(item)}" for most in (1, 3) for item in step.tasks(die, most)]
    for name, ((tasks, read, written), said) in lines.items():
        yield f"{name}: {tasks}, {read:,} -> {written:,} {_digits(said)}"
    moves = [f"{operation.name} {_said([operation.portion, operation.share, operation.by_tasks])}"
             for operation in step.operations if isinstance(operation, Exchange)]
    yield f"moves: {len(moves)} {_digits(moves)}"
    held = [step.held(die) for die in range(step.dies)]
    yield f"held: {max(held):,} {_digits([_said(held), *map(str, step.classes())])}"
    yield f"places: {sum(step.place_words().values()):,} {_digits([_said(step.place_words())])}"
    yield f"groups: {len(grouped)} {_digits(grouped)}"


def program_line(program: Program) -> str:
    """Of what is lowered: tasks of all dies, what they are, and what the host is told of them."""
    names = [f"{task.name} {task.engine.name}" for graph in (*program.setup, *program.step) for task in graph.tasks]
    told = _digits([*names, *program.notes])
    return f"lowered: {len(names)}, {program.memory_words:,} words {program_digest(program)[:8]} {told}"


def _digits(said: list[str]) -> str:
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:8]


def _random(seed: int, dies: int, die: str | DieParameters, rule: UpdateRule = PLAIN) -> Step:
    generator = np.random.default_rng([seed, dies])
    network = trainable_network(generator)
    plan = random_plan(network, dies, int(generator.integers(dies, 4 * dies + 3)), generator)
    return step_of(replace(plan.sharding, array=full(dies), rule=rule),
                   preset(die) if isinstance(die, str) else die)


def _random_tiles(seed: int, dies: int, name: str) -> Step:
    generator = np.random.default_rng([seed, dies])
    network = winograd_network(generator)
    plan = random_plan(network, dies, 2 * dies + 1, generator)
    return step_of(replace(plan.sharding, array=ring(dies)), preset(name))


def _given(network: Network, splits: str, batch: int, die: str | DieParameters, **changes: Any) -> Step:
    """All layers split alike; tiles, where the split has two levels, by samples and then by elements."""
    graph, levels = from_network(network), tuple(splits.split())
    own = tuple(("dp", "ep") if node.tiling and len(levels) == 2 else tuple(
        level if level in graph.choices(number) else "dp" for level in levels)
        for number, node in enumerate(graph.nodes))
    dies = 2 ** len(levels)
    return step_of(Sharding(graph=graph, splits=own, batch=batch, array=ring(dies), **changes),
                   preset(die) if isinstance(die, str) else die)


def _activations() -> Network:
    """A map behind each kind of activation."""
    kinds = (Relu, LeakyRelu, Relu6, Tanh, Sigmoid, Gelu)
    return Network(name="activations", input=Shape((4, 8, 8)), layers=(
        *(layer for number, kind in enumerate(kinds) for layer in (
            Convolution(name=f"conv{number}", channels=4 + number, kernel=(1, 1)), kind(name=f"act{number}"))),
        Flatten(name="flat"), Dense(name="fc", outputs=4), SoftmaxCrossEntropy(name="loss")))


def _tiled(die: str | DieParameters, outputs: int = 2, weights: str | None = None, rounds: int | str | None = None,
           splits: str = "dp dp", batch: int = 13) -> Step:
    return _given(with_tiles(NETWORKS["digits-cnn"], outputs, weights, rounds), splits, batch, die)


STEPS: dict[str, Callable[[], Step]] = {
    "mlp, one die": lambda: _given(NETWORKS["digits-mlp"], "", 40, "ndp-demo"),
    "mlp, model": lambda: _given(NETWORKS["digits-mlp"], "mp op", 33, "hypar-demo"),
    "mlp, mixed": lambda: _given(NETWORKS["digits-mlp"], "dp mp", 37, "ndp-demo-mixed"),
    "cnn, data": lambda: _given(NETWORKS["digits-cnn"], "dp", 9, "ndp-demo"),
    "cnn, outputs": lambda: _given(NETWORKS["digits-cnn"], "op", 5, "hypar-demo-mixed"),
    "wide": lambda: _given(perceptron("wide", (300, 700, 10)), "dp dp", 21, "ndp-tiny"),
    "states": lambda: _given(perceptron("states", (90, 200, 10)), "dp", 12, "ndp-tiny",
                             rule=FORMS["rmsprop"]),
    "wide states": lambda: _given(NETWORKS["digits-mlp"], "dp dp", 9, "fpga-demo",
                                  rule=replace(FORMS["adagrad"], wide=True, stochastic=True)),
    "doubled": lambda: _given(DOUBLED, "dp mp", 7, "ndp-tiny"),
    "concatenated": lambda: _given(CONCATENATED, "mp", 6, "hypar-tiny"),
    **{f"rule {name}": lambda number=number, rule=rule: _random(  # type: ignore[misc]
        number, 3 if number % 2 else 1, "fpga-tiny", rule) for number, (name, rule) in enumerate(FORMS.items())
        if number % 3 == 0},
    **{f"random {seed}": lambda seed=seed: _random(  # type: ignore[misc]
        seed, (1, 2, 4, 3)[seed % 4], ("ndp-tiny", "hypar-tiny", "ndp-demo-mixed")[seed % 3])
        for seed in range(20, 34)},
    **{f"small scratchpad {seed}": lambda seed=seed: _random(  # type: ignore[misc]
        seed, 1 + seed % 2, preset(("ndp-tiny", "hypar-tiny")[seed % 2], vector_buffer_words=256))
        for seed in range(40, 45)},
    "cnn, small scratchpad": lambda: _given(NETWORKS["digits-cnn"], "dp", 40, preset(
        "ndp-demo-mixed", vector_buffer_words=1024)),
    "activations, small scratchpad": lambda: _given(_activations(), "dp", 6, preset(
        "ndp-tiny", vector_buffer_words=512)),
    "tiles, small scratchpad": lambda: _tiled(preset("ndp-demo-mixed-winograd", vector_buffer_words=1024), batch=24),
    **{f"random tiles {seed}": lambda seed=seed: _random_tiles(seed, (1, 2, 4, 3)[seed % 4],  # type: ignore[misc]
                                                               "ndp-tiny-winograd") for seed in range(9)},
    "tiles": lambda: _tiled("ndp-tiny-winograd"), "large tiles": lambda: _tiled("ndp-demo-winograd", 4),
    "elements": lambda: _tiled("ndp-demo-winograd", 4, "winograd"),
    "tiles, mixed": lambda: _tiled("ndp-demo-mixed-winograd"), "tiles alone": lambda: _tiled(
        "ndp-demo-winograd", splits=""),
    "strips alone": lambda: _given(with_tiles(NETWORKS["digits-cnn"], 2, None, None), "", 64, "ndp-tiny-winograd"),
    **{f"tiles, a beat a cycle within, batch {batch}": lambda batch=batch: _tiled(  # type: ignore[misc]
        preset("ndp-demo-winograd", transfer_words=8), 4, "winograd", batch=batch) for batch in (13, 64)},
    "a word a beat": lambda: _given(perceptron("small", (3, 4, 2)), "op", 1, preset(
        "ndp-tiny", rows=1, columns=1, beat_words=1, memory_words_per_cycle=2)),
    "predicted": lambda: _tiled("ndp-demo-predict", rounds=2), "predicted once": lambda: _tiled(
        "ndp-demo-predict", rounds=1, batch=9), "regions": lambda: _tiled("ndp-demo-predict", rounds="regions"),
}


def listing(name: str) -> str:
    """The lines of a step and of what is lowered of it."""
    step = STEPS[name]()
    return "\n".join([f"# {name}", *step_lines(step), program_line(lower_step(step, 2, MEMORY_WORDS))]) + "\n"


def read() -> dict[str, str]:
    """The lines that are kept of each step."""
    texts = re.split(r"(?m)^(?=# )", LISTED.read_text(encoding="utf-8"))
    return {text[2:].split("\n", 1)[0]: text for text in texts if text}


def main() -> None:
    """Write all of them."""
    LISTED.write_text("".join(map(listing, STEPS)), encoding="utf-8")


if __name__ == "__main__":
    main()
