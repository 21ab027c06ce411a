"""How many random cases the arithmetic tests run."""

import pytest


@pytest.fixture
def arith_cases(request: pytest.FixtureRequest) -> int:
    """Random cases of each kind and operation: ``--arith-cases``."""
    return int(request.config.getoption("--arith-cases"))
