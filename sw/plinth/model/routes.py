"""Routes that follow from an array's links.

Every die sends to another by the lowest of its ports that leads nearer. On a torus, whose ports 0 and 1 lead along
rows and 2 and 3 along columns, routes so take the dimensions in ascending order; with the router's bubble rule that
keeps rings and tori free of deadlock (docs/network.md).
"""

from collections.abc import Iterable

#: Die, port out, other die, port in.
Link = tuple[int, int, int, int]


def routes(links: Iterable[Link], dies: int) -> list[list[int | None]]:
    """For each die and destination the output port; None for the die itself.

    Raises
    ------
    ValueError
        If a die cannot be reached.
    """
    following: list[dict[int, int]] = [{} for _ in range(dies)]
    for die, port, other, _ in links:
        following[die][port] = other
    arriving: list[list[int]] = [[die for die in range(dies) if other in following[die].values()]
                                 for other in range(dies)]
    table: list[list[int | None]] = [[None] * dies for _ in range(dies)]
    for destination in range(dies):
        hops = {destination: 0}
        front = [destination]
        while front:
            front = sorted({die for other in front for die in arriving[other]} - hops.keys())
            hops.update((die, min(hops[other] for other in following[die].values() if other in hops) + 1)
                        for die in front)
        for die in range(dies):
            if die not in hops:
                raise ValueError(f"no links lead from die {die} to die {destination}")
            if die != destination:
                table[die][destination] = min(port for port, other in following[die].items()
                                              if hops[other] == hops[die] - 1)
    return table
