"""Limits that options, arguments and files have in common, said once; they load nothing, since `--help` shows them."""

#: Dies of an array, whose numbers have 10 bits, and samples of a step.
MAXIMUM_DIES, MAXIMUM_BATCH = 1024, 1 << 20
#: Epochs of a run, and its seed.
MAXIMUM_EPOCHS, MAXIMUM_SEED = 10_000, 2**63 - 1
#: Memory of a die in MiB, and threads of a co-simulation.
MAXIMUM_MEMORY_MIB, MAXIMUM_THREADS = 8192, 256
