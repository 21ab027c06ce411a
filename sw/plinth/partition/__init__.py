"""What plans split, and what a split means: ``graph`` (the network as planners see it), ``regions`` (which die holds,
computes and sends what)."""
