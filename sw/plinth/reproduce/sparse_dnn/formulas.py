"""What rows that are dealt out at random make processors send, expected: no partition is needed for it.

A column has 32 readers. A part owns none of them with the probability (1 - 1/P)^32, so that it reads the column with
h = 1 - (1 - 1/P)^32. The owner of the column is one of P, whoever reads: of the P - 1 others so many get its word. A
pair of processors has a message where one of the N/P columns of the sender is read by the receiver: 1 - (1 - h)^(N/P).

So each row's owner is drawn for itself. Rows that are dealt out evenly are drawn without putting back, and readers meet
on a part a little less often: 0.9 to 1.5 % more words of N = 1,024, 0.2 to 0.4 % of 4,096, less of more neurons.
"""

from plinth.network.sparse.radix_net import CONNECTIONS


def _reads(parts: int) -> float:
    return 1 - (1 - 1 / parts) ** CONNECTIONS


def random_words(neurons: int, layers: int, parts: int) -> float:
    """Words that a processor sends for an input vector, both directions: 2 N L (P - 1) h / P."""
    return 2 * neurons * layers * (parts - 1) * _reads(parts) / parts


def random_messages(neurons: int, layers: int, parts: int) -> float:
    """Messages that a processor sends for an input vector, both directions: 2 L (P - 1) (1 - (1 - h)^(N/P))."""
    return 2 * layers * (parts - 1) * (1 - (1 - _reads(parts)) ** (neurons / parts))


def least_words(neurons: int, layers: int, parts: int) -> float:
    """Words that a processor sends at least on average, both directions, if each has as many rows: a column's 32
    readers are spread over 32 P / N processors or more, of which one may be its owner; 0 where one holds them all."""
    return 2 * neurons * layers * max(CONNECTIONS * parts / neurons - 1, 0) / parts
