"""One registry of four kinds: every method has a name of its own, and says what it is, from where and what it needs."""

import pytest
from tiny import examples, net

from thresher import Recipe, ThresherError
from thresher.core.rule import columns_of, needs_of, signals_of
from thresher.core.tasks import TASKS
from thresher.methods import (
    ACQUISITIONS,
    KINDS,
    METHODS,
    WEIGHTINGS,
    Method,
    Trainer,
    acquisition,
    method,
    methods,
    weighting,
)

ALL = methods()


def test_every_method_is_of_one_kind_and_has_a_name_of_its_own() -> None:
    names = [known.name for known in ALL]
    assert names == [*METHODS, *ACQUISITIONS, *WEIGHTINGS]
    assert len(names) == len(set(names)), "rename the newer one: method(name) has to know which is meant"
    assert [known for kind in KINDS for known in methods(kind)] == sorted(ALL, key=lambda each: KINDS.index(each.kind))
    assert all(methods(kind) for kind in KINDS)
    assert {known.name for kind in KINDS[:2] for known in methods(kind)} == METHODS.keys()
    with pytest.raises(ThresherError, match="There is no kind of method 'rule': choose one of acquisition"):
        methods("rule")


@pytest.mark.parametrize("known", ALL, ids=lambda known: known.name)
def test_a_method_says_what_it_is(known: Method) -> None:
    assert method(known.name) is known
    assert known.summary
    assert not known.summary.endswith(".")
    assert known.paper
    assert known.clock in ("batch", "epoch", "round")
    assert isinstance(known.needs, tuple)
    assert set(known.tasks) <= set(TASKS)
    assert known.tasks


def test_a_name_that_is_unknown_gets_the_nearest_one() -> None:
    for wrong, right in (("prll", "prl-l"), ("s-badg", "s-badge"), ("debiass", "debias")):
        with pytest.raises(ThresherError, match=f"did you mean '{right}'"):
            method(wrong)


@pytest.mark.parametrize("name", ["spl", "prl-l", "prl-g", "co-teaching"])
def test_a_noise_rate_is_a_share(name: str) -> None:
    assert "noise_rate" in METHODS[name].needs
    for wrong in (1.0, -0.1, "lots"):
        with pytest.raises(ThresherError, match="give a number from 0 up to 1"):
            METHODS[name].recipe(noise_rate=wrong)


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_an_acquisition_needs_what_its_rule_needs(name: str) -> None:
    known = acquisition(name)
    assert method(name) is known
    assert known.rule(7).count == 7
    assert set(known.needs) == needs_of(known.rule(1))
    assert all(set(known.tasks) <= set(signal.tasks) for signal in signals_of(known.rule(1)))


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_a_weighting_needs_what_its_rule_needs(name: str) -> None:
    rule = weighting(name)
    assert method(name).rule() == rule
    truth = {"column true_target"} if "is_corrupt" in columns_of(rule) else set()  # by which is_corrupt is told
    assert set(method(name).needs) == (needs_of(rule) - {"teacher"}) | truth  # there is always a teacher


@pytest.mark.parametrize("known", [*methods("acquisition"), *methods("weighting")], ids=lambda known: known.name)
def test_what_trains_nothing_says_how_it_is_used(known: Method) -> None:
    fix = (
        f"pass by='{known.name}' to active_loop" if known.kind == "acquisition" else f"weights='{known.name}' to distil"
    )
    with pytest.raises(ThresherError, match=f"trains nothing: .*{fix}"):
        known.recipe()
    with pytest.raises(ThresherError, match=fix):
        known.train(Trainer(net, examples()))


def test_only_recipes_have_a_recipe() -> None:
    assert all(isinstance(known.recipe(noise_rate=0.2, classes=3, epochs=2), Recipe) for known in methods("recipe"))
    for known in methods("procedure"):
        with pytest.raises(ThresherError, match="several trainings and so has no recipe"):
            known.recipe()
