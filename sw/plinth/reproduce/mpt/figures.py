"""MPT's figures of communication, time and energy, computed anew in the array simulator, without activation
prediction."""

from plinth.model.layers import Convolution
from plinth.model.zoo import NETWORKS
from plinth.reproduce.mpt.cases import CNNS, LAYERS, SYSTEMS, mean, plan_of, simulated, words
from plinth.reproduce.paper import Draft

#: Table II's kernels of 5x5 in Figure 16.
WIDE = 5


def figure_1(made: Draft) -> None:
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
            made.add("layers", f"{name}, T{outputs + 2}", ratio)
    made.add("", "computation", mean(ratios))
    made.add("", "products of F(4x4,3x3)", 144 / 36)
    made.notes += ["multiplications of the products alone, tiles at the edges counted whole; the paper counts all "
                   "operations of a CPU"]


def figure_7(made: Draft) -> None:
    """Words of each worker in a step of FractalNet."""
    found = words("fractalnet-4-4")
    dies = plan_of(NETWORKS["fractalnet-4-4"], "w_mp").dies

    def total(choose: object) -> float:
        return sum(choose(one) for one in found.values()) * 4 / dies / 1e6  # type: ignore[operator]

    data, groups = total(lambda one: one[1]), total(lambda one: one.get(16, one[1]))
    chosen = total(lambda one: min(one.values()))
    for what, value in (("data parallel, MB a worker", data), ("MPT (16, 16), MB a worker", groups),
                        ("dynamic clustering, MB a worker", chosen)):
        made.add("words", what, value)
    made.add("", "dynamic clustering", groups / chosen)
    made.notes += ["trained tiles of F(2x2,3x3), 256 workers, batch 256; reductions go twice round their ring, which "
                   "the paper counts once; no activation prediction, lines of tiles as all elements"]


def figure_15(made: Draft) -> None:
    """Time and energy of each layer of Table II, forwards and backwards, over those of w_dp."""
    made.further = {"energy": "energy"}
    for system in SYSTEMS:
        gains = []
        for name in LAYERS:
            base, own = simulated(name, "w_dp"), simulated(name, system)
            gains.append((base.seconds / own.seconds, base.joules / own.joules))
            made.add(system, name, gains[-1][0], {"energy": gains[-1][1]})
        times, energies = map(list, zip(*gains, strict=True))
        made.add(system, "mean", mean(times), {"energy": mean(energies)})
    made.notes += ["simulated: our dies by their engines' formulas, on groups, clusters and host as stated; times w_dp "
                   "is faster, or spends more"]


def figure_16(made: Draft) -> None:
    """The same of kernels of 3x3 and 5x5."""
    for kernel in (3, WIDE):
        gains = [simulated(name, "w_dp", kernel=kernel).seconds / simulated(name, "w_mp*", kernel=kernel).seconds
                 for name in LAYERS]
        made.add("w_mp*", f"{kernel}x{kernel}", mean(gains))


def figure_17(made: Draft) -> None:
    """Whole networks: times w_dp, and times one worker."""
    gains: dict[str, list[float]] = {"d_dp": [], "w_mp": [], "w_mp*": []}
    alone: dict[str, list[float]] = {"w_dp": [], "w_mp*": []}
    for name in CNNS:
        base, one = simulated(name, "w_dp"), simulated(name, "w_dp", 1)
        for system, found in gains.items():
            found.append(base.seconds / simulated(name, system).seconds)
            made.add(system, name, found[-1])
        for system, found in alone.items():
            found.append(one.seconds / simulated(name, system).seconds)
    for system, found in gains.items():
        made.add(system, "mean", mean(found))
    made.add("one", "w_dp", mean(alone["w_dp"]))
    made.add("one", "w_mp*", mean(alone["w_mp*"]))
    made.notes += ["batch 256; single precision, 64x64 PEs (the paper: FP16 with 96x96 here); no batch normalisation; "
                   "lines of tiles are sent as all elements"]


def none(made: Draft) -> None:
    """Nothing of it is computed."""
