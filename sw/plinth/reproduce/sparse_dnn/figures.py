"""The tables: Table 1 by the number of neurons, what the text sums up of it, the setup, and what is not attempted."""

from collections.abc import Mapping

import numpy as np

from plinth.network.sparse.radix_net import CONNECTIONS, RadixNet
from plinth.partition.hypergraph.partition import IMBALANCE
from plinth.partition.hypergraph.volume import layer_traffic
from plinth.reproduce.paper import Draft, Value
from plinth.reproduce.sparse_dnn.cases import LAYERS, PROCESSORS, SEED, Cell, cell
from plinth.reproduce.sparse_dnn.formulas import least_words, random_messages, random_words
from plinth.reproduce.sparse_dnn.partitions import kept

#: Amounts of Table 1.
AMOUNTS = ("vol_avg", "vol_max", "msg_avg", "msg_max")
#: Numbers of neurons that the text's ranges are compared for.
RANGES = (1024, 4096, 16384)
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


def not_attempted(draft: Draft) -> None:
    """Figures 4 and 5 and Table 2, times of runs on many processors: nothing is computed."""
