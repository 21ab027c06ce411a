"""Projection of streams of samples onto few of them, after Deep3 (section 6).

Samples A, a row each, are written as C D: a dictionary D of few of them, normalised, and coordinates C, by which
networks train in place of A.

::

    samples     which samples are refused, by their numbers
    ranks       several processes that have a share of the samples each
    basis       an orthonormal basis that grows by a sample at a time
    streaming   the stream: a sample that the basis does not tell well enough joins the dictionary
    selection   which directions are taken if there are more than a limit allows, from a small part of the samples
    projection  what remains: basis and dictionary; coordinates of samples, and errors
    fit         all of these over samples in memory
    file        a projection on disk
    die         coordinates of a batch as a matrix product of a die
    compare     beside principal components and random directions of as many: error, time, accuracy of a network
"""
