"""Fine-tuning after a training from settings: `--fine-tune`."""

from collections.abc import Callable
from pathlib import Path

from thresher.app.train_job import TrainJob
from thresher.engine.plan import make_schedule
from thresher.engine.run import Run
from thresher.engine.settings import DEFAULT_BATCH, training_part
from thresher.engine.train import Moment
from thresher.methods import fine_tune, last_rate
from thresher.record.run_folder import FINE_TUNED


def fine_tuned(
    job: TrainJob, run: Run, out: Path, watch: Callable[[Moment], None] | None = None, commit_every: float = 30.0
) -> Run:
    """The run's networks after some steps on the clean examples alone, in a folder inside the run's."""
    settings = job.settings
    schedule = make_schedule(settings.schedule, job.epochs)
    rate = (settings.learning_rate or 0.0) * last_rate(schedule, job.epochs)
    assert job.sets.clean is not None
    return fine_tune(
        run,
        job.sets.clean,
        steps=settings.fine_tune_steps,
        batch=settings.batch or DEFAULT_BATCH,
        test=job.sets.test,
        watch=watch,
        out=out / FINE_TUNED,
        settings=training_part(
            settings, learning_rate=rate, commit_every=commit_every, epochs=None, schedule=None, clean_batch=None
        ),
    )
