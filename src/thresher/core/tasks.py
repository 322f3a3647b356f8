"""What targets ask of a model: a class, real values, several labels at once, or a class at every position."""

import torch
from torch import Tensor

from thresher.core.errors import ThresherError

CLASSES, REAL = "classification", "regression"
LABELS = "multi-label"  # targets [n, labels] of 0 and 1, each of which may be true
POSITIONS = "dense"  # a class id at every token [n, T] or pixel [n, h, w]; negative ones are left out
TASKS = (CLASSES, REAL, LABELS, POSITIONS)


def task_of(targets: Tensor, standardised: bool = False) -> str:
    """The task that targets stand for, where neither it nor a number of classes is given.

    >>> task_of(torch.tensor([0, 2])), task_of(torch.tensor([[0, 1], [1, 1]]))
    ('classification', 'multi-label')
    >>> task_of(torch.tensor([[0.5, 1.0]])), task_of(torch.tensor([[4, 7, -100]]))
    ('regression', 'dense')
    """
    if targets.ndim < 2 and not targets.is_floating_point():
        return CLASSES
    several = targets.ndim == 2 and targets.shape[1] > 1
    if several and not standardised and are_zeros_and_ones(targets):
        return LABELS
    return REAL if targets.is_floating_point() else POSITIONS


def are_zeros_and_ones(targets: Tensor) -> bool:
    return bool(((targets == 0) | (targets == 1)).all())


def position_losses(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The cross entropy at every position [n, positions], 0 where the target is negative; and which positions count.

    Tokens have outputs [n, T, classes], and targets [n, T] that may be longer, as when batches are padded to their own
    longest; pixels have outputs [n, classes, h, w], as PyTorch's cross entropy takes them, and targets [n, h, w].
    """
    targets = _shown(outputs, targets)
    counts = targets >= 0
    known = torch.where(counts, targets, -100)
    if targets.ndim == 2:
        flat = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), known.flatten(), reduction="none")
        return flat.view(targets.shape), counts
    losses = torch.nn.functional.cross_entropy(outputs, known, reduction="none")
    return losses.flatten(1), counts.flatten(1)


def predicted_classes(outputs: Tensor, tokens: bool) -> Tensor:
    """The likeliest class at every position: of outputs [n, T, classes] of tokens, or [n, classes, h, w] of pixels."""
    return outputs.argmax(-1 if tokens else 1)


def right_at_positions(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """How many positions of each example are predicted as given, and how many count [n]."""
    targets = _shown(outputs, targets)
    counts = targets >= 0
    right = (predicted_classes(outputs, targets.ndim == 2) == targets) & counts
    return right.flatten(1).sum(1).float(), counts.flatten(1).sum(1).float()


def right_labels(outputs: Tensor, targets: Tensor) -> Tensor:
    """Whether each label is predicted as given [n, labels]: an output above 0 is a probability above one half."""
    return (outputs > 0) == (targets > 0.5)


def share_right(task: str, outputs: Tensor, targets: Tensor) -> Tensor:
    """The share of the labels, or of the positions, that are predicted as given [n]."""
    if task == LABELS:
        return right_labels(outputs, targets).float().mean(1)
    right, counted = right_at_positions(outputs, targets)
    return right / counted.clamp_min(1)


def summary(outputs: Tensor, targets: Tensor) -> Tensor:
    """What is kept of outputs at positions [n, 3]: how many are right, how many count, and their summed cross entropy.

    The outputs of a whole set would be n · T · classes numbers.
    """
    losses, _ = position_losses(outputs, targets)
    return torch.stack([*right_at_positions(outputs, targets), losses.sum(1)], 1)


def expected_shape(task: str, targets: Tensor, width: int) -> str:
    """The shape of outputs that these targets ask for, in words."""
    n = len(targets)
    if task != POSITIONS:
        return str([n, width])
    places = list(targets.shape[1:])
    inside = [*places, "classes"] if len(places) == 1 else ["classes", *places]
    shape = ", ".join(map(str, [n, *inside]))
    return f"[{shape}] with more than {int(targets.max())} classes, or give targets as floats where they are real"


def outputs_fit(outputs: Tensor, targets: Tensor, width: int) -> bool:
    """Whether outputs have at least so many classes for each position of the targets."""
    if outputs.ndim != targets.ndim + 1 or len(outputs) != len(targets):
        return False
    if targets.ndim == 2:
        return outputs.shape[1] <= targets.shape[1] and outputs.shape[2] >= width
    return outputs.shape[2:] == targets.shape[1:] and outputs.shape[1] >= width


def _shown(outputs: Tensor, targets: Tensor) -> Tensor:
    """The targets of the positions that the outputs have."""
    if targets.ndim == 2 and outputs.ndim == 3 and outputs.shape[1] < targets.shape[1]:
        return targets[:, : outputs.shape[1]]
    if outputs.ndim != targets.ndim + 1:
        raise ThresherError(
            f"Outputs of shape {list(outputs.shape)} have no class for each of the targets {list(targets.shape)}: give "
            "[n, T, classes] for tokens, or [n, classes, h, w] for pixels."
        )
    return targets
