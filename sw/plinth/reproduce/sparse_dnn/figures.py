"""The tables: Table 1 by the number of neurons, what the text sums up of it, the setup, and what is not attempted."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from plinth.network.sparse.radix_net import CONNECTIONS, RadixNet
from plinth.partition.hypergraph.partition import IMBALANCE
from plinth.partition.hypergraph.volume import layer_traffic
from plinth.reproduce.paper import Draft, Value
from plinth.reproduce.sparse_dnn.cases import HOW, LAYERS, PROCESSORS, SEED, Cell, cell
from plinth.reproduce.sparse_dnn.formulas import least_words, random_messages, random_words
from plinth.reproduce.sparse_dnn.partitions import kept
from plinth.reproduce.sparse_dnn.ranks import host, measured, simulated
from plinth.reproduce.sparse_dnn.scaling import ScalingPoint

#: Amounts of Table 1.
AMOUNTS = ("vol_avg", "vol_max", "msg_avg", "msg_max")
#: Numbers of neurons that the text's ranges are compared for.
RANGES = (1024, 4096, 16384)
#: Ranks of the figures of scaling; up to how many of them are measured, and of how many neurons, as steps of more take
#: minutes each to be built; inputs of a step.
RANKS, MEASURED, MEASURED_NEURONS = (1, 2, 4, 8, 16, *PROCESSORS), 2, 1024
SAMPLES = (1, 64)
#: Part of the formula by which a layer of R in a run may differ from it: 0.9 %, and its draw.
MOST_BEYOND = 0.03
#: Share of the paper's ratio that is asked for: where even rows do not allow it, the row says so.
ASKED = 0.8
#: Networks of Table 3 that are partitioned.
PARTITIONED = (1024, 4096, 16384)


def partitioned(draft: Draft) -> None:
    """Table 1 of one network: ratios, beside them what H and R send, in thousands, and what is expected of R."""
    neurons = int(draft.head["neurons"])
    draft.further = {"h": "H", "r": "R", "formula": "R expected", "least": "H least"}
    moved: dict[str, list[float]] = {"vol_avg": [], "msg_avg": []}
    for parts in PROCESSORS:
        what, found = f"P = {parts}", cell(neurons, parts)
        expected = _expected(neurons, parts)
        for amount in AMOUNTS:
            columns: dict[str, Value] = {"h": getattr(found.h, amount) / 1e3, "r": getattr(found.r, amount) / 1e3}
            if amount in expected:
                columns["formula"] = expected[amount]
            if amount.startswith("vol"):
                columns["least"] = least_words(neurons, LAYERS, parts) / 1e3
            draft.add(f"ratio_{amount}", what, found.ratio(amount), columns, note=_bound(draft, amount, what, columns))
            draft.add(f"H_{amount}", what, getattr(found.h, amount) / 1e3)
            if amount == "vol_avg" or (f"R_{amount}", what) in draft.entries:
                draft.add(f"R_{amount}", what, getattr(found.r, amount) / 1e3, {"formula": expected.get(amount)})
        draft.add("H_imb", what, found.h.imb)
        draft.add("H_imb_layer", what, found.h.imb_layer)
        notes = [note for note in found.notes if "imbalance" in note]
        if notes:
            draft.notes.append(f"{what}: rows of {len(notes)} layers do not allow {1 + IMBALANCE:g}; {notes[0]}")
        if ("R_imb", what) in draft.entries:
            draft.add("R_imb", what, found.r.imb)
        for amount, ratios in moved.items():
            ratios.append(_later(found, amount) / found.ratio(amount))
    draft.points = {"processors": list(PROCESSORS), "neurons": neurons,
                    "without_layer_1": {amount: dict(zip(map(str, PROCESSORS), ratios, strict=True))
                                        for amount, ratios in moved.items()}}
    volumes, messages = moved.values()
    draft.notes.append(
        "layer 1 counts as any other, in both directions, as the paper's Vol(k) has it for every k; without it ratios "
        f"would be {min(volumes):.3f} to {max(volumes):.3f} of these in volume, {min(messages):.3f} to "
        f"{max(messages):.3f} in messages")


def _bound(draft: Draft, amount: str, what: str, columns: Mapping[str, Value]) -> str:
    """What a row says where even rows do not allow the share of the paper's ratio that is asked for, else nothing."""
    if "least" not in columns or (f"ratio_{amount}", what) not in draft.entries:
        return ""
    ratio = float(columns["least"] or 0) / float(columns["r"] or 1)
    share = ratio / float(draft.paper(f"ratio_{amount}", what))
    if share <= ASKED:
        return ""
    return (f"any partition with even rows needs 32 P / N - 1 words a column, {ratio:.3f} of R's: {share:.3f} of the "
            f"paper's ratio is the least there is")


def _later(found: Cell, amount: str) -> float:
    """The ratio without layer 1."""
    return float(getattr(found.h, f"later_{amount}") / getattr(found.r, f"later_{amount}"))


def _expected(neurons: int, parts: int) -> dict[str, float]:
    """What the formulas expect of R, in thousands."""
    return {"vol_avg": random_words(neurons, LAYERS, parts) / 1e3,
            "msg_avg": random_messages(neurons, LAYERS, parts) / 1e3}


def expected(draft: Draft) -> None:
    """Table 1 of a network that is not partitioned: R by formula alone."""
    neurons = int(draft.head["neurons"])
    for parts in PROCESSORS:
        for amount, value in _expected(neurons, parts).items():
            draft.add(f"R_{amount}", f"P = {parts}", value)


def ranges(draft: Draft) -> None:
    """What section 6.2 sums up of Table 1: how much less H sends than R, over all processors, in per cent."""
    names = {"vol_avg": "average volume", "vol_max": "maximum volume", "msg_avg": "average messages",
             "msg_max": "maximum messages"}
    for neurons in RANGES:
        for amount, name in names.items():
            saved = [100 * (1 - cell(neurons, parts).ratio(amount)) for parts in PROCESSORS]
            draft.add(f"n{neurons}", f"{name}, least", min(saved))
            draft.add(f"n{neurons}", f"{name}, most", max(saved))


def setup(draft: Draft) -> None:
    """Section 6.1, and the formula of section 5, counted in two ways on a layer."""
    draft.add("", "layers", LAYERS)
    for place, neurons in enumerate((1024, 4096, 16384, 65536), 1):
        draft.add("", f"neurons, {place}", neurons)
    for place, parts in enumerate(PROCESSORS, 1):
        draft.add("", f"processors, {place}", parts)
    draft.add("", "imbalance allowed", IMBALANCE)
    neurons, parts, layer = 1024, 32, 5
    network = RadixNet(neurons=neurons, layers=layer + 1, seed=SEED)
    found = kept(network, parts, "random", SEED)
    pattern, columns, rows = network.rows(layer, np.arange(neurons)), found.columns(layer), found.layers[layer]
    # The sets X(m -> n) of the algorithm: columns of m that n reads. Once each in fprop, and back in bprop.
    readers = np.repeat(rows, np.diff(pattern.indptr))
    sent = {(int(columns[column]), int(reader), int(column))
            for column, reader in zip(pattern.indices, readers, strict=True) if columns[column] != reader}
    words = layer_traffic(pattern, columns, rows, parts).words
    same = "" if words == 2 * len(sent) else "not "
    draft.add("", "volume of a layer", f"{same}Vol(k)=sum_j 2*(lambda(n_j)-1)",
              note=f"{words:,} words by lambda, {2 * len(sent):,} by the sets that processors send each other: layer "
                   f"{layer + 1} of N = {neurons:,} with {CONNECTIONS} connections, P = {parts}, rows at random")
    run, formula = words / parts, random_words(neurons, 1, parts)
    same = "" if abs(run / formula - 1) < MOST_BEYOND else "not "
    draft.add("", "expected volume of R", f"{same}2*N*L*(P-1)*(1-(1-1/P)^{CONNECTIONS})/P",
              note=f"{formula:,.1f} words a processor by the formula, {run:,.1f} in that layer")


def partitioning(draft: Draft) -> None:
    """Table 3: processor seconds of partitioning when it was done; no value of ours decides a status, as machines
    differ."""
    draft.further = {"here": "seconds here"}
    for neurons in PARTITIONED:
        for parts in PROCESSORS:
            draft.add("table3", f"N = {neurons:,}, P = {parts}", None, {"here": cell(neurons, parts).seconds})
    draft.notes.append(
        "seconds here: processor time of the machine that partitioned, by rings and blocks, one thread, layers given; "
        "row partition_seconds_4096 of plinth bench is wall time, the median of three")


def scaling(draft: Draft) -> None:
    """Figures 4 and 5: milliseconds of SpFF and SpBP an input of H, beside R's: of 1 and 2 ranks measured and
    simulated, of more simulated."""
    draft.further = {"spff": "H, SpFF", "r": "R", "r_spff": "R, SpFF", "gain": "R over H",
                     "speedup": "H, 1 rank over P", "comm": "H, % not computing"}
    points: dict[str, list[dict[str, Value]]] = {}
    local: list[float] = []
    for neurons in RANGES:
        for samples in SAMPLES:
            pairs: dict[int, tuple[ScalingPoint, ScalingPoint]] = {}
            name = f"scaling{samples}"
            points[f"{neurons}-{samples}"] = drawn = []
            for parts in RANKS:
                run = partial(_pair, neurons, parts, samples)
                pairs[parts] = run(simulated)
                found = {"simulated": pairs[parts]} | (
                        {"measured": run(measured)} if parts <= MEASURED and neurons <= MEASURED_NEURONS else {})
                for how, (h, r) in found.items():
                    one = pairs[1][0] if how == "simulated" else _pair(neurons, 1, samples, measured)[0]
                    columns: dict[str, Value] = {
                        "how": how, "spff": 1e3 * h.spff / samples, "r": 1e3 * r.step / samples,
                        "r_spff": 1e3 * r.spff / samples, "gain": r.step / h.step, "speedup": one.step / h.step,
                        "comm": 100 * h.communication / h.step if how == "simulated" else None}
                    note = "" if how == "simulated" else _off(found["simulated"], (h, r))
                    draft.add(name, f"N = {neurons:,}, P = {parts}, {how}", 1e3 * h.step / samples, columns, note=note)
                    drawn.append({"parts": parts, "h": 1e3 * h.step / samples, **columns})
            if samples > 1:
                continue
            many = [pairs[parts] for parts in PROCESSORS]
            gains = [r.step / h.step for h, r in many]
            local += [(r.compute + r.updates) / (h.compute + h.updates) for h, r in many]
            draft.add("fig4", f"N = {neurons:,}, least", min(gains))
            draft.add("fig4", f"N = {neurons:,}, most", max(gains))
            if neurons == max(RANGES):
                shares = [100 * (r.communication - h.communication) / (r.step - h.step) for h, r in many]
                draft.add("fig5", f"of what is gained by communication, N = {neurons:,}, least", min(shares))
                draft.add("fig5", f"of what is gained by communication, N = {neurons:,}, most", max(shares))
    draft.add("fig5", "times less local computation, least", min(local))
    draft.add("fig5", "times less local computation, most", max(local))
    draft.points = points
    array = host()
    assert array.host is not None
    draft.notes.append(
        f"simulated ranks are hosts of one core, as `plinth array host` measured one: {array.host.to_data()}; links "
        f"carry {float(array.rate):.3g} words a nanosecond each way; {2 * array.link_latency / 1000:g} µs from host to "
        "host are assumed")
    draft.notes.append(
        "simulated in groups: a rank's work between two exchanges is one task, an exchange of a layer one flow that "
        "waits for all ranks and ends for all; what a measured rank does beside kernels and messages is not in it")


def _pair(neurons: int, parts: int, samples: int, by: Callable[..., ScalingPoint]
          ) -> tuple[ScalingPoint, ScalingPoint]:
    """H and R, which are the same on one rank."""
    h = by(neurons, LAYERS, parts, HOW, samples, SEED)
    return h, h if parts == 1 else by(neurons, LAYERS, parts, "random", samples, SEED)


def _off(simulation: tuple[ScalingPoint, ScalingPoint], run: tuple[ScalingPoint, ScalingPoint]) -> str:
    """How far what is simulated is from what was measured."""
    errors = [f"{name} {100 * (guess.spff / real.spff - 1):+.0f} % and {100 * (guess.step / real.step - 1):+.0f} %"
              for name, guess, real in zip("HR", simulation, run, strict=True)]
    return f"simulated is off by, SpFF and step: {', '.join(errors)}"


def not_attempted(draft: Draft) -> None:
    """Figures 4 and 5 of N = 65,536, and Table 2, times of runs on many processors: nothing is computed."""
