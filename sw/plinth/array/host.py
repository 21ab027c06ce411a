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
    "block_multiply_adds_per_ns": (1e-6, 1e6, "multiply-adds of dense blocks of sparse layers"),
    "block_ns": (0, MOST_NANOSECONDS, "nanoseconds of a dense block of a sparse layer beside them"),
    "entry_multiply_adds_per_ns": (1e-6, 1e6, "multiply-adds of connections of sparse layers one by one"),
    "entry_ns": (0, MOST_NANOSECONDS, "nanoseconds of a connection that is multiplied by itself beside them"),
    "message_ns": (0, MOST_NANOSECONDS, "nanoseconds in which a host sends or takes a message, beside its words and "
                                        "the link"),
}
#: Rates of sparse layers, which files from before there were any leave out; all or none of them.
SPARSE_RATES = ("block_multiply_adds_per_ns", "block_ns", "entry_multiply_adds_per_ns", "entry_ns")
#: What files may leave out.
OPTIONAL_RATES = (*SPARSE_RATES, "message_ns")


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
    block_multiply_adds_per_ns, block_ns : float or None
        Of dense blocks of sparse layers: multiply-adds, fill with them, and the fixed cost of a block. None, as the
        next two: nobody measured them, and steps with sparse layers are refused.
    entry_multiply_adds_per_ns, entry_ns : float or None
        Of connections of sparse layers that are multiplied one by one.
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
    block_multiply_adds_per_ns: float | None = None
    block_ns: float | None = None
    entry_multiply_adds_per_ns: float | None = None
    entry_ns: float | None = None
    message_ns: float = 0.0

    def __post_init__(self) -> None:
        missing = [name for name in SPARSE_RATES if getattr(self, name) is None]
        if 0 < len(missing) < len(SPARSE_RATES):
            raise ValueError(f"a host must have all rates of sparse layers or none; {', '.join(missing)} is missing")
        for name, (least, most, _) in RATES.items():
            value = getattr(self, name)
            if value is None and name in SPARSE_RATES:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
                raise ValueError(f"{name} of a host must be a number from {least:g} to {most:g}, not "
                                 f"{described(value)}")

    def to_data(self) -> dict[str, float]:
        """The rates as array files hold them."""
        rates = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: rate for name, rate in rates.items() if rate is not None}
