"""Sparse networks: chains of layers whose weight matrices hold only the connections that there are.

``network`` is the value that the other files make, read and compute with: layers that may be made a few rows at a time.
``matrices`` has what all of them ask of a matrix in compressed sparse rows, ``activations`` the functions behind it,
``draws`` random numbers by position.

Where networks come from: ``radix_net`` (those of the Sparse DNN Graph Challenge), ``irregular`` (random ones),
``pruning`` (dense networks of :mod:`plinth.network` whose small weights are left out), ``tsv`` (the Graph Challenge's
files) and ``pattern_file`` (arrays in ``.npz``). What is computed with them, on one processor, as others are compared
with: ``inference`` (outputs and categories), ``gradient`` (a step of stochastic gradient descent).
"""
