"""Tasks of the row-stationary machine on the golden model, against products in float64."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.convolutions import PASSES, Placed, direct, random_layer
from tests.support.refusal import refused

from plinth import cli
from plinth.buffers import Buffer
from plinth.errors import UserError
from plinth.lower.builder import pack
from plinth.machine.choices import _cut_choices, choose
from plinth.machine.convolution import Body, ConvolutionShape, FeatureMap
from plinth.machine.mappings import Loops, pieces
from plinth.machine.row_stationary_tasks import RowStationary
from plinth_hw.isa.formats import FP16, FP32, Q3_12, Format
from plinth_hw.isa.operations import Engine, MatrixOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.matrix.row_stationary.interface import ArrayShape
from plinth_sim.golden import row_stationary
from plinth_sim.golden.device import _decode

DIES = {name: preset(f"hypar-{name}") for name in ("tiny", "demo", "paper")}
MIXED = {f"{name}-mixed": replace(die, multiply_format=FP16) for name, die in DIES.items()}
TINY = DIES["tiny"]
HEADER = {"engine": Engine.MATRIX, "operation": MatrixOperation.ROW_STATIONARY.value, "last": 1}


def run(memory: np.ndarray, die: DieParameters, groups: Iterable[Iterable[Body]]) -> int:
    """Run tasks from their descriptors; returns the sum of their useful multiply-adds."""
    useful = 0
    for fields in (body for group in groups for body in group):
        words = np.array(pack(Engine.MATRIX, HEADER, fields), dtype=np.uint32)
        *_, body = _decode(words.tobytes())
        useful += row_stationary.execute(memory, body, [0] * 16, die).useful_macs
    return useful


def tasks(placed: Placed, die: DieParameters, name: str) -> list[list[Body]]:
    """Tasks of a pass."""
    layer, at, maker = placed.layer, placed.buffers, RowStationary(die)
    x, dx = (FeatureMap(at[of], layer.height, layer.width) for of in ("x", "input_gradient"))
    z, dz = (FeatureMap(at[of], layer.out_height, layer.out_width) for of in ("forward", "dz"))
    if name == "forward":
        return maker.forward(layer, x, at["w"], z)
    if name == "input_gradient":
        return maker.input_gradient(layer, dz, at["w"], dx)
    return maker.weight_gradient(layer, x, dz, at["weight_gradient"])


def check(layer: ConvolutionShape, images: int, die: DieParameters, rng: np.random.Generator) -> None:
    """All passes of a layer; nothing else in memory changes, and no multiply-add of the map is missing."""
    placed = Placed(layer, images, die, rng, packed=die in MIXED.values())
    memory = np.full(placed.at + 8, 0x7FC00000, dtype=np.uint32)
    shapes = {"x": (images, layer.height, layer.width, layer.inputs), "w": (*layer.kernel, layer.inputs, layer.outputs),
              "dz": (images, layer.out_height, layer.out_width, layer.outputs)}
    values: dict[str, np.ndarray] = {
        name: rng.normal(size=shape).astype(np.float16 if placed.packed else np.float32)
        for name, shape in shapes.items()}
    for name, value in values.items():
        placed.write(memory, name, value)
    exact = direct(layer, *(values[name].astype(np.float64) for name in shapes))
    useful = [run(memory, die, tasks(placed, die, name)) for name in PASSES]
    assert len(set(useful)) == 1, (useful, layer)
    for name in PASSES:
        np.testing.assert_allclose(placed.read(memory, name, exact[name].shape), exact[name], rtol=1e-4, atol=1e-4,
                                   err_msg=f"{name} of {layer}")
    written = np.zeros(len(memory), dtype=bool)
    for buffer in placed.buffers.values():
        for row in range(buffer.rows):
            written[buffer.address + row * buffer.stride:][:buffer.row_words] = True
    assert (memory[~written] == 0x7FC00000).all()


@pytest.mark.parametrize(("images", "rows", "columns", "units", "run", "tasks"), [
    (2, 6, 40, 9, 5, 1 + 4 / 5), (1, 3, 3, 17, 4, 2 + 1 / 4), (3, 9, 14, 6, 3, 3), (1, 5, 7, 1, 1, 1)])
def test_a_shorter_last_run_counts_as_a_part_of_a_task(images: int, rows: int, columns: int, units: int, run: int,
                                                       tasks: float) -> None:
    """Of the ways to cut sums on PEs of eight columns, the one with the fewest tasks at a run."""
    cuts = _cut_choices(DIES["demo"], images, rows, columns, units, True)
    assert min(count for count, *_, cut_run in cuts.tolist() if cut_run == run) == pytest.approx(tasks)


@pytest.mark.parametrize("dies", [DIES, MIXED], ids=["fp32", "mixed"])
@pytest.mark.parametrize("seed", range(40))
def test_convolutions(seed: int, dies: dict[str, DieParameters]) -> None:
    """All passes of a random layer, of any kernel, stride, padding and storage."""
    rng = np.random.default_rng(seed)
    layer, images = random_layer(rng)
    check(layer, images, dies[str(rng.choice(list(dies)))], rng)


def test_runs_of_narrow_units_begin_at_words() -> None:
    """Input channels of which, were they words, a run of windows would have 7."""
    layer = ConvolutionShape(height=6, width=6, inputs=14, outputs=2, kernel=(3, 3))
    check(layer, 2, MIXED["tiny-mixed"], np.random.default_rng(1))


@pytest.mark.parametrize(("name", "height", "width", "inputs", "outputs", "kernel"), [
    ("demo", 7, 21, 12, 6, (7, 11)), ("paper", 8, 33, 30, 1, (6, 7))])
def test_taps_of_a_run_share_the_scratchpad(name: str, height: int, width: int, inputs: int, outputs: int,
                                            kernel: tuple[int, int]) -> None:
    """Gradients of wide kernels, where a run of windows holds all of a PE's words of the map."""
    layer = ConvolutionShape(height=height, width=width, inputs=inputs, outputs=outputs, kernel=kernel)
    check(layer, 1, DIES[name], np.random.default_rng(2))


@pytest.mark.parametrize("kernel", range(1, 12))
@pytest.mark.parametrize("stride", range(1, 5))
def test_kernels_and_strides(kernel: int, stride: int) -> None:
    """Each kernel at each stride, with padding and without, on maps with windows left over."""
    rng = np.random.default_rng(kernel + 16 * stride)
    for padding in {0, kernel // 2}:
        layer = ConvolutionShape(height=kernel + 3, width=kernel + 6, inputs=3, outputs=5, kernel=(kernel, kernel),
                                 stride=(stride, stride), padding=(padding, padding))
        check(layer, 2, TINY, rng)


SIZES = (1, 2, 3, 7, 12, 33)


@pytest.mark.parametrize("samples", SIZES)
@pytest.mark.parametrize("name", [*DIES, "tiny-mixed", "demo-mixed"])
def test_fully_connected(samples: int, name: str) -> None:
    """All products of all small sizes, with gaps between rows, and one too large for a load of anything."""
    rng, die = np.random.default_rng(samples), (DIES | MIXED)[name]
    sizes = [(inputs, outputs) for inputs in SIZES for outputs in SIZES]
    for inputs, outputs in [*sizes, (300, 70)]:
        at, buffers = 0, {}
        for place, rows, columns in (("x", samples, inputs), ("w", inputs, outputs), ("z", samples, outputs),
                                     ("dz", samples, outputs), ("dx", samples, inputs), ("dw", inputs, outputs)):
            packed = die.packing > 1 and place in ("x", "w", "dz")
            stride = (-(-columns // 2) if packed else columns) + int(rng.integers(0, 3))
            buffers[place] = Buffer(place, at, rows, columns, stride, packed=packed)
            at += rows * stride
        memory = np.full(at, 0x7FC00000, dtype=np.uint32)

        def view(place: str, memory: np.ndarray = memory, buffers: dict[str, Buffer] = buffers) -> np.ndarray:
            buffer = buffers[place]
            words = memory[buffer.address:buffer.address + buffer.rows * buffer.stride]
            number = np.float16 if buffer.packed else np.float32
            return words.reshape(buffer.rows, buffer.stride).view(number)[:, :buffer.columns]

        for place in ("x", "w", "dz"):
            view(place)[...] = rng.normal(size=view(place).shape)
        maker, (x, w, z, dz, dx, dw) = RowStationary(die), buffers.values()
        useful = [run(memory, die, groups) for groups in (
            maker.dense_forward(x, w, z), maker.dense_input_gradient(dz, w, dx),
            maker.dense_weight_gradient(x, dz, dw))]
        assert useful == [samples * inputs * outputs] * 3
        for place, exact in (("z", view("x") @ view("w").astype(float)), ("dx", view("dz") @ view("w").T.astype(float)),
                             ("dw", view("x").T @ view("dz").astype(float))):
            np.testing.assert_allclose(view(place), exact, rtol=1e-4, atol=1e-4, err_msg=place)


@pytest.mark.parametrize("operands", [FP32, Q3_12], ids=str)
def test_least_slots_are_those_of_the_array(operands: Format) -> None:
    die = replace(DIES["paper"], multiply_format=operands)
    shape = ArrayShape(multiply_format=operands, accumulate_format=die.sum_format, rows=die.rows, columns=die.columns,
                       filter_words=die.filter_words, ifmap_words=die.ifmap_words, psum_words=die.psum_words,
                       feed_words=die.feed_words)
    assert shape.least_slots == die.least_slots


def test_pieces_cover_every_sum_once() -> None:
    for loops in (Loops(images=5, rows=9, columns=20, filters=3, kernel_rows=3, channels=4),
                  Loops(rows=3, columns=3, units=67, filters=40, channels=3, kernel_rows=13, kernel_columns=13)):
        mapping = choose(TINY, loops)
        seen = np.zeros((loops.images, loops.rows, loops.columns, loops.units), dtype=int)
        for piece in pieces(loops, mapping):
            blocks = piece.images if loops.units > 1 else 1
            images = 1 if loops.units > 1 else piece.images
            seen[piece.image:piece.image + images, piece.row:piece.row + piece.rows,
                 piece.column:piece.column + piece.columns, piece.unit:piece.unit + blocks * piece.run] += 1
        assert (seen == 1).all()


def test_what_does_not_fit() -> None:
    loops = Loops(columns=3, filters=4, column_stride=9, kernel_columns=3)
    with refused(UserError, "layer 'conv' has no mapping .* needs 27 words of a PE's ifmap scratchpad, of which "
                            "there are 16"):
        choose(replace(TINY, ifmap_words=16), loops, "conv")


@pytest.mark.parametrize(("stride", "fits"), [(40, True), (70, False)])
def test_a_layer_that_does_not_fit_is_named(stride: int, fits: bool, tmp_path: Path,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    """Far strides leave only unlikely mappings, or none."""
    network, samples = tmp_path / "far.yaml", tmp_path / "far.npz"
    network.write_text(f"""version: 2
name: far
input: [2, 140, 140]
layers:
  - {{name: sparse, kind: convolution, channels: 4, kernel: 3, stride: {stride}}}
  - {{name: flatten, kind: flatten}}
  - {{name: out, kind: dense, outputs: 3}}
  - {{name: loss, kind: mean-squared-error}}
""")
    rng = np.random.default_rng(0)
    np.savez(samples, x=rng.standard_normal((4, 2, 140, 140)), y=rng.standard_normal((4, 3)))
    command = ["train", str(network), "--data", str(samples), "--machine", "hypar", "--dies", "1", "--batch", "2",
               "--device", "golden", "--steps", "1", "--out", str(tmp_path / "out")]
    if fits:
        cli.main(command)
        assert json.loads((tmp_path / "out" / "report.json").read_text())["gradient_error"] < 1e-5
        return
    with pytest.raises(SystemExit) as stop:
        cli.main(command)
    assert stop.value.code == 2
    assert ("layer 'sparse' has no mapping onto the row-stationary machine: its smallest one needs 149 words of a PE's "
            "ifmap scratchpad, of which there are 128") in capsys.readouterr().err


def test_sizes_beyond_a_task() -> None:
    wide = Buffer("w", 0, 2, 70000, 70000)
    with refused(UserError, "layer 'fc' has 70000 filters, a task at most 65535"):
        RowStationary(TINY, "fc").dense_forward(Buffer("x", 0, 2, 2, 2), wide, Buffer("z", 0, 2, 70000, 70000))
