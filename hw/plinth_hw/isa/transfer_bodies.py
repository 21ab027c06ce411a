"""Bodies of transfer tasks: tiles, transformed ones, codes."""

from plinth_hw.isa.descriptors import Pointer
from plinth_hw.isa.layout import Struct, signed, unsigned


class TransferBody(Struct):
    """``planes`` x ``rows`` x ``columns`` words of this die's memory go to this or another die's; columns are
    contiguous on both sides. Both addresses are formed with this die's base registers. In a side that is
    indexed (one at most), row r of a plane begins at the plane's address plus ``index[r]`` times the row stride."""

    #: First word read.
    source: Pointer
    #: First word written.
    destination: Pointer
    #: Contiguous words.
    columns: unsigned(32)
    #: Rows of a plane.
    rows: unsigned(32)
    #: Planes.
    planes: unsigned(32)
    #: Words from row to row of the source.
    source_row_stride: unsigned(32)
    #: Words from plane to plane of the source.
    source_plane_stride: unsigned(32)
    #: Words from row to row of the destination.
    destination_row_stride: unsigned(32)
    #: Words from plane to plane of the destination.
    destination_plane_stride: unsigned(32)
    # word 9
    #: Die that the destination tile lies on, with ``remote``.
    destination_die: unsigned(10)
    #: The destination lies on ``destination_die``; else on this die.
    remote: unsigned(1)
    #: Source rows are indexed.
    gather: unsigned(1)
    #: Destination rows are indexed.
    scatter: unsigned(1)
    #: Advance ``arrival`` on the destination's die once the tile is in its memory.
    arrival_enable: unsigned(1)
    reserved0: unsigned(2)
    #: Counter of the destination's die.
    arrival: unsigned(8)
    reserved1: unsigned(8)
    # word 10
    #: First word of the list of row numbers, in this die's memory.
    index: Pointer


class TransformBody(TransferBody):
    """``planes`` x ``rows`` tiles, down x across, of ``columns`` channels, transformed (:mod:`plinth_hw.isa.winograd`):
    X = M d M'^T of the places d of a window at the source, stored in or added to places at the destination. Strides of
    rows and planes lead from a tile to the next across and down, on both sides; nothing is indexed. A place of
    the source that lies outside the map is +0 and not read, one of the destination is not written. Places of a tile do
    not overlap at the destination.

    With ``marks``, of dies that have codes, a result of 0 tells whether it has a cause: it is -0 if its window has
    anything but +0 at a place that it has a coefficient for (-0 is something), else +0."""

    #: From ``source`` to the first place of the first window, modulo 2^32, which may lie outside the map.
    source_origin: unsigned(32)
    #: Words from a place of the source to the one below, and to the right.
    source_down: unsigned(32)
    source_across: unsigned(32)
    #: The same of the destination.
    destination_origin: unsigned(32)
    destination_down: unsigned(32)
    destination_across: unsigned(32)
    # word 17
    #: Row and column of the source's map at which the first window begins.
    source_row: signed(16)
    source_column: signed(16)
    #: Rows and columns of that map.
    source_rows: unsigned(16)
    source_columns: unsigned(16)
    #: The same of the destination's.
    destination_row: signed(16)
    destination_column: signed(16)
    destination_rows: unsigned(16)
    destination_columns: unsigned(16)
    # word 21
    #: Rows and columns from a tile to the next, in the maps.
    source_row_step: unsigned(4)
    source_column_step: unsigned(4)
    destination_row_step: unsigned(4)
    destination_column_step: unsigned(4)
    #: Numbers of M and M', of :data:`~plinth_hw.isa.winograd.MATRICES`.
    down: unsigned(4)
    across: unsigned(4)
    #: M goes first, else M'.
    down_first: unsigned(1)
    reserved2: unsigned(6)
    #: Results of 0 are -0 if they have a cause.
    marks: unsigned(1)
    # word 22
    #: Not 0, and ``remote``: places of a tile go, row by row, to so many dies, ``destination_die`` first,
    #: ``member_step`` dies from one to the next, each ``member_places`` of them, of the first ``longer_members`` one
    #: more: all places together. Those of a die lie ``destination_across`` words apart from the first place on;
    #: ``arrival`` advances on each. Words are counted that go to other dies than the task's own.
    members: unsigned(6)
    member_places: unsigned(6)
    longer_members: unsigned(6)
    member_step: unsigned(10)
    reserved3: unsigned(4)


class CodeBody(TransformBody):
    """``rows`` runs of ``columns`` words are coded, or decoded (:mod:`plinth_hw.isa.codes`), in one plane; nothing is
    indexed. ENCODE makes a string of each run of ``source``, at ``destination``; DECODE runs, at ``destination``, of
    strings at ``codes``. A string has a place of as many words as its row's stride: its length in words, then those.
    Of a next part masks say which words are coded, ``source`` has, decoding, the runs as they are known, and
    ``destination`` may be the same place. An error BAD_CODE ends the task: the place has no room, or a string's length
    is not what the run's words take.

    With ``skips`` strings are skip code, of no level. ENCODE codes the words that ``given`` masks name, or those other
    than +0. DECODE reads masks that were not ``sent``, and stores those that were, if they are ``given`` a place, at
    ``mask`` of the destination's die; words that they do not name become +0. Masks of a string that name words behind
    the run's last are BAD_CODE. With ``maps`` as well, and masks that are ``sent`` and not ``given``, ENCODE leaves out
    all words: masks of this die's runs for itself.

    With ``regions`` a first part has their codes, at the scale ``first``, and a next one the words that masks name, as
    they are. PREDICT then reads fills of that scale, and names all elements of tiles of which a neuron may live.

    PREDICT tells of ``rows`` tiles of ``columns`` channels, a multiple of the words that the engine moves a cycle,
    which elements neurons need that may be above 0 (:mod:`plinth_sim.golden.prediction`). ``source`` has fills of the
    first element, by ``source_row_stride`` from tile to tile and ``source_plane_stride`` from element to element, row
    by row of a tile; ``down`` and ``across`` are numbers of A^T, or of 1; ``codes`` has what is added to each
    channel's neurons, ``first`` is the level. ``destination_rows`` and ``destination_columns``, unless the first is 0,
    are the sides of maps whose tiles lie row by row, map after map: neurons outside are dead. Before a max-pool
    ``destination_row_step`` and ``destination_column_step`` are 2, the sides of its windows, of which a matrix makes
    whole ones, else 0: of these neurons below another are dead as well, of windows that are cut by the map's edge, too.
    With sides and without a pool, and unless ``source_across`` is 0, ``mask`` has such maps that are added behind that
    of channels, a place to the neuron of that place: ``source_down`` and ``source_across`` from a place to the one
    below and to the right, ``mask_row_stride`` from map to map. At ``destination`` it makes masks,
    ``destination_row_stride`` from element to element, of the tiles' channels one behind the other."""

    #: DECODE: first string. PREDICT: what is added to all neurons of a channel.
    codes: Pointer
    #: From a string's place to the next: its room.
    codes_row_stride: unsigned(32)
    #: Of a next part, and of ``given`` masks: first word of the first run's mask. PREDICT: of maps that are added.
    mask: Pointer
    #: From a run's mask to the next; PREDICT: from map to map.
    mask_row_stride: unsigned(32)
    # word 27
    #: Level, or log2 of the scale, of the first part, or of the fills.
    first: signed(8)
    #: Of a next part: level to which its words are known; to which they are sent.
    known: signed(8)
    lower: signed(8)
    #: It is a next part.
    follows: unsigned(1)
    #: To exact words, instead of to a lower level.
    exact: unsigned(1)
    #: Skip code, instead of the block code; no next part.
    skips: unsigned(1)
    #: With it: strings have masks; masks have a place at ``mask``. One of the two at least.
    sent: unsigned(1)
    given: unsigned(1)
    #: ENCODE, with ``sent``, not ``given``: strings are masks alone.
    maps: unsigned(1)
    #: Codes of regions, of so many bits and 3, instead of the block code; 0: not. A next part is to exact words.
    regions: unsigned(2)
