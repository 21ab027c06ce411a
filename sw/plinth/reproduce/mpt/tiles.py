"""Section V.B, F(2x2,3x3): prediction and zero-skipping, measured on networks trained here on real images."""

from functools import lru_cache

from plinth.reproduce.paper import CLAIMS, Draft
from plinth.reproduce.sparsity import drops, gathers, scatters
from plinth.reproduce.sparsity.networks import RECIPES, trained
from plinth_hw.isa.winograd import transform

#: The network that stands for the paper's; the others stand beside it.
NETWORK = "photographs"
#: Outputs of a tile each way.
OUTPUTS = 2
#: Tiles that the paper's bound is tried with, at least.
TILES = 50_000


@lru_cache(maxsize=4)
def gather(name: str, lines: bool) -> gathers.Sent:
    """What gathers of a network send."""
    return sum(gathers.network(name, OUTPUTS, lines), gathers.Sent())


def figure_12(draft: Draft) -> None:
    """Units whose neurons are all dead, and those found so, of all, in per cent."""
    better = []
    for name in RECIPES:
        shares = []
        for what, lines in (("2-D, tiles", False), ("1-D, lines", True)):
            ratio = gathers.ratio(name, OUTPUTS, lines)
            shares.append(ratio.by_bits[gathers.PAPER_BITS[lines]] / ratio.dead)
            draft.add(name, f"{what}, dead", 100 * ratio.dead)
            for bits, share in ratio.by_bits.items():
                draft.add(name, f"{what}, found with {bits} bits", 100 * share)
            draft.add(name, f"{what}, found by the block code", 100 * ratio.code)
        better.append(shares[1] / shares[0])
    draft.add(CLAIMS, "found, 1-D / 2-D", min(better),
              note="of dead units those found with the paper's bits, 5 and 6; the least of the networks")
    draft.notes += ["the paper prints no numbers; regions at the scale of each layer that sends the fewest bits, with "
                    "a bound that is sound for truncated words", _networks()]


def prediction(draft: Draft) -> None:
    """Words saved, in per cent, by the paper's scheme, and by ours beside it."""
    draft.add("pred", "2-D, levels", 1 << gathers.PAPER_BITS[False])
    draft.add("pred", "1-D, levels", 1 << gathers.PAPER_BITS[True])
    size = OUTPUTS + 2
    for name in (NETWORK, *(other for other in RECIPES if other != NETWORK)):
        series = "pred" if name == NETWORK else name
        by_tiles, by_lines = (gather(name, lines) for lines in (False, True))
        # Where sources hold lines they send m words of each instead of T.
        shorter = OUTPUTS / size
        draft.add(series, "2-D, gathers saved, %", 100 * (1 - by_tiles.share("paper")))
        draft.add(series, "2-D, gathers saved by the block code, %", 100 * (1 - by_tiles.share("two_rounds")))
        draft.add(series, "1-D, gathers saved, %", 100 * (1 - shorter * by_lines.share("paper")))
        draft.add(series, "1-D, gathers saved by the block code, %", 100 * (1 - shorter * by_lines.share("two_rounds")))
        draft.add(series, "1-D, of the words of lines alone, %", 100 * (1 - by_lines.share("paper")))
        skipped = scatters.network(name, OUTPUTS)
        draft.add(series, "2-D, scatters saved, %", 100 * (1 - skipped.forward / skipped.all))
        draft.add(series, "1-D, scatters saved, %", 100 * (1 - skipped.line_words / skipped.all))
        draft.add(series, "1-D, zeros of lines alone, %", 100 * (1 - skipped.line_words / skipped.lines))
    printed = drops.dropped(TILES, which=[(None if lines else transform(OUTPUTS, 3).a, transform(OUTPUTS, 3).a)
                                          for lines in (False, True)])
    draft.add(CLAIMS, "live neurons dropped", printed.printed,
              note=f"of {printed.live:,} live ones of {printed.tiles:,} random and adversarial tiles; with the "
                   f"sign-aware bound {printed.dropped}")
    draft.notes += ["of all words of tiles, headers and maps counted; 1-D with what lines save by being transformed "
                    "before they are sent, without which the paper's numbers are out of reach; the block code knows of "
                    "max-pools, the paper's scheme of none", _networks()]


def _networks() -> str:
    return "; ".join(f"{name}: {RECIPES[name].title}, {trained(name).accuracy:.0%} of the test images right"
                     for name in RECIPES)
