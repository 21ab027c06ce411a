"""Predicted gathers: the same bits behind the ReLU as of all words, whatever is sent; and where MPT's rule fails."""

import math

import numpy as np
import pytest

from plinth_hw.isa import codes as isa
from plinth_hw.isa.vector_body import VectorOp
from plinth_hw.isa.winograd import form, transform, transposed
from plinth_sim.golden import codes, prediction, regions, winograd
from plinth_sim.golden.lanes import FloatLanes

SIZES = [(2, 3), (4, 3), (2, 5)]
WAYS = {f"F({m},{r}), {'2-D' if both else '1-D'}": (transform(m, r).a if both else None, transform(m, r).a)
        for m, r in SIZES for both in (True, False)} | {"1x3": (((1,),), transform(2, 3).a)}
WAYS["1x3"] = (transform(1, 1).a, transform(2, 3).a)
TAIL = (3, 16)
LANES = FloatLanes()


def shape_of(way) -> tuple[int, ...]:
    down, across = way
    return (len(across) if down is None else len(down[0]), len(across[0]), *TAIL)


def relu(y):
    return LANES.apply(VectorOp.RELU, y.view(np.uint32), None, 0)[0]


def drawn(way, kind: str, rng) -> np.ndarray:
    """Words whose neurons lie about 0: where bounds and roundings decide."""
    shape = shape_of(way)
    words = rng.standard_normal(shape).astype(np.float32)
    if kind == "wide":
        words *= np.exp2(rng.integers(-20, 15, shape)).astype(np.float32)
    if kind == "nearly":  # an element takes a neuron away, up to roundings
        words[-1, -1] -= prediction.neurons(way, words)[-1, -1]
    if kind == "negative":
        words -= 3
        words[rng.random(shape) < 0.3] = 0
    if kind == "special":
        patterns = np.array([0, 1 << 31, 1, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
                             isa.small(0), isa.small(-3) | 1 << 31], dtype=np.uint32).view(np.float32)
        at = rng.random(shape) < 0.01
        words[at] = rng.choice(patterns, at.sum())
    if kind == "huge":
        words = np.clip(words, -1.9, 1.9) * np.float32(2.0**127)
    return words.view(np.uint32)


AFTERS = {
    "bias": lambda b, r: (lambda ends: prediction.plus(ends, b)),
    "bias, residual": lambda b, r: (lambda ends: prediction.plus(prediction.plus(ends, b), r)),
}


@pytest.mark.parametrize("after", AFTERS)
@pytest.mark.parametrize("kind", ["normal", "wide", "nearly", "negative", "special", "huge"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_same_bits(way, kind, after) -> None:
    """In one round and two, and of words that go whole, so that roundings alone part neurons from their bounds: what
    the ReLU makes, and so where errors pass; words needed are exact."""
    rng = np.random.default_rng(len(kind))
    words = drawn(way, kind, rng)
    bias = rng.standard_normal(TAIL[-1]).astype(np.float32)
    residual = np.where(rng.random(TAIL) < 0.1, -bias, rng.standard_normal(TAIL)).astype(np.float32)
    behind = AFTERS[after](bias, residual)
    y = prediction.neurons(way, words.view(np.float32))
    wanted = relu(behind((y, y))[0])
    shifts = np.array(isa.shifts(*way))
    levels = np.broadcast_to((100 if kind == "huge" else 0) - shifts, shape_of(way)[:2])
    for rounds in ([levels], [levels, levels - 3], [levels - 60]):
        gathered = prediction.gathered(way, words, rounds, behind)
        np.testing.assert_array_equal(gathered.elements[gathered.mask], words[gathered.mask])
        neurons = prediction.neurons(way, gathered.elements.view(np.float32))
        np.testing.assert_array_equal(relu(behind((neurons, neurons))[1]), wanted)
        assert not wanted[~gathered.live].any()
        assert len(gathered.words) == 1 + len(rounds)
        once = prediction.gathered(way, words, rounds[:1], behind)
        assert (gathered.live <= once.live).all() and (gathered.mask <= once.mask).all(), "what is dead remains dead"
        if kind == "negative" and after == "bias":
            assert (~gathered.live).mean() > 0.2


def pool(y):
    """Of neurons ``[m, m', ..]`` 2x2 windows: what the dies' max-pool makes, and errors of neurons, behind the ReLU's
    mask, of finite ones of the windows; down, then across, and back."""
    def run(op, a, b):
        return LANES.apply(op, np.ascontiguousarray(a), np.ascontiguousarray(b), 0)[0]

    y = y.view(np.uint32)
    windows = y.reshape(y.shape[0] // 2, 2, y.shape[1] // 2, 2, *y.shape[2:])
    middle = run(VectorOp.MAX, windows[:, 0], windows[:, 1])
    pooled = run(VectorOp.MAX, middle[:, :, 0], middle[:, :, 1])
    errors = np.random.default_rng(8).standard_normal(pooled.shape).astype(np.float32)
    # Where there is a NaN all errors are.
    errors[np.isnan(pooled.view(np.float32))] = 0

    def back(largest, taps, error):
        tap_errors = []
        for tap in taps:
            left = run(VectorOp.RELU_MASK, error, run(VectorOp.SUB, largest, tap))
            tap_errors.append(run(VectorOp.SUB, error, left))
            error = left
        return tap_errors

    columns = np.stack(back(pooled, (middle[:, :, 0], middle[:, :, 1]), errors.view(np.uint32)), axis=2)
    rows = np.stack(back(middle, (windows[:, 0], windows[:, 1]), columns), axis=1)
    return pooled, run(VectorOp.RELU_MASK, rows, windows)


@pytest.mark.parametrize("after", AFTERS)
@pytest.mark.parametrize("kind", ["normal", "wide", "negative", "special", "huge", "equal", "steps"])
@pytest.mark.parametrize("way", [way for name, way in WAYS.items() if name != "1x3"])
def test_the_same_bits_behind_a_pool(way, kind, after) -> None:
    """What the pool makes, and errors of neurons, to the bit, whether numbers of a window are equal or not; more is
    dead than a ReLU makes so, and stays dead."""
    rng = np.random.default_rng(len(kind))
    words = drawn(way, kind, rng)
    if kind in ("equal", "steps"):
        # Few numbers, of which sums are the same; a level that cuts nothing off, or some.
        words = rng.integers(-2, 3, words.shape).astype(np.float32).view(np.uint32)
    bias = rng.integers(0, 3, TAIL[-1]).astype(np.float32)
    behind = AFTERS[after](bias, rng.choice([-1, 0, 2], TAIL).astype(np.float32))
    y = prediction.neurons(way, words.view(np.float32))
    wanted = pool(relu(behind((y, y))[0]))
    first = {"huge": 100, "equal": -3, "steps": 1}.get(kind, -2)
    levels = np.broadcast_to(first - np.array(isa.shifts(*way)), words.shape[:2])
    for rounds in ([levels], [levels, levels - 3], [levels - 60]):
        gathered = prediction.gathered(way, words, rounds, behind, pooled=True)
        plain = prediction.gathered(way, words, rounds, behind)
        neurons = prediction.neurons(way, gathered.elements.view(np.float32))
        for computed, expected in zip(pool(relu(behind((neurons, neurons))[1])), wanted, strict=True):
            np.testing.assert_array_equal(computed, expected)
        once = prediction.gathered(way, words, rounds[:1], behind, pooled=True)
        assert (gathered.live <= once.live).all() and (gathered.live <= plain.live).all()
        assert kind not in ("normal", "equal") or gathered.live.sum() < 0.9 * plain.live.sum()


@pytest.mark.parametrize(("highs", "lows", "live"), [
    ((4, 3, 2, 1), (3, 2, 1, 0), (1, 1, 0, 0)), ((2, 2, 2, 2), (2, 2, 2, 2), (1, 1, 1, 1)),
    ((-1, 0, 5, 6), (-2, -1, -3, -4), (0, 0, 1, 1)), ((np.nan, 1, 2, 2), (np.nan, 0, 2, 1), (1, 0, 1, 1)),
    ((np.inf, 1, 3, 0), (-np.inf, -np.inf, 1, -1), (1, 1, 1, 0)), ((1, 1, 1, 1), (np.nan,) * 4, (1, 1, 1, 1))])
def test_below_another_is_strict(highs, lows, live) -> None:
    """Equal ends may tie; NaN is neither below a number nor above it."""
    way = WAYS["F(2,3), 2-D"]
    ends = np.array(lows, dtype=np.float32).reshape(2, 2), np.array(highs, dtype=np.float32).reshape(2, 2)
    nothing = (np.zeros((4, 4), dtype=np.float32),) * 2
    alive = prediction.live(way, nothing, lambda _: ends, pooled=True)
    assert alive.ravel().tolist() == [bool(bit) for bit in live]


def test_the_gather_itself_makes_the_same_map() -> None:
    """Of whole maps, edge tiles cut: what lies outside is dead."""
    rng = np.random.default_rng(3)
    _, sides = form((3, 3), 4).lattices((13, 10), (1, 1))
    way = (transposed(sides[0].matrix), transposed(sides[1].matrix))
    tiles = rng.standard_normal((2, sides[0].count, sides[1].count, 6, 6, 5)).astype(np.float32)
    words = np.ascontiguousarray(np.moveaxis(tiles, (3, 4), (0, 1))).view(np.uint32)
    rows, columns = (np.arange(side.count) * 4 + np.arange(4)[:, None] for side in sides)
    inside = (rows < 13)[:, None, None, :, None, None] & (columns < 10)[None, :, None, None, :, None]
    levels = -np.array(isa.shifts(*way))
    gathered = prediction.gathered(way, words, [levels, levels - 3], lambda ends: ends, inside)
    got = np.moveaxis(gathered.elements.view(np.float32), (0, 1), (3, 4))
    neurons, wanted = (winograd.gather(sides, some, (13, 10)) for some in (got, tiles))
    np.testing.assert_array_equal(relu(neurons), relu(wanted))
    assert not gathered.live[~np.broadcast_to(inside, gathered.live.shape)].any()
    # Masks of two rounds, of the 36 elements of all tiles.
    assert gathered.total == sum(gathered.words) + 2 * 36 * -(-math.prod(words.shape[2:]) // 32)
    assert gathered.mask.mean() < 0.99


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_bounds_are_attained(way) -> None:
    """Of integers, which round nothing: the high is the neuron of some elements within their ends."""
    rng = np.random.default_rng(4)
    low = rng.integers(-9, 9, shape_of(way)).astype(np.float32)
    high = low + rng.integers(0, 5, low.shape).astype(np.float32)
    least, most = prediction.bounds(way, (low, high))
    down, across = way
    for i, j in np.ndindex(least.shape[:2]):
        for wanted, ends in ((most, (low, high)), (least, (high, low))):
            rows = {i: 1} if down is None else dict(enumerate(down[i]))
            total = sum(float(a * c) * ends[int(a * c > 0)][u, v] for u, a in rows.items()
                        for v, c in enumerate(across[j]))
            np.testing.assert_array_equal(wanted[i, j], total)


def test_words_are_strings() -> None:
    """Words counted are those of the strings."""
    rng = np.random.default_rng(5)
    way = WAYS["F(2,3), 2-D"]
    words = drawn(way, "negative", rng)
    levels = np.full(shape_of(way)[:2], 1)
    gathered = prediction.gathered(way, words, [levels], lambda ends: ends)
    runs = words.reshape(16, -1)
    fills = np.array([codes.filled(run, 1) for run in runs])
    assert gathered.words[0] == sum(len(codes.first(run, 1).coded().words) for run in runs)
    assert gathered.words[1] == sum(len(codes.following(run, fill, mask, 1, None).coded().words)
                                    for run, fill, mask in zip(runs, fills, gathered.mask.reshape(16, -1), strict=True))
    assert gathered.mask_words == sum(len(codes.packed(mask)) for mask in gathered.mask.reshape(16, -1))


@pytest.mark.parametrize("bits", isa.REGION_BITS)
def test_codes_of_regions(bits) -> None:
    n, scale = 1 << bits - 3, -2
    sizes = [(n * (2**region - 1) + step * 2**region) * 2.0**scale for region in range(4) for step in range(n)]
    steps = [2.0**(region + scale) for region in range(4) for _ in range(n)]
    for sign in (1, -1):
        inner = np.array([size + part * step for size, step in zip(sizes, steps, strict=True)
                          for part in (0, 0.5, 1 - 2**-16)], dtype=np.float32)
        words = (sign * inner).astype(np.float32).view(np.uint32)
        quantised = regions.quantised(words, bits, scale)
        # Beyond is the last step, of negative words the last two.
        last = 4 * n - 1 if sign > 0 else 4 * n - 2
        codes_wanted = np.minimum(np.arange(4 * n), last).repeat(3)
        np.testing.assert_array_equal(quantised, codes_wanted + (4 * n if sign < 0 else 0))
        values, gaps = regions.steps(quantised, bits, scale)
        np.testing.assert_array_equal(values, sign * np.array(sizes, dtype=np.float32)[codes_wanted])
        beyond = codes_wanted == last
        np.testing.assert_array_equal(gaps[~beyond], np.array(steps, dtype=np.float32)[codes_wanted[~beyond]])
        assert np.isinf(gaps[beyond]).all()
        low, high = regions.ends(quantised, bits, scale)
        assert ((low <= sign * inner) & (sign * inner <= high)).all()
    words = np.array([0x7F800000, 0x7F7FFFFF, 0xFF800000, 0xFF7FFFFF, 0x7FC00000, 0xFFC12345], dtype=np.uint32)
    quantised = regions.quantised(words, bits, scale)
    assert quantised.tolist() == [4 * n - 1, 4 * n - 1, 8 * n - 2, 8 * n - 2, 8 * n - 1, 8 * n - 1]
    low, high = regions.ends(quantised, bits, scale)
    assert (high[:2] == np.inf).all() and (low[2:4] == -np.inf).all() and (np.sign([*low[:2], *-high[2:4]]) > 0).all()
    assert np.isnan([*low[4:], *high[4:]]).all()


def test_regions_that_there_are_not() -> None:
    words = np.zeros(1, dtype=np.uint32)
    with pytest.raises(ValueError, match="codes of regions have 4 to 6 bits, not 7"):
        regions.quantised(words, 7, 0)
    with pytest.raises(ValueError, match="log2 of a scale must be from -126 to 119, not 120"):
        regions.quantised(words, 6, 120)


def test_the_printed_rule_drops_a_live_neuron() -> None:
    """Negative words with negative coefficients: truncation makes the estimate too small, and the printed bound knows
    only coefficients above zero. y = +1.96, and estimate + error = -1; the sign-aware bound is +2."""
    way = WAYS["F(2,3), 2-D"]
    a = np.array(way[0], dtype=float)
    tile = 0.995 * np.sign(np.outer(a[1], a[1]))
    tile[1, 1] = -6
    elements = tile.astype(np.float32)[:, :, None]
    y = prediction.neurons(way, elements)
    assert y[1, 1] == pytest.approx(1.96)
    quantised = regions.quantised(elements.view(np.uint32), 6, 0)
    printed = prediction.bounds(way, regions.printed_ends(quantised, 6, 0))[1]
    sound = prediction.bounds(way, regions.ends(quantised, 6, 0))[1]
    assert printed[1, 1] == -1 and sound[1, 1] == 2
    assert (sound >= y).all()


@pytest.mark.parametrize("scale", [-6, -3, 0])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_bounds_of_regions(way, scale) -> None:
    """Only neurons of 0 or below are dead by the sign-aware bound, at whatever scale, of fills and of words among
    them: none that is no number. What is made of fills is 0 or below then, as well."""
    rng = np.random.default_rng(6)
    for kind in ("normal", "wide", "nearly", "negative", "special", "huge"):
        words = drawn(way, kind, rng)
        y = prediction.neurons(way, words.view(np.float32))
        fills = regions.filled(regions.quantised(words, 6, scale), 6, scale)
        fills[..., 0, :] = words[..., 0, :]
        low, high = regions.fill_ends(fills, 6, scale)
        for patterns in (words, fills):
            values = patterns.view(np.float32)
            assert ((low <= values) & (values <= high))[~np.isnan(values)].all()
        live = prediction.live(way, (low, high), lambda ends: ends)
        assert (y[~live] <= 0).all() and (prediction.neurons(way, fills.view(np.float32))[~live] <= 0).all()
        named = prediction.of_units(way, live)
        assert named.shape == words.shape and (named >= prediction.needed(way, live)).all()


def test_units_are_tiles_or_lines() -> None:
    for way, axes in ((WAYS["F(2,3), 2-D"], (0, 1)), (WAYS["F(2,3), 1-D"], (1,))):
        live = np.zeros((2, 2, 3), dtype=bool)
        live[0, 1, 2] = True
        named = prediction.of_units(way, live)
        assert named.any(axis=axes).sum() == 1 and named.all(axis=axes).sum() == 1


@pytest.mark.parametrize("bits", isa.REGION_BITS)
@pytest.mark.parametrize("count", [1, 5, 32, 100])
def test_strings_of_regions(bits, count) -> None:
    words = np.random.default_rng(bits).standard_normal(count).astype(np.float32).view(np.uint32)
    first, following = regions.Regions(bits, -3), regions.Regions(bits, -3, follows=True)
    string = first.string(words)
    assert len(string) == isa.region_words(count, bits) == -(-count * bits // 32)
    assert regions.string_bits(count, bits) == 32 * len(string)
    whole = sum(int(code) << bits * place for place, code in enumerate(regions.quantised(words, bits, -3)))
    assert string.tolist() == [whole >> 32 * word & 0xFFFFFFFF for word in range(len(string))]
    fills, mask = first.run(string, count), np.arange(count) % 3 == 0
    np.testing.assert_array_equal(fills, regions.filled(regions.quantised(words, bits, -3), bits, -3))
    np.testing.assert_array_equal(following.string(words, mask), words[mask])
    np.testing.assert_array_equal(following.run(words[mask], count, fills, mask), np.where(mask, words, fills))
    with pytest.raises(ValueError, match=f"is not of {count} codes of {bits} bits"):
        first.run(string[:-1], count)
    with pytest.raises(ValueError, match="is not of a mask that names"):
        following.run(words[mask][:-1], count, fills, mask)
