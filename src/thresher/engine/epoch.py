"""What epoch rules look at: evidence about whole sets, which sweeps when a rule first reads it."""

from collections.abc import Mapping

from torch import Tensor, nn

from thresher.engine.evidence import Evidence
from thresher.engine.learner import Learner, Taps
from thresher.engine.step import Now
from thresher.engine.sweep import Sweeper
from thresher.engine.teacher import Teacher
from thresher.examples import Examples
from thresher.relabel import Relabel
from thresher.rules import RuleLike
from thresher.rules.rule import needs_of, signals_of


def epoch_evidence(
    asked: tuple[RuleLike | None, Relabel | None],
    learner: Learner,
    train: Examples,
    columns: Mapping[str, Tensor],
    validation: Examples | None,
    sweeper: Sweeper,
    now: Now,
) -> Evidence:
    """Evidence about the training set by one network, with that by its average, its teacher and of the validation set.

    Of the validation set there is the same again: `evidence.other("validation").other("teacher")`.
    """
    wanted, needs = signals_of(asked), needs_of(asked)

    def about(examples: Examples, columns: Mapping[str, Tensor], model: nn.Module, taps: Taps | None) -> Evidence:
        return Evidence(
            ids=examples.ids,
            targets=examples.targets,
            objective=learner.objective,
            raw_outputs=lambda: sweeper(model, learner.objective, examples, wanted=wanted, taps=taps),
            classes=examples.classes,
            epoch=now.epoch,
            epochs=now.epochs,
            generator=now.generator,
            columns=columns,
            memory=learner.epoch_memory,
            scalars=now.scalars,
        )

    def linked(examples: Examples, columns: Mapping[str, Tensor]) -> Evidence:
        evidence, others = about(examples, columns, learner.model, learner.taps), {}
        if "average" in needs and learner.average is not None:
            others["average"] = about(examples, columns, learner.average, learner.average_taps)
        if "teacher" in needs:
            others["teacher"] = Teacher()(evidence.but(columns=examples.columns))
        return evidence.but(others=others)

    evidence = linked(train, columns)
    if validation is not None and "validation" in needs:
        known = linked(validation, validation.columns)
        evidence = evidence.but(others={**evidence.others, "validation": known})
    return evidence
