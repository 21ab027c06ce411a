"""Rows about predicted gathers and skipped scatters: bits on links, and neurons that are dropped, which none may be."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from plinth.bench.row import BenchRow
from plinth.reproduce.sparsity import drops, gathers, scatters
from plinth.reproduce.sparsity.networks import RECIPES, trained

#: The network that rows are about; the others stand in `detail`.
NETWORK = "photographs"
#: Tiles that a row about drops sends through.
TILES = 1_000_000


def _gather_detail(name: str, outputs: int, lines: bool) -> dict[str, Any]:
    """What is sent by all schemes, of all and of one another."""
    layers = gathers.network(name, outputs, lines)
    total = sum(layers, gathers.Sent())
    return {"dead_units": total.dead / total.units, "unread_units": total.unread / total.units,
            **{scheme: total.share(scheme) for scheme in (
                "paper", "pooled_paper", "oracle", "pooled_oracle", "one_round", "two_rounds", "unpooled")},
            "found": {scheme: total.found_dead(scheme) for scheme in ("paper", "one_round", "two_rounds")},
            "found_unread": {scheme: total.found_unread(scheme) for scheme in ("one_round", "two_rounds")},
            "over_paper": total.two_rounds / total.paper, "over_pooled_paper": total.over_pooled_paper,
            "unpooled_over_paper": total.unpooled_over_paper, "over_oracle": total.two_rounds / total.oracle,
            "over_pooled_oracle": total.two_rounds / total.pooled_oracle,
            "dropped": total.dropped, "accuracy": trained(name).accuracy, "layers": [asdict(layer) for layer in layers]}


def prediction_bits(outputs: int, lines: bool) -> list[BenchRow]:
    """Bits of gathers by the block code in two rounds, which knows of max-pools, over sending all, of all layers behind
    the first; and what the code itself saves: over MPT's scheme with the same knowledge, where both know of pools and
    where neither does."""
    details = {name: _gather_detail(name, outputs, lines) for name in RECIPES}
    own, kind = details[NETWORK], f"f{outputs}3_{'1d' if lines else '2d'}"
    both, neither = own["over_pooled_paper"], own["unpooled_over_paper"]
    rows = [BenchRow(f"prediction_bits_{kind}", own["two_rounds"], "bits sent / bits of all elements, max-pools known",
                     f"{own['dead_units']:.0%} of units dead, {own['found']['two_rounds']:.1%} of these found; "
                     f"{both:.3f} of the bits of MPT's scheme where both know of pools, {neither:.3f} where neither "
                     f"does; {own['over_oracle']:.2f} of the oracle's, which knows of none", details)]
    for name, key, who in ((f"prediction_over_mpt_{kind}", "over_pooled_paper", "both"),
                           (f"prediction_over_mpt_unpooled_{kind}", "unpooled_over_paper", "neither")):
        rows.append(BenchRow(name, own[key], f"bits sent / bits that MPT's scheme sends, {who} knowing max-pools",
                             "first bits and masks of all elements",
                             {network: detail[key] for network, detail in details.items()}))
    return rows


def skip_bits(outputs: int) -> list[BenchRow]:
    """Words of scatters over those of (words that are not +0, and a map)."""
    skips = {name: scatters.network(name, outputs) for name in RECIPES}
    detail = {name: {**asdict(skip), "forward_share": skip.forward / skip.all,
                     "backward_share": skip.backward / skip.errors,
                     "returned_share": skip.returned / skip.all, "lines_share": skip.line_words / skip.lines,
                     "lines_of_tiles": skip.line_words / skip.all} for name, skip in skips.items()}
    own = skips[NETWORK]
    return [BenchRow(f"skip_bits_f{outputs}3_{way}", sent / least,
                     "bits sent / bits of words other than +0 and a map of them",
                     f"{sent / whole:.3f} of all words; {reason}", detail)
            for way, sent, whole, least, reason in (
                ("forward", own.forward, own.all, own.forward_least, "more are only sums that cancel"),
                ("backward", own.backward, own.errors, own.backward_least,
                 "more are neurons that live and have no error, where forward masks serve as maps"))]


def prediction_false_drops() -> list[BenchRow]:
    """Live neurons found dead, of random and adversarial tiles; those of trained networks stand with their bits."""
    tally = drops.dropped(TILES)
    return [BenchRow("prediction_false_drops", tally.dropped, "neurons that live and are found dead",
                     f"nothing: of {tally.tiles:,} tiles; MPT's printed bound drops {tally.printed:,}", asdict(tally))]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "prediction_false_drops": prediction_false_drops,
    **{f"{row}_f{outputs}3_{'1d' if lines else '2d'}": partial(prediction_bits, outputs, lines)
       for outputs in (2, 4) for lines in (False, True)
       for row in ("prediction_bits", "prediction_over_mpt", "prediction_over_mpt_unpooled")},
    **{f"skip_bits_f{outputs}3_{way}": partial(skip_bits, outputs)
       for outputs in (2, 4) for way in ("forward", "backward")},
}
