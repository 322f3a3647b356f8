"""Some more steps on the clean set, after any method (+FT)."""

from typing import Any

from thresher.core.errors import ThresherError
from thresher.core.examples import Examples
from thresher.core.recipe import Recipe
from thresher.core.schedules import Schedule
from thresher.engine.run import Run
from thresher.engine.train import train_recipe
from thresher.slots.draw import repeated

LOOKS = 20  # how often the test set is evaluated
LEAST = 0.01  # of the learning rate


def fine_tune(run: Run, clean: Examples, *, steps: int = 5000, batch: int = 100, **settings: Any) -> Run:
    """Train the networks of a run, in place, on the clean set alone (L2RW, section 4.2); `settings` go to `fit`.

    Its history has about twenty records, not one for each of the many passes over a small set.
    """
    if steps < 1:
        raise ThresherError(f"Fine-tuning takes at least 1 step, not {steps}.")
    batch = min(batch, len(clean))
    times = max(1, -(-steps * batch // (LOOKS * len(clean))))
    supply = iter(run.models)
    recipe = Recipe(draw=repeated(times), peers=len(run.models))
    kept = ("model", "method", "class_names", "target_scale", "preparation")  # which the clean set may lack
    about = {name: run.about[name] for name in kept if name in run.about}
    return train_recipe(recipe, lambda: next(supply), clean, steps=steps, batch=batch, about=about, **settings)


def last_rate(schedule: Schedule | None, epochs: float) -> float:
    """The factor of the learning rate at the end of a training of this many epochs, at least 0.01.

    >>> from thresher.core.schedules import cosine, step
    >>> last_rate(step(1.0, at=(80, 100)), 90), last_rate(cosine(1.0), 90), last_rate(None, 90)
    (0.1, 0.01, 1.0)
    """
    return 1.0 if schedule is None else max(schedule(epochs, epochs), LEAST)
