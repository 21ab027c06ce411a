"""MPT's figures of communication, time and energy, computed anew in the array simulator."""

from collections.abc import Sequence
from itertools import pairwise

from plinth.network.layers import Convolution
from plinth.network.zoo import NETWORKS
from plinth.reproduce.mpt.cases import (
    BATCH,
    CNNS,
    CODES,
    LAYERS,
    SYSTEMS,
    groups,
    mean,
    means_note,
    simulated,
    words,
)
from plinth.reproduce.paper import CLAIMS, Draft

#: Table II's kernels of 5x5 in Figure 16.
WIDE = 5
#: Layers of Figure 6, and workers of Figures 6 and 7.
COMMUNICATING, WORKERS = ("mpt-mid-1", "mpt-late-2"), (4, 16, 64, 256)
#: Rows of means of Figure 15, and the layers of LAYERS that they are of.
MEANS = {"geometric mean, mid": (1, 3), "geometric mean, late": (2, 4), "geometric mean": (0, 1, 2, 3, 4)}
#: Parts of LAYERS.
EARLY, MID, LATE = LAYERS[0], LAYERS[1::2], LAYERS[2::2]
#: Megabytes of a word.
_MEGABYTES = 4 / 1e6
#: What words are counted by, and what systems that predict are.
_WORDS = ("trained tiles of F(2x2,3x3), batch 256, as many groups as clusters; reductions go twice round their ring, "
          "which the paper counts once; no activation prediction; of four groups what can goes as lines")
_PREDICTED = ("prediction, in one round, and skipping: the words of the block code on networks trained here, codes "
              "modelled to keep up with links; 'stated': the same with words as section V.B states them; 'built': with "
              "our stages' cycles")

#: Section VII.B: what systems have of a worker's I/O.
_RINGS = ("all systems have 120 GB/s a direction: w_dp and d_dp in four rings of 256 workers, the others half "
          "in two rings, half in narrow links")
#: Dies of whole networks.
_DIES = ("batch 256; dies of 64x64 in FP32, where the paper has 96x96 with FP16 products for whole networks (footnote "
         "16): ours of FP16 refuse F(4x4,3x3) (docs/winograd.md); no batch normalisation")


def figure_1(draft: Draft) -> None:
    """Products of Winograd tiles of 4x4 and 6x6 over those of direct convolution."""
    ratios = []
    for name in LAYERS:
        conv, source = NETWORKS[name].layers[0], NETWORKS[name].input
        assert isinstance(conv, Convolution)
        direct = conv.macs([source])
        for outputs in (2, 4):
            ratio = direct / Convolution(name="conv", channels=conv.channels, kernel=conv.kernel, padding=conv.padding,
                                         winograd=outputs).macs([source])
            ratios.append(ratio)
            draft.add("layers", f"{name}, T{outputs + 2}", ratio)
    draft.add("", "computation, geometric mean", mean(ratios), note=means_note(ratios))
    draft.add("", "products of F(4x4,3x3)", 144 / 36)
    draft.notes += ["multiplications of the products alone, tiles at the edges counted whole; the paper counts all "
                    "operations of a CPU"]


def figure_6(draft: Draft) -> None:
    """Words of each worker in a step of two layers, with as many groups as clusters."""
    for name in COMMUNICATING:
        for workers in WORKERS:
            step_words = words(name, workers)
            for what, value in (("data parallel", step_words["data"].all),
                                ("MPT, weights", step_words["groups"].weights),
                                ("MPT, tiles", step_words["groups"].tiles)):
                draft.add(name, f"{workers}, {what}", value * _MEGABYTES / workers)
    most = WORKERS[-1]
    for name, what in zip(COMMUNICATING, ("Mid-1", "Late-2"), strict=True):
        step_words = words(name, most)
        tiles, weights = step_words["groups"].tiles, step_words["groups"].weights
        draft.add(CLAIMS, f"{what}, weights, dp / MPT", step_words["data"].weights / weights)
        draft.add(CLAIMS, f"{what}, tiles of all", tiles / (tiles + weights / 2),
                  note=f"with {most} workers, reductions counted once, as the paper does; twice: "
                       f"{tiles / (tiles + weights):.3g}")
    draft.notes += ["the paper prints no numbers", _WORDS]


def figure_7(draft: Draft) -> None:
    """Words of each worker in a step of FractalNet."""
    for workers in WORKERS:
        step_words = words("fractalnet-4-4", workers)
        for what, key in (("data parallel", "data"), ("MPT", "groups"), ("dynamic clustering", "chosen")):
            draft.add("words", f"{workers}, {what}", step_words[key].all * _MEGABYTES / workers)
    draft.add("", "dynamic clustering", step_words["groups"].all / step_words["chosen"].all)
    by_workers = [words("fractalnet-4-4", workers) for workers in WORKERS]
    few, *_, many = by_workers
    data, by_groups = ([step_words[key].all / workers for step_words, workers in zip(by_workers, WORKERS, strict=True)]
                       for key in ("data", "groups"))
    draft.add(CLAIMS, f"MPT / dp, {WORKERS[0]} workers", by_groups[0] / data[0])
    draft.add(CLAIMS, f"dp, {WORKERS[-1]} / {WORKERS[-2]} workers", data[-1] / data[-2])
    draft.add(CLAIMS, "MPT, falls of three", sum(after < before for before, after in pairwise(by_groups)))
    draft.add(CLAIMS, f"clustering, {WORKERS[0]} / {WORKERS[-1]}",
              few["groups"].all / few["chosen"].all / (many["groups"].all / many["chosen"].all))
    draft.notes += ["ours, with workers: MB each", _WORDS]


def _codes(name: str, system: str) -> dict[str, float]:
    """How many times faster than w_dp a system is that predicts, with other codes."""
    return {codes: simulated(name, "w_dp").seconds / simulated(name, system, codes=codes).seconds
            for codes in CODES if codes != "ours"} if SYSTEMS[system].rounds else {}


def figure_15(draft: Draft) -> None:
    """Time and energy of each layer of Table II, forwards and backwards, over those of w_dp."""
    draft.further = {"energy": "energy", "stated": "stated", "built": "built"}
    for system in SYSTEMS:
        gains = []
        for name in LAYERS:
            base, own = simulated(name, "w_dp"), simulated(name, system)
            gain = base.seconds / own.seconds
            further = {"energy": base.joules / own.joules} | _codes(name, system)
            draft.add(system, name, gain, further)
            gains.append({"": gain} | further)
        for what, places in MEANS.items():
            of = {key: mean([gains[place][key] for place in places]) for key in gains[0]}
            draft.add(system, what, of.pop(""), of, note=means_note([gains[place][""] for place in places])
                      if (system, what) in draft.entries else "")
        if system == "w_mp+*":
            draft.add(system, "energy, most", max(layer_gains["energy"] for layer_gains in gains))
    _layer_claims(draft)
    draft.notes += ["simulated: our dies by their engines' formulas, on groups, clusters and host as stated; times "
                    "w_dp is slower, or spends more", _RINGS, _PREDICTED]


def _over(names: Sequence[str], system: str, other: str, of: str = "seconds") -> list[float]:
    """Of layers what one system takes over what another does."""
    return [getattr(simulated(name, system), of) / getattr(simulated(name, other), of) for name in names]


def _layer_claims(draft: Draft) -> None:
    """What section VII.B says of the layers of Table II in words."""
    early, mid, late = (_over(names, "w_dp", "w_mp") for names in ([EARLY], MID, LATE))
    draft.add(CLAIMS, "Early, dp / mp", early[0])
    for way in ("forward", "backward"):
        passes = _over(MID, "w_dp", "w_mp", way)
        draft.add(CLAIMS, f"Mid, {way}, dp / mp", mean(passes),
                  note=f"geometric mean of {' and '.join(f'{ratio:.4g}' for ratio in passes)}; fprop ends with its "
                       "last task")
    draft.add(CLAIMS, "late / others", min(late) / max(*early, *mid), note="the least of late layers over the most")
    draft.add(CLAIMS, "Early, groups", groups(EARLY, "w_mp*"))
    draft.add(CLAIMS, "late / early, groups", min(groups(name, "w_mp*") for name in LATE) / groups(EARLY, "w_mp*"))
    draft.add(CLAIMS, "Early, mp / mp*", _over([EARLY], "w_mp", "w_mp*")[0])
    draft.add(CLAIMS, "Early, d_dp / w_dp", _over([EARLY], "d_dp", "w_dp")[0])
    draft.add(CLAIMS, "least, mp / mp+", min(_over((*MID, *LATE), "w_mp", "w_mp+")), note="of mid and late layers")
    for what, of in (("memory", "dram_joules"), ("all", "joules")):
        energy = _over(LAYERS, "w_dp", "d_dp", of)
        draft.add(CLAIMS, f"{what}, w_dp / d_dp", mean(energy),
                  note=f"joules; geometric mean of five layers, {min(energy):.3g} to {max(energy):.3g}")
    draft.add(CLAIMS, "layers, memory least", sum(
        max(*_over([name], "w_mp", "d_dp", "dram_joules"), *_over([name], "w_mp", "w_dp", "dram_joules")) < 1
        for name in LAYERS), note="joules of memory, w_mp below d_dp and w_dp, of five layers")


def figure_16(draft: Draft) -> None:
    """Compute Figure 16: speedups with kernels of 3x3 and 5x5."""
    for system in ("w_mp*", "w_mp+*"):
        mean_gains = []
        for kernel in (3, WIDE):
            gains = [simulated(name, "w_dp", kernel=kernel).seconds / simulated(name, system, kernel=kernel).seconds
                     for name in LAYERS]
            mean_gains.append(mean(gains))
            draft.add(system, what := f"{kernel}x{kernel}", mean_gains[-1],
                      note=means_note(gains) if (system, what) in draft.entries else "")
        draft.add(CLAIMS, f"5x5 / 3x3, {system}", mean_gains[1] / mean_gains[0])
    draft.notes += [_RINGS, _PREDICTED]


def figure_17(draft: Draft) -> None:
    """Whole networks: times w_dp, and times one worker."""
    gains: dict[str, list[float]] = {system: [] for system in SYSTEMS if system != "w_dp"}
    alone: dict[str, list[float]] = {"w_dp": [], "w_mp*": [], "w_mp+*": []}
    for name in CNNS:
        base, one_worker = simulated(name, "w_dp"), simulated(name, "w_dp", 1)
        for system, ratios in gains.items():
            ratios.append(base.seconds / simulated(name, system).seconds)
            draft.add(system, name, ratios[-1])
        for system, ratios in alone.items():
            ratios.append(one_worker.seconds / simulated(name, system).seconds)
    for system, ratios in gains.items():
        draft.add(system, "geometric mean", mean(ratios),
                  note=means_note(ratios) if (system, "geometric mean") in draft.entries else "")
    for system, ratios in alone.items():
        draft.add("one", system, mean(ratios), note=means_note(ratios) if ("one", system) in draft.entries else "")
    draft.add(CLAIMS, "resnet-34, w_dp / w_mp", gains["w_mp"][CNNS.index("resnet-34")])
    draft.add(CLAIMS, "both / either", mean(gains["w_mp+*"]) / max(mean(gains["w_mp+"]), mean(gains["w_mp*"])),
              note="geometric means")
    scaled = dict(zip(CNNS, alone["w_mp+*"], strict=True))
    fractalnet = scaled.pop("fractalnet-4-4")
    draft.add(CLAIMS, "fractalnet / others", fractalnet / max(scaled.values()), note="w_mp+* over one worker")
    draft.notes += [_DIES, "of four groups gathers of outputs go as lines, others as all elements", _RINGS, _PREDICTED]


def figure_18(draft: Draft) -> None:
    """Whole networks on all workers: images a second, power, images a joule."""
    for system in ("w_dp", "w_mp+*"):
        for name in CNNS:
            step = simulated(name, system)
            for what, value in (("thousand images a second", BATCH / step.seconds / 1e3),
                                ("kW", step.joules / step.seconds / 1e3),
                                ("images a joule", BATCH / step.joules)):
                draft.add(system, f"{name}, {what}", value)
    draft.add(CLAIMS, "kW, least", min(float(row.ours or 0) for row in draft.rows if row.what.endswith(", kW")))
    draft.notes += [_DIES, "of 256 workers alone: energy of what a step does (docs/simulator.md), without leakage and "
                    "idle links; memory, at 640 pJ a word, takes most of it"]


def none(draft: Draft) -> None:
    """Nothing of it is computed."""
