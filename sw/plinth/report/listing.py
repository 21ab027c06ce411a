"""What has a name: networks, arrays, presets, as a list report's fields and as a table."""

from typing import Any

from rich.console import Console

from plinth.array.array import ARRAYS
from plinth.network.zoo import NETWORKS
from plinth_hw.isa.parameters import PRESETS
from plinth_hw.terminal.table import new_table, print_table


def listing() -> dict[str, list[dict[str, Any]]]:
    """Networks with parameters and multiply-adds of a sample's fprop, arrays, presets."""
    return {
        "networks": [
            {"name": network.name, "input_shape": list(network.input), "output_shape": list(network.output),
             "loss_kind": network.loss.kind, "layer_count": len(network.layers),
             "weighted_layer_count": len(network.weighted), "parameters": network.parameters,
             "macs_per_sample": network.macs} for network in NETWORKS.values()],
        "arrays": [
            {"name": array.name, "topology": array.topology, "dies": array.dies, "link_count": len(array.links),
             "ports": array.ports, "switches": array.switches, "preset": array.preset,
             "link_words_per_cycle": float(array.rate * array.ring_links), "link_latency_cycles": array.link_latency,
             "clock_mhz": float(array.clock_mhz)} for array in ARRAYS.values()],
        "presets": [
            {"name": die.name, "pe_rows": die.rows, "pe_columns": die.columns,
             "multiply_format": str(die.multiply_format), "beat_words": die.beat_words,
             "memory_words_per_cycle": float(die.memory_words_per_cycle)}
            for die in PRESETS.values()],
    }


#: Columns of the tables on a terminal: heading and key of the data.
_COLUMNS = {
    "networks": {"network": "name", "input": "input_shape", "output": "output_shape",
                 "weighted": "weighted_layer_count", "parameters": "parameters", "MACs a sample": "macs_per_sample"},
    "arrays": {"array": "name", "topology": "topology", "dies": "dies", "links": "link_count", "ports": "ports",
               "words/cycle": "link_words_per_cycle", "MHz": "clock_mhz", "preset": "preset"},
    "presets": {"preset": "name", "rows": "pe_rows", "columns": "pe_columns", "products": "multiply_format",
                "beat": "beat_words", "memory words a cycle": "memory_words_per_cycle"},
}


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def show(console: Console) -> None:
    """Print a table of each, at most 80 columns wide."""
    for what, rows in listing().items():
        table = new_table(*_COLUMNS[what], text=[
            heading for heading, key in _COLUMNS[what].items() if isinstance(rows[0][key], str)])
        for row in rows:
            table.add_row(*(_text(row[key]) for key in _COLUMNS[what].values()))
        print_table(console, table)
        console.print()
