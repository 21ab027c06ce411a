"""Plans of the zoo and their words, as they were recorded before levels had factors other than two.

``PYTHONPATH=hw:sim:sw:. python tests/sw/plan/test_words_of_before.py`` writes the record anew.
"""

import hashlib
import json
import random
from pathlib import Path

import pytest
from tests.support.plan_graphs import random_splits

from plinth.network.zoo import NETWORKS
from plinth.partition.exchanges import total_words
from plinth.partition.graph import SPLITS, from_network
from plinth.partition.regions import Splits
from plinth.plan.planners import simple
from plinth.plan.planners.hypar import hypar
from plinth.predict.models import MODELS

RECORD = Path(__file__).with_suffix(".json")
BATCH = 256


def state(name: str) -> dict[str, list[object]]:
    """For planners that count words, and random splits, on 2, 4 and 10 levels: what was chosen, and its words."""
    graph, chosen = from_network(NETWORKS[name]), {}
    for levels in (2, 4, 10):
        plans: dict[str, Splits] = {planner: getattr(simple, planner)(graph, levels)
                                    for planner in ("data", "model", "one_weird_trick")}
        if levels < 10 or name == "vgg-e":
            plans |= {f"hypar-{model}": hypar(MODELS[model](graph, BATCH), levels) for model in MODELS}
        plans |= {f"random-{seed}": random_splits(random.Random(seed), graph, levels, SPLITS) for seed in range(3)}
        for plan, splits in plans.items():
            text = " ".join("".join(split[0] for split in vector) for vector in splits)
            chosen[f"{plan} {levels}"] = [hashlib.sha256(text.encode()).hexdigest()[:12],
                                          total_words(graph, splits, BATCH)]
    return chosen


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_splits_and_words_are_those_of_before(name: str) -> None:
    assert state(name) == json.loads(RECORD.read_text())[name]


if __name__ == "__main__":
    lines = ",\n".join(f'"{name}": {json.dumps(state(name))}' for name in sorted(NETWORKS))
    RECORD.write_text(f"{{\n{lines}\n}}\n")
