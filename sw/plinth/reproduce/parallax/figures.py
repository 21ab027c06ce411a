"""The tables: Tables 1 to 6, what the text sums up of them, and the setup."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from plinth.files.documents import read_yaml
from plinth.partition.pieces import TOLERANCE, Fit, PieceChoice, fitted, search, searched
from plinth.reproduce.paper import CLAIMS, Draft, Value, paper
from plinth.reproduce.parallax import cluster, messages
from plinth.reproduce.parallax.cluster import Rates, Way, throughput
from plinth.reproduce.parallax.image_models import inception_v3, resnet50
from plinth.reproduce.parallax.models import (
    BATCH,
    EMBEDDING,
    IMAGES,
    MACHINES,
    NMT_ROWS,
    SENTENCE,
    WORKERS,
    SparseModel,
    constructed,
    distinct,
    image_model,
    language_model,
    translation,
)

PARALLAX = paper("parallax")
#: Times of steps by pieces that were measured here.
SAMPLES = Path(__file__).with_name("samples.yaml")
#: Share of dense variables in the LM of section 6.6, with which its alphas come out.
DENSE_SHARE = 0.036
#: Words of an instance in Table 6, and shares of touched rows of the sweep.
LENGTHS, ALPHAS = (120, 60, 30, 15, 8, 4, 1), (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: Numbers of pieces of Table 2, and the fewest that memory allows (section 6.5).
SAMPLED_PIECES, FEWEST = (8, 16, 32, 64, 128, 256), {"LM": 4, "NMT": 2}
#: Steps of a sample of the search (section 3.2, footnote 4), and the share by which brute force ends (section 6.5).
SAMPLE_STEPS, MUCH_SLOWER = 100, 0.1
#: Ways of Table 4.
WAYS = (Way.AR, Way.NAIVE, Way.OPTIMISED, Way.HYBRID)
#: Models in the order of Table 1.
MODELS = ("ResNet-50", "Inception-v3", "LM", "NMT")


@lru_cache(maxsize=1)
def published() -> Mapping[str, float]:
    """The paper's numbers by their ids."""
    return {entry.id.removeprefix("parallax."): float(entry.value) for key in PARALLAX.tables
            for entry in PARALLAX.entries(key) if not isinstance(entry.value, str)}


def gpu_rate(name: str) -> float:
    """Images or words a second of one GPU: what Parallax has on 48, over by how much that is faster (section 6.3)."""
    fastest = f"table4.{name}.HYB" if name in FEWEST else f"table1.{name}.ar"
    return published()[fastest] / published()[f"scaling.{name}"]


@lru_cache(maxsize=8)
def model(name: str) -> SparseModel:
    """One of :data:`MODELS`, with the sizes of section 6.1 and the speed of one GPU."""
    if name == "LM":
        return language_model(gpu_rate(name))
    if name == "NMT":
        return translation(published()["table1.NMT.dense"], published()["table1.NMT.alpha"], gpu_rate(name))
    return image_model(name, resnet50() if name == "ResNet-50" else inception_v3(), gpu_rate(name))


@lru_cache(maxsize=1)
def rates() -> Rates:
    """What machines' software takes, by LM's NaivePS and AR."""
    return cluster.fitted_rates(model("LM"), published()["table4.LM.NaivePS"], published()["table4.LM.AR"])


@lru_cache(maxsize=256)
def speed(name: str, way: Way, machines: int = MACHINES, with_rates: bool = False, whole: bool = False) -> float:
    """Images or words a second of all workers, of one of :data:`MODELS`; each is simulated once."""
    return throughput(model(name), way, machines, rates() if with_rates else None, whole=whole)


def elements(draft: Draft) -> None:
    """Table 1: elements, alpha, and throughput of servers and rings."""
    draft.further = {"rates": "with rates"}
    for name in MODELS:
        of = model(name)
        draft.add(name, "dense", None if name == "NMT" else of.dense)
        draft.add(name, "sparse", of.sparse)
        draft.add(name, "alpha", _alpha(of))
        for what, way in (("PS", Way.NAIVE), ("AR", Way.AR)):
            draft.add(name, what, speed(name, way), {"rates": speed(name, way, with_rates=True)})
    needed = (published()["table1.NMT.alpha"] * (model("NMT").dense + model("NMT").sparse) - model("NMT").dense) / (
        EMBEDDING)
    draft.notes.append(
        f"NMT's alpha: {BATCH} sentences of {SENTENCE} words each side draw "
        f"{distinct(NMT_ROWS, BATCH * SENTENCE):,.0f} distinct ones of {NMT_ROWS:,} by Zipf's law; the paper's alpha "
        f"asks for {needed:,.0f} rows of both tables, {needed / BATCH:.0f} a pair of sentences even if no word came "
        "twice. Elsewhere NMT is taken with the paper's")


def _alpha(of: SparseModel) -> float:
    """The share of elements that a worker uses; of NMT by the words of its sentences, where the model has the paper's.
    """
    if of.name == "NMT":
        of = replace(of, tables=tuple(replace(table, draws=BATCH * SENTENCE) for table in of.tables))
    return of.alpha


def _fit(name: str) -> tuple[dict[int, float], Fit]:
    """Seconds of a step by pieces, as Table 2 has them, and equation 1 fitted to all."""
    samples = {pieces: _words(name) / published()[f"table2.{name}.{pieces}"] for pieces in SAMPLED_PIECES}
    return samples, fitted(samples)


def _words(name: str) -> float:
    """Words of a step of all workers."""
    return MACHINES * WORKERS * model(name).instances


def pieces(draft: Draft) -> None:
    """Table 2: throughput by the number of pieces, beside equation 1 fitted to the paper's six samples of a model."""
    for name in FEWEST:
        (samples, fit), words = _fit(name), _words(name)
        for count in SAMPLED_PIECES:
            draft.add(name, f"P = {count}", words / fit.seconds(count))
        speeds = {count: words / seconds for count, seconds in samples.items()}
        draft.add(name, "best over worst", max(speeds.values()) / min(speeds.values()))
        draft.notes.append(f"{name}: t(P) = {fit.constant:.3f} + {fit.shared:.3f} / P + {fit.each:.6f} P seconds, "
                           f"least at P = {fit.least(FEWEST[name], 1024)}")
        draft.points[name] = {"fit": [fit.constant, fit.shared, fit.each], "words": words}


def formulas(draft: Draft) -> None:
    """Table 3: what each machine sends and receives, counted message by message, beside the formulas."""
    words, alpha, count = 840.0, 0.25, 16
    found: dict[str, bool] = {}
    for machines in (2, 4, 8):
        every, counted = range(machines), partial(messages.machine_words, machines=machines)
        for kind, share in (("dense", 1.0), ("sparse", alpha)):
            moved = share * words
            # One variable: of the machine that serves it. Of several each machine serves as many.
            one = counted(messages.served(every, [0], moved))[0]
            many = counted(messages.served(every, [*every] * (count // machines), moved))
            ring = counted(messages.ring(machines, words) if kind == "dense" else messages.gathered(machines, moved))
            borders = machines - 1
            expected = {
                f"{kind}, PS, one variable": (one, 2 * moved * borders),
                f"{kind}, PS, m variables": (many[0], 4 * moved * count * borders / machines),
                f"{kind}, AR, one variable": (ring[0], 4 * words * borders / machines if kind == "dense"
                                              else 2 * moved * borders),
                f"{kind}, AR, m variables": (count * ring[0], 4 * words * count * borders / machines
                                             if kind == "dense" else 2 * moved * count * borders)}
            if kind == "sparse":
                whole = counted(messages.ring(machines, words))[0]
                expected |= {"sparse, AR over PS, m variables": (count * ring[0] / many[0], machines / 2),
                             "sparse as dense over PS": (count * whole / many[0], 1 / alpha)}
            for what, (counts, formula) in expected.items():
                found[what] = found.get(what, True) and abs(counts / formula - 1) < 1e-12 and min(many) == max(many)
    for what, same in found.items():
        formula = draft.paper("", what)
        draft.add("", what, formula if same else f"not {formula}")
    draft.add("", "equation 1", _equation())
    draft.notes.append(f"counted on 2, 4 and 8 machines of one worker: {count} variables of {words:g} words, alpha "
                       f"{alpha:g}. That workers send these words is counted by row sparse_words_over_formula of "
                       "plinth bench")


def _equation() -> str:
    """Equation 1, if a fit finds its factors again in times that it gives."""
    made = Fit(0.9, 11.0, 0.0016)
    found = fitted({count: made.seconds(count) for count in SAMPLED_PIECES})
    same = all(abs(one / other - 1) < 1e-6 for one, other in zip(
        (found.constant, found.shared, found.each), (made.constant, made.shared, made.each), strict=True))
    return f"{'' if same else 'not '}iter_time(P) = theta0 + theta1/P + theta2*P"


def ways(draft: Draft) -> None:
    """Table 4: throughput of each way, by the network alone, with a dense variable on one server, and with rates."""
    draft.further = {"whole": "one server", "rates": "with rates"}
    for name in FEWEST:
        for way in WAYS:
            draft.add(name, way, speed(name, way), {"whole": speed(name, way, whole=True),
                                                    "rates": speed(name, way, with_rates=True)})
    found = rates()
    draft.notes.append(
        "ours: 100 Gb/s into each machine and out of it, a GPU that computes as fast as the paper's one GPU, nothing "
        "else; 'one server': the largest dense variable is served by one machine")
    draft.notes.append(
        f"'with rates': a server adds up {found.summed / 1e6:.1f} million words of pushed rows a second, so that LM's "
        f"NaivePS comes out, an AllGatherv passes {found.gathered / 1e6:.0f} million, so that LM's AR does; of the "
        "others only HYB played a part, as it gives the speed of one GPU (over section 6.3's factor)")


def searches(draft: Draft) -> None:
    """Table 5, and the search of section 3.2 on the samples of Table 2 and on ours."""
    samples_of, lost, minutes, runs = [], [], [], []
    for name in FEWEST:
        samples, fit = _fit(name)
        choice = _searches(draft, name, samples, fit, MACHINES, FEWEST[name])
        samples_of.append(len(choice.samples))
        minutes.append(sum(choice.samples.values()) * SAMPLE_STEPS / 60)
        lost.append(_lost(choice, samples))
        runs.append(_brute_force(fit, FEWEST[name]))
    measured = read_yaml(SAMPLES)
    samples = {int(pieces): float(seconds) for pieces, seconds in measured["seconds"].items()}
    fit = fitted(samples)
    _searches(draft, "ours", samples, fit, measured["machines"], 1)
    draft.points["ours"] = {"fit": [fit.constant, fit.shared, fit.each], "samples": list(samples.items())}
    for name in FEWEST:
        draft.add(name, "Parallax", speed(name, Way.HYBRID))
    draft.add("search", "steps of a sample", SAMPLE_STEPS)
    draft.add("search", "of these not counted", SAMPLE_STEPS // 2)
    first = next(search(MACHINES, max(SAMPLED_PIECES)))
    draft.add("search", "first sample", f"{'' if first == MACHINES else 'not '}number of machines")
    draft.add("search", "samples, most", max(samples_of), note=f"LM {samples_of[0]}, NMT {samples_of[1]}")
    draft.add("search", "minutes, most", max(minutes), note=f"LM {minutes[0]:.0f}, NMT {minutes[1]:.0f}, by Table 2's "
              f"times and {SENTENCE} words a sentence")
    draft.add("search", "runs of brute force, fewest", min(runs),
              note=f"LM {runs[0]}, NMT {runs[1]}, by equation 1")
    draft.add("search", "below the best, most", max(lost))
    draft.notes.append(f"our search takes a step for slower from {100 * TOLERANCE:g} % on. Our samples: "
                       f"{measured['of']}; what searches find that measure anew is that row")


def _searches(draft: Draft, name: str, samples: Mapping[int, float], fit: Fit, machines: int, fewest: int
              ) -> PieceChoice:
    """Rows of searches on samples, without a tolerance and with ours; the first of them."""
    found = []
    for tolerance in (0.0, TOLERANCE):
        choice = searched(partial(_seconds, samples, fit), search(
            machines, max(samples), tolerance=tolerance, repeats=1, least=fewest, confirm=False))
        walked = ", ".join(map(str, choice.samples))
        draft.add(f"{name}, search", f"P found, tolerance {100 * tolerance:g} %", choice.pieces,
                  note=f"of samples at {walked}, {_lost(choice, samples):.1f} % below the best; equation 1 fitted to "
                       f"these is least at {choice.fit.least(min(choice.samples), max(choice.samples))}")
        found.append(choice)
    return found[0]


def _lost(choice: PieceChoice, samples: Mapping[int, float]) -> float:
    """By how many per cent the throughput is less than the best sample's."""
    return 100 * (1 - min(samples.values()) / choice.samples[choice.pieces])


def _seconds(samples: Mapping[int, float], fit: Fit, pieces: int) -> float:
    """Seconds of a step by Table 2, or where it has no sample by equation 1."""
    return samples.get(pieces, fit.seconds(pieces))


def _brute_force(fit: Fit, fewest: int) -> int:
    """Runs with ever more pieces, two more each, until one is much slower than the best."""
    runs, best, count = 0, fit.seconds(fewest), fewest
    while fit.seconds(count) * (1 - MUCH_SLOWER) <= best:
        best, runs, count = min(best, fit.seconds(count)), runs + 1, count + 2
    return runs


def alphas(draft: Draft) -> None:
    """Table 6: hybrid over servers by the number of words of an instance; and a sweep of alpha over all ways."""
    draft.further = {"rates": "with rates"}
    gains, gains_with_rates = {}, {}
    for length in LENGTHS:
        of, what = constructed(length, DENSE_SHARE, gpu_rate("LM")), f"{length} words"
        hybrid, servers = throughput(of, Way.HYBRID), throughput(of, Way.NAIVE)
        slow_hybrid, slow_servers = (throughput(of, way, rates=rates()) for way in (Way.HYBRID, Way.NAIVE))
        gains[length], gains_with_rates[length] = hybrid / servers, slow_hybrid / slow_servers
        draft.add("alpha", what, of.alpha)
        draft.add("parallax", what, hybrid, {"rates": slow_hybrid})
        draft.add("tfps", what, servers, {"rates": slow_servers})
        draft.add("speedup", what, gains[length], {"rates": gains_with_rates[length]})
    draft.add(CLAIMS, "least speedup", min(gains.values()), {"rates": min(gains_with_rates.values())})
    draft.add(CLAIMS, "words of the largest speedup", max(gains, key=lambda length: gains[length]),
              {"rates": max(gains_with_rates, key=lambda length: gains_with_rates[length])})
    lm = model("LM")
    sweep: dict[str, list[float]] = {way: [] for way in Way}
    for alpha in ALPHAS:
        of = _touching(lm, alpha)
        seconds = {way: cluster.step_seconds(of, way) - of.seconds for way in Way}
        best = min(seconds, key=lambda way: seconds[way])
        slowest = max(seconds, key=lambda way: seconds[way])
        draft.add("sweep", f"alpha of rows {alpha:g}", seconds[slowest] / seconds[best],
                  note=f"{best} in {1e3 * seconds[best]:.1f} ms; " + ", ".join(
                      f"{way} {1e3 * took:.1f}" for way, took in seconds.items() if way != best))
        for way, took in seconds.items():
            sweep[way].append(took)
    draft.points = {"alphas": list(ALPHAS), "seconds": sweep}
    draft.notes.append("the sweep: milliseconds of messages of a step of LM, by the network alone, whose workers touch "
                       "that share of rows, each independently; the slowest way over the fastest")


def _touching(of: SparseModel, alpha: float) -> SparseModel:
    """A model with tables as large, whose workers touch a share of rows, any alike."""
    return replace(of, tables=tuple(replace(table, draws=alpha * table.rows, spread=True) for table in of.tables))


def summary(draft: Draft) -> None:
    """What the abstract and sections 1, 6.2 to 6.5 sum up; 'its own tables': the same of throughputs that it prints."""
    draft.notes.append(
        "HYB over OptPS: servers over which variables are evenly spread send 7/8 of merged dense gradients each way, a "
        "ring of 48 workers 47/48, so that OptPS is ahead by that where no machine serves more than others")
    draft.notes.append("scaling, and Parallax in Table 5, are the ratio of HYB in Table 4 once more")
    draft.notes.append("AR over PS of dense models: TF-PS sends variables to each of six GPUs for itself, which the "
                       "paper does not give as the reason")
    draft.notes.append("time to the same loss: all ways make the same steps, so that it is the throughput on as many "
                       "GPUs as the paper took (36 and 24)")
    draft.further = {"rates": "with rates", "tables": "its own tables"}
    number = published()

    def factor(series: str, what: str, name: str, way: Way, over: Way, machines: int = MACHINES,
               tables: float | None = None) -> None:
        columns: dict[str, Value] = {
            "rates": speed(name, way, machines, True) / speed(name, over, machines, True), "tables": tables}
        draft.add(series, what, speed(name, way, machines) / speed(name, over, machines), columns)

    def ratio(name: str, way: Way, over: Way) -> float:
        return number[f"table4.{name}.{way}"] / number[f"table4.{name}.{over}"]

    for name in FEWEST:
        factor("speedup", f"{name}, over TF-PS", name, Way.HYBRID, Way.NAIVE, tables=ratio(name, Way.HYBRID, Way.NAIVE))
    factor("speedup", "LM, over Horovod", "LM", Way.HYBRID, Way.AR, tables=ratio("LM", Way.HYBRID, Way.AR))
    for name in MODELS[:2]:
        factor("speedup", f"{name}, over TF", name, Way.AR, Way.NAIVE,
               tables=number[f"table1.{name}.ar"] / number[f"table1.{name}.ps"])
    for name, machines in (("LM", 6), ("NMT", 4)):
        factor("convergence", f"{name}, over TF-PS", name, Way.HYBRID, Way.NAIVE, machines)
        factor("convergence", f"{name}, over Horovod", name, Way.HYBRID, Way.AR, machines)
    for name in MODELS:
        way = Way.HYBRID if name in FEWEST else Way.AR
        draft.add("scaling", name, speed(name, way) / gpu_rate(name),
                  {"rates": speed(name, way, with_rates=True) / gpu_rate(name)})
    for name in FEWEST:
        ideal = MACHINES * WORKERS * gpu_rate(name) / 100
        draft.add("efficiency", name, speed(name, Way.NAIVE) / ideal, {
            "rates": speed(name, Way.NAIVE, with_rates=True) / ideal,
            "tables": number[f"table4.{name}.NaivePS"] / ideal})
    for series, way, over in (("naive over AR", Way.NAIVE, Way.AR), ("optimised over naive", Way.OPTIMISED, Way.NAIVE),
                              ("hybrid over optimised", Way.HYBRID, Way.OPTIMISED)):
        for name in FEWEST:
            factor(series, name, name, way, over, tables=ratio(name, way, over))
    for name in FEWEST:
        gain = number[f"table5.{name}.Parallax"] / number[f"table5.{name}.Min"]
        draft.add("pieces", f"{name}, over the fewest", gain)
    nmt = {what: number[f"table1.NMT.{what}"] for what in ("dense", "sparse")}
    lm = {what: number[f"table1.LM.{what}"] for what in ("dense", "sparse")}
    draft.add("exchanged", "NMT", model("NMT").dense + model("NMT").touched)
    draft.add("exchanged", "ResNet-50", model("ResNet-50").dense)
    draft.add("exchanged", "Inception-v3", model("Inception-v3").dense)
    draft.add("largest", "Inception-v3", model("Inception-v3").largest)
    draft.add("largest", "LM", float(model("LM").tables[0].rows * model("LM").tables[0].width))
    draft.add("shares", "NMT, dense", 100 * nmt["dense"] / sum(nmt.values()))
    draft.add("shares", "LM, sparse", 100 * lm["sparse"] / sum(lm.values()))
    for what, name, way, over in (
            ("AR over PS, ResNet-50", "ResNet-50", Way.AR, Way.NAIVE),
            ("AR over PS, Inception-v3", "Inception-v3", Way.AR, Way.NAIVE),
            ("PS over AR, LM", "LM", Way.NAIVE, Way.AR), ("PS over AR, NMT", "NMT", Way.NAIVE, Way.AR),
            ("HYB over OptPS, LM, one server", "LM", Way.HYBRID, Way.OPTIMISED),
            ("HYB over OptPS, NMT, one server", "NMT", Way.HYBRID, Way.OPTIMISED)):
        whole = what.endswith("one server")
        draft.add(CLAIMS, what, speed(name, way, whole=whole) / speed(name, over, whole=whole),
                  {"rates": speed(name, way, with_rates=True, whole=whole) / speed(
                      name, over, with_rates=True, whole=whole)})


def setup(draft: Draft) -> None:
    """The batches of section 6.1; the models that it describes, and targets, are not computed."""
    draft.add("", "batch, images", IMAGES)
    draft.add("", "batch, sentences", BATCH)
