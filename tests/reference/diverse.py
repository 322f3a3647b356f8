"""k-means++ and k-centre with everything multiplied out and every distance in a table."""

import torch
from torch import Tensor


def embeddings(left: Tensor, right: Tensor, scale: Tensor | None = None) -> Tensor:
    """scaleᵢ · leftᵢ ⊗ rightᵢ [n, c · d], in double precision."""
    rows = torch.einsum("nc,nd->ncd", left.double(), right.double()).flatten(1)
    return rows if scale is None else rows * scale.double()[:, None]


def kmeans_plus_plus(rows: Tensor, count: int, generator: torch.Generator, largest_first: bool = True) -> list[int]:
    draws = torch.rand(count, dtype=torch.float64, generator=generator).tolist()
    table = (rows[:, None] - rows[None]).square().sum(2)
    chosen = [int(rows.square().sum(1).argmax()) if largest_first else int(draws[0] * len(rows))]
    for draw in draws[1:]:
        weights = table[chosen].amin(0).tolist()
        if sum(weights) == 0:
            chosen.append(next(place for place in range(len(rows)) if place not in chosen))
            continue
        running = torch.tensor(weights, dtype=torch.float64).cumsum(0).tolist()
        chosen.append(next(place for place, total in enumerate(running) if total > draw * running[-1]))
    return chosen


def k_centre(rows: Tensor, count: int, labelled: Tensor | None = None) -> list[int]:
    rows = rows.double()
    if labelled is None:
        first = rows.square().sum(1).argmax()
        chosen, centres = [int(first)], [rows[first]]
    else:
        chosen, centres = [], list(labelled.double())
    while len(chosen) < count:
        table = (rows[:, None] - torch.stack(centres)).square().sum(2).amin(1)
        table[chosen] = -1.0
        chosen.append(int(table.argmax()))
        centres.append(rows[chosen[-1]])
    return chosen
