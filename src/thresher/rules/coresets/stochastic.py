"""Greedy facility location among a few random candidates a step."""

import math

import torch
from torch import Tensor

from thresher.core.chunks import one_thread
from thresher.core.errors import ThresherError
from thresher.core.rule import checked_count
from thresher.core.seeding import generator as seeded
from thresher.rules.coresets.coverage import Coreset, Cover, GainBounds, clusters, largest_gain
from thresher.rules.coresets.distances import as_points


def stochastic_facility_location(
    embeddings: Tensor, count: int, *, slack: float = 0.01, generator: torch.Generator | None = None
) -> Coreset:
    """As `facility_location`, but each step takes the best of ⌈n / count · ln(1 / slack)⌉ random candidates.

    At least 1 - 1/e - slack of the best value on average (Mirzasoleiman et al. 2015). Memory is O(n · d).

    >>> stochastic_facility_location(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 2, slack=1e-9).indices.tolist()
    [1, 3]
    """
    points = as_points(embeddings)
    n = len(points)
    checked_count(count, n)
    if not 0 < slack < 1:
        raise ThresherError(f"slack={slack} is what may be lost of the value: give a number between 0 and 1.")
    generator = generator or seeded(0, "stochastic")
    size = math.ceil(n / count * math.log(1 / slack))
    cover, left = Cover.empty(points), torch.arange(n)
    with one_thread():
        for _ in range(count):
            draws = (
                torch.randint(len(left), (size,), generator=generator) if size < len(left) else torch.arange(len(left))
            )
            draws = draws[left[draws].argsort()]  # ties go to the lower index
            candidates = left[draws].to(cover.reach.device)
            draw = int(draws[largest_gain(GainBounds.of(points, candidates, cover.reach))])
            cover.add(points, int(left[draw]))
            left[draw] = left[-1]
            left = left[:-1]
    return clusters(cover.chosen, cover.owner)
