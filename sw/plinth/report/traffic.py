"""What dies send each other of a plan, as a picture: words a layer, and from die to die."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from plinth.plan.plan import Plan

#: Colours of words that maps and sums take forwards, and errors backwards.
_COLOURS = {"fprop": "#1f4e79", "bprop": "#e0812b"}


def traffic_axes(plan: Plan, bars: Any, heat: Any) -> None:
    """Draw the words that go between dies in one step, but those of rings: of each layer, forwards and backwards, and
    of each pair of dies, sender (row) by receiver (column).

    Parameters
    ----------
    bars, heat : matplotlib.axes.Axes
    """
    from matplotlib.ticker import MaxNLocator

    sharding = plan.sharding
    names = [node.name for node in plan.graph.nodes]
    for phase, base in (("fprop", 0.0), ("bprop", 0.4)):
        sent = dict.fromkeys(names, 0)
        for exchange in sharding.exchanges:
            if exchange.phase == phase:
                sent[exchange.layer] += sharding.exchange_words(exchange)
        bars.bar(np.arange(len(names) - 1) + base, [sent[name] for name in names[:-1]], 0.4, color=_COLOURS[phase],
                 label=phase)
    shown = np.unique(np.linspace(0, len(names) - 2, min(40, len(names) - 1)).round().astype(int))
    bars.set_xticks(shown + 0.2, [names[number] for number in shown], rotation=90, fontsize=7)
    bars.set_ylabel("words a step", fontsize=8)
    bars.tick_params(labelsize=7)
    bars.legend(fontsize=7, frameon=False)
    pairs = np.zeros((plan.dies, plan.dies), dtype=np.int64)
    for exchange in sharding.exchanges:
        pairs += sharding.words_between(exchange)
    np.fill_diagonal(pairs, 0)
    image = heat.imshow(pairs, cmap="viridis", interpolation="nearest")
    heat.set_xlabel("to die", fontsize=8)
    heat.set_ylabel("from die", fontsize=8)
    heat.tick_params(labelsize=7)
    for axis in (heat.xaxis, heat.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    bar = heat.figure.colorbar(image, ax=heat, shrink=0.8)
    bar.set_label("words a step", fontsize=8)
    bar.ax.tick_params(labelsize=7)
