"""The learned mentor: it imitates the predefined curriculum, and is the rule's memory."""

import torch
from some_evidence import some_evidence
from torch import nn

from thresher import signals
from thresher.core.schedules import ramp
from thresher.methods import method
from thresher.rules import Curriculum, LearnedCurriculum, ask
from thresher.rules.mentor import BURN_IN, PARTS, SOFT_FROM, Mentor, generated, predefined, trained_mentor


def test_the_mentor_has_learnt_the_curriculum() -> None:
    inputs = generated(20_000, 4, torch.Generator().manual_seed(7))
    told, wanted = torch.sigmoid(trained_mentor(4)(*inputs)), predefined(inputs[1], inputs[3])
    assert float((told - wanted).abs().mean()) < 0.02
    assert float(((told > 0.5) == (wanted > 0.5)).float().mean()) > 0.99
    assert float((torch.sigmoid(Mentor(4)(*inputs)).detach() - wanted).abs().mean()) > 0.2, "an untaught one has not"


def test_the_taught_curriculum_is_the_predefined_one_of_the_other_method() -> None:
    """What the mentor is taught is what `mentornet` does, for losses around a level of 2."""
    rule = method("mentornet").recipe(noise_rate=0.5, classes=4, epochs=PARTS).each_batch
    losses = torch.tensor([1.0, 2.0, 2.5, 4.0])
    for epoch in (0, BURN_IN - 1, BURN_IN, SOFT_FROM - 1, SOFT_FROM, PARTS - 1):
        seen = some_evidence(4).replace(known={signals.loss: losses}, epoch=epoch, epochs=float(PARTS))
        assert torch.equal(ask(rule, seen).weights, predefined(losses - 2.0, torch.full((4,), epoch)))


def test_the_cell_is_a_bidirectional_lstm_on_one_step() -> None:
    mentor, slow = Mentor(3), nn.LSTM(2, 1, bidirectional=True)
    weight, bias = mentor.gates.weight.detach(), mentor.gates.bias.detach()
    with torch.no_grad():
        for place, end in enumerate(("", "_reverse")):
            enters, new, leaves = (part[place] for part in weight.split(2))
            # torch has four gates: input, forget, new value, output; from a zero state the second forgets nothing.
            getattr(slow, f"weight_ih_l0{end}").copy_(torch.stack([enters, torch.zeros(2), new, leaves]))
            own = [part[place] for part in bias.split(2)]
            getattr(slow, f"bias_ih_l0{end}").copy_(torch.stack([own[0], torch.zeros(()), own[1], own[2]]))
            getattr(slow, f"bias_hh_l0{end}").zero_()
    inputs = torch.randn(9, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(mentor._cell(inputs), slow(inputs[None])[0][0])


def test_the_level_moves_as_in_the_predefined_curriculum() -> None:
    learned = LearnedCurriculum(0.5, ramp(0.0, 1.0, epochs=4), classes=4, rate=0.75)
    plain = Curriculum(0.5, rate=0.75)
    memories: list[dict[str, torch.Tensor]] = [{}, {}]
    for epoch in range(4):
        seen = some_evidence(30, seed=epoch).replace(epoch=epoch, epochs=4.0)
        decisions = [
            ask(rule, seen.replace(memory=memory)) for rule, memory in zip((learned, plain), memories, strict=True)
        ]
        memories = [dict(decision.memory) for decision in decisions]
        assert memories[0]["level"] == memories[1]["level"]
    assert {name.partition(".")[0] for name in memories[0]} == {"level", "mentor"}


def test_it_uses_the_mentor_that_its_memory_holds() -> None:
    rule, seen = LearnedCurriculum(0.5, 0.5, classes=4), some_evidence(30)
    memory = dict(ask(rule, seen).memory)
    blind = {name: torch.zeros_like(value) for name, value in memory.items()}
    assert (ask(rule, seen.replace(memory=blind)).weights == 0.5).all()
