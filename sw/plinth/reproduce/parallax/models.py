"""The models of section 6.1: their dense variables and tables, rows that are touched in a step, and work of a GPU.

The paper prints one alpha a model, not the rows that a worker touches of each table. They are computed here as the
expected number of distinct words among a step's draws, by Zipf's law with exponent 1, as real text and the sampled
softmax of the language model draw them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

#: Workers of a machine, and machines.
WORKERS, MACHINES = 6, 8
#: Instances of a batch of a GPU (section 6.1).
BATCH, IMAGES = 128, 64
#: Words of an instance of LM (Jozefowicz et al., 2016: 20 steps are unrolled), rows that its softmax samples beside the
#: labels (the same, 8,192), and words of a sentence of NMT, of either side (Luong et al., 2015, of the same pairs: 116
#: and 110 million words in 4.5 million).
UNROLLED, SAMPLED, SENTENCE = 20, 8192, 25
#: Words of LM's vocabulary (section 6.1), and rows of each of NMT's two tables: 74.9M elements by 2 x 1,024.
VOCABULARY, NMT_ROWS = 800_000, 36_572
#: Numbers of a word of LM, of its LSTM's state, and of a word of NMT (section 6.1).
PROJECTED, HIDDEN, EMBEDDING = 512, 2048, 1024


@lru_cache(maxsize=8)
def zipf(count: int) -> NDArray[np.float64]:
    """Shares of so many words, the n-th most frequent one's as 1 / n."""
    shares = 1 / np.arange(1, count + 1)
    shares /= shares.sum()
    shares.flags.writeable = False
    return shares


def distinct(count: int, draws: float) -> float:
    """Expected number of distinct words among so many draws from ``count`` words."""
    return float(-np.expm1(draws * np.log1p(-zipf(count))).sum())


def draws_of(count: int, rows: float) -> float:
    """Draws whose expected number of distinct words is ``rows``."""
    most = 2.0 * rows
    while distinct(count, most) < rows:
        most *= 2
    return float(brentq(lambda draws: distinct(count, draws) - rows, rows, most))


@dataclass(frozen=True)
class SparseTable:
    """Rows that are looked up by number.

    Parameters
    ----------
    rows, width : int
    draws : float
        Of a worker in a step.
    spread : bool
        A worker's draws are different rows, any alike, and workers draw independently; else by Zipf's law.
    """

    rows: int
    width: int
    draws: float
    spread: bool = False

    def touched(self, workers: int = 1) -> float:
        """Expected rows that so many workers touch together in a step."""
        if self.spread:
            return self.rows * (1 - (1 - self.draws / self.rows) ** workers)
        return distinct(self.rows, self.draws * workers)

    def words(self, workers: int = 1) -> float:
        """Words of the rows that so many workers touch together."""
        return self.touched(workers) * self.width


@dataclass(frozen=True)
class SparseModel:
    """A model on a GPU.

    Parameters
    ----------
    name : str
    dense : float
        Elements of all dense variables.
    tables : sequence of SparseTable
    instances : float
        Images, or words, of a worker's batch.
    rate : float
        Images or words a second of one GPU alone.
    largest : float
        Elements of the largest dense variable.
    """

    name: str
    dense: float
    tables: Sequence[SparseTable]
    instances: float
    rate: float
    largest: float

    @property
    def sparse(self) -> float:
        """Elements of all tables, touched or not."""
        return float(sum(table.rows * table.width for table in self.tables))

    @cached_property
    def touched(self) -> float:
        """Words of tables that a worker touches in a step."""
        return sum(table.words() for table in self.tables)

    @cached_property
    def merged(self) -> float:
        """Words of tables that the workers of a machine touch together."""
        return sum(table.words(WORKERS) for table in self.tables)

    @property
    def alpha(self) -> float:
        """The share of its elements that a worker uses, weighted by elements (Table 1)."""
        return (self.dense + self.touched) / (self.dense + self.sparse)

    @property
    def seconds(self) -> float:
        """What a step of one GPU alone takes."""
        return self.instances / self.rate


def image_model(name: str, elements: int, rate: float) -> SparseModel:
    """ResNet-50 or Inception-v3: dense variables alone, the weights of 1,000 classes the largest."""
    return SparseModel(name, elements, (), IMAGES, rate, 2048 * 1000)


def language_model(rate: float) -> SparseModel:
    """LM: a table of words, an LSTM whose state is projected before it is fed back (weights of four gates, their
    biases, the projection), and a softmax over sampled rows of another table with a bias."""
    gates = 4 * HIDDEN * 2 * PROJECTED
    words = BATCH * UNROLLED
    # Labels, and candidates that are drawn until there are so many distinct ones.
    output = words + draws_of(VOCABULARY, SAMPLED)
    return SparseModel("LM", gates + 4 * HIDDEN + HIDDEN * PROJECTED, (
        SparseTable(VOCABULARY, PROJECTED, words), SparseTable(VOCABULARY, PROJECTED + 1, output)), words, rate, gates)


def translation(dense: float, alpha: float, rate: float) -> SparseModel:
    """NMT: tables of both languages, of which a worker touches what the paper's alpha says, whatever a sentence has,
    and a softmax over one, its largest dense variable."""
    rows = (alpha * (dense + 2 * NMT_ROWS * EMBEDDING) - dense) / (2 * EMBEDDING)
    table = SparseTable(NMT_ROWS, EMBEDDING, draws_of(NMT_ROWS, rows))
    return SparseModel("NMT", dense, (table, table), BATCH * 2 * SENTENCE, rate, NMT_ROWS * EMBEDDING)


def constructed(length: int, share: float, rate: float) -> SparseModel:
    """The LM of section 6.6: a vocabulary of which instances of 120 words use all, the dense variables a share of it.

    The paper's alpha grows by 0.964 / 120 a word of an instance: that is a new row for each of 128 instances, if the
    two tables, of 15,360 rows, are 0.964 of the model.
    """
    rows = BATCH * 120
    tables = tuple(SparseTable(rows, PROJECTED, BATCH * length, spread=True) for _ in range(2))
    sparse = 2 * rows * PROJECTED
    dense = share / (1 - share) * sparse
    return SparseModel(f"{length} words", dense, tables, BATCH * length, rate, dense)
