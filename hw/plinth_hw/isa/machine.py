"""What a die says of itself: layouts of its identity registers. Their values: :mod:`~plinth_hw.isa.identity`."""

from plinth_hw.isa.layout import Code, Struct, unsigned


class Machine(Code, bits=8):
    """What a matrix engine can be."""

    #: Operands move through PEs from two sides.
    SYSTOLIC = 0
    #: Rows of filters stay in PEs, sums go down the columns.
    ROW_STATIONARY = 1


class NumberFormat(Struct):
    """A format of numbers."""

    fraction_bits: unsigned(7)
    #: Of a floating-point format its exponent.
    integer_bits: unsigned(7)
    #: Fixed point, else IEEE-754.
    fixed: unsigned(1)
    reserved: unsigned(1)


class MachineInfo(Struct):
    """Register MACHINE."""

    #: Format of sums in the matrix engine.
    sums: NumberFormat
    machine: Machine
    reserved: unsigned(8)


class Formats(Struct):
    """Register FORMATS."""

    memory: NumberFormat
    #: Of operands of the matrix engine.
    products: NumberFormat


class ArraySize(Struct):
    """Register ARRAY: PEs."""

    rows: unsigned(16)
    columns: unsigned(16)


class Ports(Struct):
    """Register PORTS."""

    #: Words of a beat.
    beat_words: unsigned(16)
    #: AXI4 ports.
    axi_ports: unsigned(8)
    #: Links.
    ports: unsigned(8)
