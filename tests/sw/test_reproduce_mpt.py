"""MPT's numbers computed anew: what is counted, and no status that claims more, or less, than the numbers show."""

from functools import lru_cache
from pathlib import Path

import pytest

from plinth.array.array import AT_LINKS, data_parallel_workers
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import EP
from plinth.reproduce import tables
from plinth.reproduce.mpt import pictures, tiles
from plinth.reproduce.mpt.cases import CNNS, CODES, LAYERS, MPT, SYSTEMS, array, layer, plan_of, simulated, words
from plinth.reproduce.mpt.figures import COMMUNICATING, MEANS, WORKERS
from plinth.reproduce.paper import CLAIMS, Judgement, PaperRow, Table
from plinth.reproduce.sparsity import drops, gathers, scatters
from plinth.reproduce.sparsity.networks import RECIPES

#: What is counted, in seconds; the others are simulated, or measured on networks that are trained for it.
COUNTED = ("setup", "networks", "systems", "1", "6", "7", "gpu", "balance", "formulas")
MEASURED = ("12", "prediction")
LAYERWISE, WHOLE = ("15", "16"), ("17", "18")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reproduce.md"


@lru_cache(maxsize=4)
def computed(keys: tuple[str, ...] = COUNTED) -> list[Table]:
    return MPT.computed(keys)


def rows(keys: tuple[str, ...] = COUNTED) -> dict[str, PaperRow]:
    return {row.entry.id: row for table in computed(keys) for row in table.rows if row.entry}


def on_the_page() -> str:
    """MPT's tables."""
    parts = tables.parts(PAGE.read_text(encoding="utf-8"), "mpt")
    assert parts is not None
    return parts[1]


def test_every_table_is_compared() -> None:
    assert sorted(MPT.tables) == sorted((*COUNTED, *MEASURED, *LAYERWISE, *WHOLE))


@pytest.mark.parametrize("keys", [COUNTED, pytest.param(MEASURED, marks=pytest.mark.long),
                                  pytest.param(LAYERWISE, marks=pytest.mark.long),
                                  pytest.param(WHOLE, marks=pytest.mark.long)])
def test_statuses_are_those_of_the_numbers(keys) -> None:
    for row in rows(keys).values():
        assert row.entry is not None
        if row.entry.status == Judgement.NOT_ATTEMPTED:
            assert row.ours is None
        else:
            assert row.same is row.entry.status.same and row.status == row.entry.status, row


@pytest.mark.parametrize("keys", [COUNTED, pytest.param(LAYERWISE, marks=pytest.mark.long),
                                  pytest.param(WHOLE, marks=pytest.mark.long)])
def test_tables_of_the_page_are_current(keys) -> None:
    """But for those of networks that are trained, whose last digits are a machine's."""
    text = on_the_page()
    for table in computed(keys):
        assert "\n".join(tables.section(MPT, table)) in text, table.key


def test_the_page_has_every_entry() -> None:
    """With the status of the file, its reason, and as many as there are of each."""
    text = on_the_page()
    lines = {line.rsplit("| ", 2)[-1].strip(" |`"): line for line in text.splitlines() if line.endswith("` |")}
    entries = [entry for key in MPT.tables for entry in MPT.entries(key)]
    assert set(lines) == {entry.id for entry in entries}
    for entry in entries:
        assert f"| {entry.status} |" in lines[entry.id] and entry.reason in text, entry.id
    for status in Judgement:
        assert f"| **{status}** | **{sum(entry.status == status for entry in entries)}** | |" in text


def test_what_comes_out() -> None:
    rows_by_id = rows()
    for id_ in ("table1.FractalNet.params", "table1.Wide ResNet.of3x3", "fig1.compute_reduction", "f43_mult_reduction",
                "formula.mpt_tiles.words", "formula.mpt_weight.words", "formula.dp_weight.words"):
        assert rows_by_id[f"mpt.{id_}"].status == Judgement.INDEPENDENT
    # Nothing of GPUs was measured.
    assert all(rows_by_id[id_].ours is None for id_ in rows_by_id if id_.startswith("mpt.fig18"))


def test_systems_are_what_their_names_say() -> None:
    for name in ("mpt-early", "mpt-late-1"):
        network = layer(name)
        for system in SYSTEMS:
            plan = plan_of(network, system)
            node = next(node for node in plan.graph.nodes if node.name == "conv")
            splits = plan.splits[plan.graph.nodes.index(node)]
            assert plan.dies == array().dies == 256
            assert (node.tiling is None) == (system == "d_dp")
            chosen = 0 if name == "mpt-early" else 4
            assert (node.free, splits.count(EP)) == {
                "d_dp": (False, 0), "w_dp": (False, 0), "w_mp": (True, 4), "w_mp+": (True, 4),
                "w_mp*": (True, chosen), "w_mp+*": (True, chosen)}[system]
            # Those that predict gather so, and skip the three other exchanges, where elements are split.
            coded = sum(transfer.exchange.coded is not None for transfer in plan.transfers)
            assert coded == (4 if "+" in system and splits.count(EP) else 0)
            assert plan.hardware is not None and plan.hardware.codes == (AT_LINKS if "+" in system else None)
            # Section VII.B: as much I/O for all, of which data parallelism has all in rings, and MPT half.
            assert plan.hardware.port_rates[0, 0] == (30 if "dp" in system else 15)
            assert plan.hardware == (data_parallel_workers(256) if "dp" in system else array(
                codes=plan.hardware.codes))
    assert {*LAYERS, *CNNS} <= set(NETWORKS)
    assert with_tiles(layer("mpt-late-2", 5), 2, "winograd").layer("conv").winograd == 2


def test_what_is_measured_is_drawn(monkeypatch, tmp_path) -> None:
    """Figure 12 and the shares of section V.B, of made-up measurements: bits of all are 100, of MPT's scheme 60, of the
    block code 40; lines are half of the tiles."""
    sent = gathers.Sent(all=100, paper=60, two_rounds=40)
    skipped = scatters.Skipped(all=100, forward=70, lines=50, line_words=20)
    monkeypatch.setattr(gathers, "network", lambda name, outputs, lines: [sent])
    ratio = gathers.Ratio(0.5, {4: 0.1, 5: 0.2, 6: 0.3}, 0.4)
    monkeypatch.setattr(gathers, "ratio", lambda name, outputs, lines: ratio)
    monkeypatch.setattr(scatters, "network", lambda name, outputs: skipped)
    monkeypatch.setattr(drops, "dropped", lambda count, which: drops.Tally(tiles=count, live=90, printed=7))
    monkeypatch.setattr(tiles, "_networks", lambda: "made up")
    tiles.gather.cache_clear()
    figure, table = MPT.computed(("12", "prediction"))
    tiles.gather.cache_clear()
    ours = {row.what: row.ours for row in table.rows if row.series == "pred"}
    assert {what: ours[what] for what in (
        "2-D, gathers saved, %", "1-D, gathers saved, %", "1-D, gathers saved by the block code, %",
        "2-D, scatters saved, %", "1-D, scatters saved, %", "1-D, zeros of lines alone, %")} == pytest.approx({
            "2-D, gathers saved, %": 40, "1-D, gathers saved, %": 70, "1-D, gathers saved by the block code, %": 80,
            "2-D, scatters saved, %": 30, "1-D, scatters saved, %": 80, "1-D, zeros of lines alone, %": 60})
    assert {(row.what, row.ours, row.verdict) for computed_table in (figure, table)
            for row in computed_table.claims} == {
        ("found, 1-D / 2-D", 0.2 / 0.3, "fails"), ("regions that find most", None, "not attempted"),
        ("live neurons dropped", 7, "fails"), ("elements of tiles", None, "not attempted")}
    assert [row.series for row in figure.rows if row.series != CLAIMS] == [
        name for name in RECIPES for _ in range(10)]
    path, = MPT.draw(tmp_path, [figure])
    assert path.name == "figure-12.png" and path.read_bytes().startswith(b"\x89PNG")


def test_passes_of_a_layer() -> None:
    """Two passes of three products are behind fprop; a layer's memory takes part of its energy."""
    for system in ("d_dp", "w_dp", "w_mp"):
        step = simulated("mpt-late-2", system, 4)
        assert 0 < step.forward < step.backward and step.forward + step.backward == step.seconds
        assert 0 < step.dram_joules < step.joules


def test_what_makes_data_parallelism_slow() -> None:
    """Late-1 on 256 workers: 36 elements of 512 x 512 weights at 80 words a cycle, beside products of a sample's four
    tiles in 4,096 PEs."""
    rows = {(row.series, row.what): row.ours for table in computed() if table.key == "balance" for row in table.rows}
    assert rows["w_dp", "words of elements of weights"] == round(36 * 512 * 512 / 80) == 117_965
    assert rows["w_dp", "multiply-adds over PEs"] == 36 * 4 * 512 * 512 / 4096 == 9_216
    assert rows["w_dp", "all words"] > rows["w_dp", "words of elements of weights"]
    assert rows["claims", "memory / PEs, w_mp"] < 1 < 12 < rows["claims", "memory / PEs, w_dp"]


def test_words_that_the_paper_states() -> None:
    """Gathers save 34.0 %, quantised words of 6 of 32 bits counted, scatters 39.3 %."""
    first, rest, forward, backward, errors = CODES["stated"].shares
    assert (first, 1 - first - rest, 1 - forward) == pytest.approx((6 / 32, 0.340, 0.393))
    assert (backward, errors) == (rest, forward)
    plan = plan_of(layer("mpt-late-1"), "w_mp+", codes="stated")
    whole = {(transfer.exchange.phase, transfer.exchange.kind): transfer.words
             for transfer in plan_of(layer("mpt-late-1"), "w_mp").transfers if transfer.exchange.layer == "conv"}
    saved = {(transfer.exchange.phase, transfer.exchange.kind):
             1 - transfer.words / whole[transfer.exchange.phase, transfer.exchange.kind]
             for transfer in plan.transfers if transfer.exchange.coded}
    # Ours sends masks of gathers, a bit a word, beside them.
    assert saved == pytest.approx({("fprop", "gather"): 0.340 - 1 / 32, ("fprop", "scatter"): 0.393,
                                   ("bprop", "scatter"): 1 - backward, ("bprop", "gather"): 0.393}, abs=2e-3)


def test_communication_falls_as_workers_are_more() -> None:
    """Figures 6 and 7: data parallel it does not, and groups and clusters that are chosen are never the worse."""
    for name in ("mpt-mid-1", "mpt-late-2"):
        few, many = (words(name, dies) for dies in (16, 256))
        assert few["data"].tiles == many["data"].tiles == 0 < many["data"].weights
        assert many["data"].all / 256 > few["data"].all / 16
        assert many["groups"].weights / 256 < few["groups"].weights / 16
        # |Tiles| / p (Ng - 1) / Ng; of four groups half of it, but for errors of inputs, as lines.
        assert many["groups"].tiles / 256 / (few["groups"].tiles / 16) == pytest.approx(
            (15 / 16) / (3 / 4 * (3 / 2 + 1) / 4) / 16)
    assert words("fractalnet-4-4")["chosen"].all < words("fractalnet-4-4")["groups"].all


@pytest.mark.parametrize("key", ["6", "7", "16", "18"])
def test_other_figures_are_drawn(key: str, tmp_path) -> None:
    draft = MPT.draft(key)
    rows = {"6": [(name, f"{dies}, {what}") for name in COMMUNICATING for dies in WORKERS
                  for what in ("data parallel", "MPT, weights", "MPT, tiles")],
            "7": [("words", f"{dies}, {what}") for dies in WORKERS
                  for what in ("data parallel", "MPT", "dynamic clustering")],
            "16": [(system, f"{size}x{size}") for system in ("w_mp*", "w_mp+*") for size in (3, 5)],
            "18": [(system, f"{name}, {what}") for system in ("w_dp", "w_mp+*") for name in CNNS
                   for what in ("thousand images a second", "kW", "images a joule")]}[key]
    for place, (series, what) in enumerate(rows):
        draft.add(series, what, 1.0 + place)
    path, = MPT.draw(tmp_path, [draft.done()])
    assert path.name == f"figure-{key}.png" and path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("key, names", [("15", (*LAYERS, *MEANS)), ("17", (*CNNS, "geometric mean"))])
def test_systems_are_drawn_beside_what_the_paper_prints(key: str, names: tuple[str, ...], tmp_path,
                                                        monkeypatch) -> None:
    draft, drawn = MPT.draft(key), []
    bar = pictures.bar
    monkeypatch.setattr(pictures, "bar", lambda *arguments, **more: (
        drawn.append(arguments[2]), bar(*arguments, **more)))
    for place, system in enumerate(SYSTEMS):
        if (key, system) != ("17", "w_dp"):
            for name in names:
                draft.add(system, name, 1.0 + place, {"energy": 2.0})
    path, = MPT.draw(tmp_path, [draft.done()])
    assert path.name == f"figure-{key}.png" and path.read_bytes().startswith(b"\x89PNG")
    numbers = [entry.value for entry in MPT.entries(key)
               if entry.series in SYSTEMS and entry.what in names]
    assert len(numbers) == 3 and set(numbers) <= set(drawn)


@pytest.mark.long
def test_late_layers_gain_most() -> None:
    """Figure 15's order: MPT loses on the early layer, and gains the more the later a layer is."""
    gains = [simulated(name, "w_dp").seconds / simulated(name, "w_mp").seconds for name in LAYERS]
    early, mid_1, late_1, mid_2, late_2 = gains
    assert early < 1 < min(mid_1, mid_2) and max(mid_1, mid_2) < min(late_1, late_2)
