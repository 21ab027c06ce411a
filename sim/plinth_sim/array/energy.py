"""Energy of a step, counted from what was done. Sources: docs/simulator.md."""

from dataclasses import dataclass

PICO = 1e-12


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Picojoules of an operation or a word of 32 bits; of a link, of a word that crosses it once."""

    add: float = 0.9
    multiply: float = 3.7
    sram: float = 5.0
    dram: float = 640.0
    #: 6.78 pJ a bit.
    link: float = 6.78 * 32


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What was done in a step, all dies and links together."""

    adds: float = 0.0
    multiplies: float = 0.0
    sram_words: float = 0.0
    dram_words: float = 0.0
    link_words: float = 0.0

    def joules(self, energy: Energy) -> dict[str, float]:
        """By kind."""
        return {"add": self.adds * energy.add * PICO, "multiply": self.multiplies * energy.multiply * PICO,
                "sram": self.sram_words * energy.sram * PICO, "dram": self.dram_words * energy.dram * PICO,
                "link": self.link_words * energy.link * PICO}
