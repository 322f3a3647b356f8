"""The learned mentor of MentorNet: a small network that was taught a predefined curriculum."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import binary_cross_entropy_with_logits

from thresher.core.errors import SEED, refuse_other_kinds, whole
from thresher.core.evidence import Evidence, Signal
from thresher.core.rule import Decision, Rule
from thresher.core.schedules import Schedule
from thresher.core.seeding import generator
from thresher.core.signals import given, loss
from thresher.rules.curriculum import moving_level

PARTS = 100  # of a run: the mentor knows the epoch as a whole percentage
BURN_IN, SOFT_FROM = 19, 90  # in these parts everything counts before, and the cut is a slope after
LARGEST, FARTHEST = 30.0, 5.0  # losses and differences that the mentor has seen
STEPS, BATCH = 400, 1024


class Mentor(nn.Module):
    """Losses, their differences from the moving level, labels and the part of the run, all [n] -> logits [n].

    As released: embeddings of label (2) and part (5), an LSTM cell of one unit in each direction over (loss,
    difference), which on a single step from a zero state is `_cell`, and a hidden layer of 20.
    """

    def __init__(self, classes: int):
        super().__init__()
        self.label, self.part = nn.Embedding(classes, 2), nn.Embedding(PARTS, 5)
        self.gates = nn.Linear(2, 6)  # input, new value and output, forwards and backwards
        self.hidden, self.out = nn.Linear(2 + 5 + 2, 20), nn.Linear(20, 1)

    def forward(self, losses: Tensor, differences: Tensor, labels: Tensor, part: Tensor) -> Tensor:
        seen = self._cell(torch.stack([losses.clamp(max=LARGEST), differences.clamp(-FARTHEST, FARTHEST)], 1))
        known = torch.cat([self.label(labels), self.part(part), seen], 1)
        logits: Tensor = self.out(torch.tanh(self.hidden(known)))[:, 0]
        return logits

    def _cell(self, inputs: Tensor) -> Tensor:
        enters, new, leaves = self.gates(inputs).split(2, 1)
        return torch.sigmoid(leaves) * torch.tanh(torch.sigmoid(enters) * torch.tanh(new))


def predefined(differences: Tensor, part: Tensor) -> Tensor:
    """The curriculum that the mentor is taught [n]: 1, then 1 where the difference is at most 0, then a slope.

    >>> predefined(torch.tensor([9.0, -1.0, 0.5, 0.5]), torch.tensor([5, 50, 50, 95])).tolist()
    [1.0, 1.0, 0.0, 0.5]
    """
    cut, slope = (differences <= 0).float(), (1 - differences).clamp(0, 1)
    return torch.where(part < BURN_IN, 1.0, torch.where(part < SOFT_FROM, cut, slope))


@cache
def trained_mentor(classes: int, seed: int = 0) -> Mentor:
    """A mentor that has learnt the predefined curriculum from generated losses, in about a second on a CPU."""
    draws = generator(seed, "mentor")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        mentor = Mentor(classes)
    optimizer = torch.optim.Adam(mentor.parameters(), lr=0.02)
    with torch.enable_grad():
        for _ in range(STEPS):
            losses, differences, labels, part = generated(BATCH, classes, draws)
            told = mentor(losses, differences, labels, part)
            optimizer.zero_grad()
            wrong = binary_cross_entropy_with_logits(told, predefined(differences, part))
            wrong.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return mentor.requires_grad_(False)


def generated(count: int, classes: int, draws: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random losses, differences, labels and parts [count], over the ranges of the released generator."""
    losses, differences = torch.rand(2, count, generator=draws)
    labels, part = (torch.randint(most, (count,), generator=draws) for most in (classes, PARTS))
    return LARGEST * losses.square(), FARTHEST * (2 * differences - 1), labels, part  # small losses are the frequent


@dataclass(frozen=True)
class LearnedCurriculum(Rule):
    """A mentor's weights: its sigmoid of loss, difference from a moving quantile, given label and part of the run.

    Jiang et al. (2018), Figure 2 and Algorithm 1, with the mentor taught once, before the run. `progress`
    is the share of the run that is over. The mentor's parameters are memory: they are kept and resumed with the run.
    """

    fraction: float | Schedule
    progress: float | Schedule
    classes: int
    rate: float = 0.5
    by: Signal = loss
    of: Signal = given
    seed: int = 0

    clocks: ClassVar[frozenset[str]] = frozenset({"batch"})
    timeless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_other_kinds({"classes": whole(2), "seed": SEED}, {"classes": self.classes, "seed": self.seed})
        trained_mentor(self.classes, self.seed)  # here, because a step must not wait for it

    def __call__(self, evidence: Evidence) -> Decision:
        losses, labels, mentor = evidence.read(self.by), evidence.read(self.of), trained_mentor(self.classes, self.seed)
        level = moving_level(evidence, losses, self.fraction, self.rate)
        taught = {
            name: evidence.memory.get(f"mentor.{name}", value).to(losses.device)
            for name, value in mentor.named_parameters()
        }
        share = torch.zeros_like(labels, dtype=torch.float64) + evidence.value(self.progress)
        part = (PARTS * share + 1e-6).long().clamp(0, PARTS - 1)
        inputs = (losses.float(), (losses - level).float(), labels, part)
        weights = torch.sigmoid(functional_call(mentor, taught, inputs))
        return Decision(weights, memory={"level": level, **{f"mentor.{name}": each for name, each in taught.items()}})
