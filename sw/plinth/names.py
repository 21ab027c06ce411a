"""Names of planners and of communication models, said once: commands, plan files, schemas and tables of functions take
them from here. This module loads nothing, since `--help` shows them."""

#: Planners by the name that ``--planner`` takes; :data:`plinth.plan.planning.PLANNERS` has their functions.
PLANNER_NAMES = (
    DATA_PARALLEL, MODEL_PARALLEL, ONE_WEIRD_TRICK, HYPAR, EXHAUSTIVE, JOINT, MPT, HYPERGRAPH, RANDOM_ROWS,
    PARALLAX, PIPELINE) = (
    "data", "model", "one-weird-trick", "hypar", "exhaustive", "joint", "mpt", "hypergraph", "random-rows", "parallax",
    "pipeline")
#: How copies of tables are kept equal, by the name that ``--copies`` takes: for each table what is best, or all alike.
COPY_NAMES = AUTO_COPIES, RINGS, GATHERED_ROWS, SERVERS = "auto", "rings", "gathered", "servers"
#: Communication models by the name that ``--model`` takes: words as the dies move them, or as HyPar's paper publishes
#: them. :data:`plinth.predict.models.MODELS` has their classes.
MODEL_NAMES = EXACT, PUBLISHED = "exact", "published"
