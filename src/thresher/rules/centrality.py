"""The most central examples: those nearest to all others on average."""

from torch import Tensor

from thresher.rules.distances import checked_count, measure, total_distances


def centrality(embeddings: Tensor, count: int) -> Tensor:
    """The `count` rows of embeddings [n, d] with the largest Σ_j similarity(i, j), most central first.

    similarity = largest distance - distance, so these are the smallest sums of distances; ties go to the lower index.
    This is what the code released with CRUST selects. No n × n matrix is made, and sums are exact.

    >>> import torch
    >>> centrality(torch.tensor([[0.0], [1.0], [2.0], [9.0]]), 2).tolist()
    [1, 2]
    """
    points = measure(embeddings)
    return total_distances(points).argsort(stable=True)[: checked_count(count, len(points))]
