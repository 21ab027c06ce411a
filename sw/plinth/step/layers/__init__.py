"""Kinds of layers in a training step: what each does forwards stands beside what it does backwards.

``kinds`` is the table from kinds to classes, and makes an object of each node; :func:`plinth.step.build.step_of` goes
over these forwards, then backwards. ``node`` is what all nodes share, ``weighted`` what those do whose weights make
sums of their input. Nodes are ``products`` (fully connected layers, convolutions), ``winograd`` (convolutions by
Winograd tiles), ``embedding``, ``affine``, ``junction`` (add, join), ``concat`` and ``loss``. Behind a node's sum stand
layers that share ``epilogue``: ``activation``, and ``pool``, whose vector programs are ``pool_programs``.
"""
