"""Executors of a step, and the arrays of devices that drivers run on: the one room that knows back ends.

arrays           golden dies, co-simulated ones, and dies behind serial lines, as the driver takes them
verilog          the Verilog of dies, its digests, and what goes wrong with its tools
transports       what leads to golden dies of other processes: how they leave, and hear of each other's errors
processes        several processes of one machine, joined by pipes
mpi              several processes of one machine or many, which MPI has started
mpi_messages     messages between MPI's ranks of which each computes a part of a step in numpy
mpi_cosim        such processes that share co-simulated dies, epoch by epoch
numpy_executor   a step in numpy, as the host runs it
numpy_step       its operations in order, and what they wait for
kernels          operations that a die does for itself: a kernel for each kind
crossings        operations that move words between dies, within a process and to others
rings            sums over rings of dies, and sums by MPI's library
memory           the places of a die as arrays
order            the order of the operations in numpy: errors that other dies need before gradients
overlay          places that share memory, as they are never needed at once
halos            rows of other dies that sparse layers read, behind a map's own ones
slot_sums        sums of rows that several dies send
programs         vector programs
products, pools  products and convolutions; pools
sparse_kernels   products of sparse layers, over dense blocks or by scipy
tiles            what goes between dies, Winograd tiles
"""
