"""Names of planners and of communication models, said once: commands, plan files, schemas and tables of functions take
them from here. This module loads nothing, since `--help` shows them."""

#: Planners by the name that ``--planner`` takes; :data:`plinth.plan.planning.PLANNERS` has their functions.
PLANNER_NAMES = (
    DATA_PARALLEL, MODEL_PARALLEL, ONE_WEIRD_TRICK, HYPAR, EXHAUSTIVE, JOINT, MPT, HYPERGRAPH, RANDOM_ROWS) = (
    "data", "model", "one-weird-trick", "hypar", "exhaustive", "joint", "mpt", "hypergraph", "random-rows")
#: Communication models by the name that ``--model`` takes: words as the dies move them, or as HyPar's paper publishes
#: them. :data:`plinth.predict.models.MODELS` has their classes.
MODEL_NAMES = EXACT, PUBLISHED = "exact", "published"
