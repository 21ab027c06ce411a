"""A host as the machine of an array: what its processor does in a nanosecond, in a few rates that are fitted to
measurements (``plinth array host``); what work takes with them is in :mod:`plinth.machine.host`."""

from dataclasses import dataclass, fields

from plinth.files.forms import described

#: Clock of arrays of hosts: a cycle is a nanosecond.
HOST_CLOCK_MHZ = 1000
#: Nanoseconds that a call, a run or a message may take, at most: a second.
MOST_NANOSECONDS = 1_000_000_000
#: Each rate: least and largest value, and what it counts.
RATES: dict[str, tuple[float, float, str]] = {
    "multiply_adds_per_ns": (1e-6, 1e6, "multiply-adds of products"),
    "product_words_per_ns": (1e-6, 1e6, "words of the operands and the result of products"),
    "cached_words_per_ns": (1e-6, 1e6, "words of element-wise work, copies and sums that the cache holds"),
    "memory_words_per_ns": (1e-6, 1e6, "words of such work that it does not hold"),
    "cache_words": (0, 1 << 40, "words that the cache holds"),
    "functions_per_ns": (1e-6, 1e6, "elements of an exponential or another function"),
    "call_ns": (0, MOST_NANOSECONDS, "nanoseconds of the call of a kernel"),
    "run_ns": (0, MOST_NANOSECONDS, "nanoseconds of a run of words next to each other, where kernels go from run to "
                                    "run"),
    "message_ns": (0, MOST_NANOSECONDS, "nanoseconds in which a host sends or takes a message, beside its words and "
                                        "the link"),
}


@dataclass(frozen=True, kw_only=True)
class HostRates:
    """The rates of a host: its work in a nanosecond; numbers are FP32, a word each.

    Parameters
    ----------
    multiply_adds_per_ns, product_words_per_ns : float
        Of products: multiply-adds, and words of both operands and the result; a product takes the sum of both.
    cached_words_per_ns, memory_words_per_ns : float
        Words read and written by all else, in arrays that the cache holds together, and in larger ones.
    cache_words : float
        Words that it holds.
    functions_per_ns : float
        Elements of exponentials, roots and hyperbolic tangents, beside their words.
    call_ns : float
        Fixed cost of a call of a kernel.
    run_ns : float
        Of each run of neighbouring words, where a kernel goes from run to run: windows, strides, sums along rows.
    message_ns : float
        Of a message that a host sends or takes, beside its words and the link's latency.

    Raises
    ------
    ValueError
        If one of them is not a number, or out of range (:data:`RATES`).
    """

    multiply_adds_per_ns: float
    product_words_per_ns: float
    cached_words_per_ns: float
    memory_words_per_ns: float
    cache_words: float
    functions_per_ns: float
    call_ns: float
    run_ns: float
    message_ns: float = 0.0

    def __post_init__(self) -> None:
        for name, (least, most, _) in RATES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
                raise ValueError(f"{name} of a host must be a number from {least:g} to {most:g}, not "
                                 f"{described(value)}")

    def to_data(self) -> dict[str, float]:
        """The rates as array files hold them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
