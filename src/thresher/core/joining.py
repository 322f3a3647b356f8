"""Several sets of examples as one."""

from dataclasses import replace

import numpy as np
import torch

from thresher.core.datasets import joined
from thresher.core.errors import ThresherError
from thresher.core.examples import Examples


def join(*sets: Examples) -> Examples:
    """All these examples as one set, with the columns that all sets have; all else is that of the first set.

    >>> two = Examples(torch.zeros(2, 1), torch.tensor([0, 1]))
    >>> join(two, replace(two, ids=torch.tensor([7, 8]))).ids.tolist()
    [0, 1, 7, 8]
    """
    columns = [name for name in sets[0].columns if all(name in each.columns for each in sets)]
    scales = {
        None if each.target_scale is None else str([part.tolist() for part in each.target_scale]) for each in sets
    }
    if len(scales) > 1:
        raise ThresherError(
            "These sets have targets of different scales: give all of them the same target_scale, or none."
        )
    return replace(
        sets[0],
        inputs=joined([each.inputs for each in sets]),
        targets=torch.cat([each.targets for each in sets]),
        ids=torch.cat([each.ids for each in sets]),
        columns={name: torch.cat([each.columns[name] for each in sets]) for name in columns},
        brought={
            name: np.concatenate([each.brought[name] for each in sets])
            for name in sets[0].brought
            if all(name in each.brought for each in sets)
        },
        checked=False,
    )
