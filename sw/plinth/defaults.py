"""Defaults of commands and of the library, said once; they load nothing, since `--help` shows them.

What `plinth plan` writes by default is what `plinth train`, `plinth simulate` and `plinth step` take. Numbers of update
rules are said by the rules themselves (`plinth.update`).
"""

#: What is planned, simulated and trained: a network, on a ring of so many dies (one of a preset for one), how its
#: layers are split, how words are counted, samples of a step.
NETWORK, DIES, PLANNER, MODEL, BATCH = "digits-mlp", 4, "joint", "exact", 128
#: The planner of dies of 16-bit formats: `joint` goes by time alone, but of FP16 operands other splits need not have a
#: lowering, and of fixed point partial sums are rounded on their way.
NARROW_PLANNER = "data"
#: Number formats, and machines of a training run with their presets by format.
FORMATS = ("fp32", "mixed", "fixed")
MACHINES = {"ndp": {"fp32": "ndp-demo", "mixed": "ndp-demo-mixed"},
            "fpga": {"fixed": "fpga-demo"},
            "hypar": {"fp32": "hypar-demo", "mixed": "hypar-demo-mixed", "fixed": "hypar-demo-fixed"}}
#: Epochs and learning rate: sixteen epochs reach 95% test accuracy of the digits for every seed that was tried.
EPOCHS, RATE = 16, 0.15
#: Memory of a die in MiB.
MEMORY_MIB = 16
#: Where `plinth train` runs; and where `plinth.train` does, in seconds and without a compiler.
DEVICE, LIBRARY_DEVICE = "cosim", "golden"
#: Largest share of a step's kinks that dies may decide, as `plinth.train.kinks` has it: in FP32, and with 16 bits.
KINKS = 0.01, 0.1
#: What `plinth profile` may choose local layers by, and does; the machine of its dies, and their clock in megahertz.
METRICS = ("time", "energy", "energy-delay", "memory")
METRIC, PROFILE_MACHINE, CLOCK_MHZ = "memory", "fpga", 100.0
#: Epochs and rate of other networks: 97% for each of twelve seeds; of `lenet-c` on --data mnist 94%.
JOBS = {"digits-cnn": (30, 0.12), "lenet-c": (8, 0.05)}
