"""A weigher in Hugging Face's Trainer, and in trainers made of it, such as those of TRL.

Items bring the columns `id` and, where some should count more, `weight`; both are taken off before the model is called.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint

from thresher.core.errors import ThresherError, refuse_unless
from thresher.core.example_checks import takes_items
from thresher.core.examples import Examples
from thresher.trainers.given import refuse_no_weigher, refuse_other_weights
from thresher.trainers.loggers import named_numbers
from thresher.trainers.network import unwrapped
from thresher.trainers.numbered import ID, WEIGHT, Numbered
from thresher.trainers.weigher import Weigher

IGNORED = -100
STATE = "weigher.pt"  # in the folder of a checkpoint


def next_tokens(labels: Tensor) -> Tensor:
    """The targets of a language model whose labels are its own tokens: at each place the one that follows.

    >>> next_tokens(torch.tensor([[5, 6, 7]])).tolist()
    [[6, 7, -100]]
    """
    return torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], IGNORED)], 1)


def predicts_next(model: nn.Module) -> bool:
    """Whether the model moves its labels by one place itself, as language models that write from left to right do."""
    inner = unwrapped(model)
    wrapped: Any = inner
    base = wrapped.get_base_model() if "get_base_model" in dir(inner) else inner  # which peft has wrapped
    return type(base).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()


def parted(batch: Mapping[str, Any], moves: bool) -> tuple[dict[str, Any], Tensor]:
    """The inputs of the model, and the targets at the places of its outputs."""
    if "labels" not in batch:
        raise ThresherError(f"The items have no labels to learn ({', '.join(batch)}): give them the column labels.")
    inputs = {name: value for name, value in batch.items() if name not in ("labels", ID, WEIGHT)}
    return inputs, next_tokens(batch["labels"]) if moves else batch["labels"]


class Collated:
    """A collate function that carries ids and weights past another, which need not know them."""

    def __init__(self, collate: Callable[[list[Any]], Any]):
        self.collate = collate

    def __call__(self, items: list[Any]) -> dict[str, Any]:
        carried = {name: _column(name, items) for name in (ID, WEIGHT) if any(name in item for item in items)}
        batch = self.collate([{name: part for name, part in item.items() if name not in carried} for item in items])
        return {**batch, **carried}


def _column(name: str, items: list[Any]) -> Tensor:
    """The ids of these items, or their weights."""
    if not all(name in item for item in items):
        raise ThresherError(f"Some items have the column {name} and some do not: give it to all of them, or to none.")
    values = [item[name] for item in items]
    try:
        made = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        made = torch.zeros(0)
    whole = not (made.is_floating_point() or made.is_complex())
    if made.shape != (len(items),) or (name == ID and not whole):
        wanted = "a whole number" if name == ID else "a number from 0 on"
        raise ThresherError(f"The column {name} of the items holds {values[0]!r:.40}: give each {wanted}.")
    if name == WEIGHT:
        refuse_other_weights(made)
    return made.long() if name == ID else made.float()


class Told(TrainerCallback):
    """Tells the weigher of epochs and steps."""

    def __init__(self, weigher: Weigher, log: Callable[[dict[str, float]], None]):
        self.weigher, self.log = weigher, log

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        self.weigher.total = args.num_train_epochs
        self.weigher.begin_epoch(int((state.epoch or 0) + 1e-6))  # that in which it goes on, after a resume

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        self.weigher.skip_if_empty(given["optimizer"])

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        own = self.weigher.state_dict()  # of all processes
        if state.is_world_process_zero:
            torch.save(own, Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}" / STATE)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        self.weigher.end_epoch()
        if self.weigher.history:
            self.log(named_numbers(self.weigher.history[-1]))

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        self.weigher.finish()


def weighted(base: type[Any]) -> type[Any]:
    """A trainer like this one that counts examples as a weigher says: `weighted(SFTTrainer)(..., weigher=...)`.

    clean_dataset  items like those of train_dataset whose labels can be trusted, for weighers that look at some
    """

    fits = isinstance(base, type) and issubclass(base, Trainer)
    refuse_unless("base", base, fits, "a class of trainers, such as transformers.Trainer")

    class Weighted(base):  # type: ignore[misc]
        train_dataset: Any
        data_collator: Any
        processing_class: Any
        _signature_columns: Any

        def __init__(self, *given: Any, weigher: Weigher, clean_dataset: Any = None, **named: Any):
            refuse_no_weigher(weigher)
            told = inspect.signature(base.__init__).bind_partial(self, *given, **named).arguments
            refuse_other_losses(told)
            for which in (told.get("train_dataset"), clean_dataset):
                _refuse_no_items(which)
            if told.get("train_dataset") is not None:  # before anything shuffles it or leaves out a part
                told["train_dataset"] = numbered(told["train_dataset"])
            super().__init__(**{name: value for name, value in told.items() if name != "self"})
            self.weigher = weigher
            self.data_collator = Collated(self.data_collator)
            self.model_accepts_loss_kwargs = False  # so that the loss of a batch is divided among accumulated ones
            if clean_dataset is not None:
                weigher.take_clean(self._as_examples(clean_dataset))
            self.add_callback(Told(weigher, self.log))

        def _as_examples(self, dataset: Any) -> Examples:
            if "_prepare_dataset" in dir(base) and "input_ids" not in next(iter(dataset)):  # texts, to a trainer of TRL
                dataset = self._prepare_dataset(dataset, self.processing_class, self.args, False, None, "clean")
            self._set_signature_columns_if_needed()
            items = [{k: v for k, v in item.items() if k in self._signature_columns} for item in dataset]
            inputs, targets = parted(self.data_collator(items), predicts_next(self.model))
            return Examples(inputs, targets, name="clean_dataset")

        def _set_signature_columns_if_needed(self) -> None:
            super()._set_signature_columns_if_needed()
            self._signature_columns = list(dict.fromkeys([*self._signature_columns, ID, WEIGHT]))

        def train(self, resume_from_checkpoint: Any = None, *given: Any, **named: Any) -> Any:
            """As ever; a checkpoint has the state of the weigher too."""
            if resume_from_checkpoint:
                newest: Any = get_last_checkpoint  # which has no types
                asked_last = resume_from_checkpoint is True
                folder = newest(self.args.output_dir) if asked_last else resume_from_checkpoint
                if folder is None:
                    raise ThresherError(f"{self.args.output_dir} has no checkpoint to resume from: leave that out.")
                self.weigher.load_state_dict(saved_state(Path(folder)))
            return super().train(resume_from_checkpoint, *given, **named)

        def compute_loss(self, model: nn.Module, inputs: Any, return_outputs: bool = False, **given: Any) -> Any:
            if not model.training:
                plain = {name: value for name, value in inputs.items() if name not in (ID, WEIGHT)}
                return super().compute_loss(model, plain, return_outputs=return_outputs, **given)
            told, targets = parted(inputs, predicts_next(model))
            loss = self.weigher.loss(model, told, targets, ids=inputs.get(ID), weight=inputs.get(WEIGHT))
            return (loss, {}) if return_outputs else loss

    Weighted.__name__ = Weighted.__qualname__ = f"Weighted{base.__name__}"
    return Weighted


def refuse_other_losses(told: Mapping[str, Any]) -> None:
    """Refuse what a trainer is told that leaves no loss of each example for a weigher to count."""
    asked = {} if told.get("args") is None else vars(told["args"])
    if asked.get("packing") or asked.get("padding_free"):
        raise ThresherError(
            "Packed sequences have no loss, no weight and no id of their own: set packing=False and padding_free=False."
        )
    kind = asked.get("loss_type", "nll")
    if asked.get("label_smoothing_factor") or told.get("compute_loss_func") is not None or kind != "nll":
        raise ThresherError(
            "The weigher's objective gives the loss here: pass that as Weigher(objective=...), and leave out "
            "compute_loss_func=, loss_type= and label_smoothing_factor=."
        )


def saved_state(folder: Path) -> Any:
    """The weigher's state in a checkpoint."""
    if not (folder / STATE).is_file():
        raise ThresherError(f"{folder} has no {STATE}: resume from a checkpoint that this trainer has written.")
    try:
        return torch.load(folder / STATE, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and pickle name no kinds of their own
        raise ThresherError(f"{folder / STATE} is damaged: resume from another checkpoint.") from error


def _refuse_no_items(dataset: Any) -> None:
    """Refuse what holds no items, or none at all; None is no dataset."""
    if dataset is None:
        return
    refuse_unless("dataset", dataset, isinstance(dataset, Iterable) or takes_items(dataset), "a dataset of items")
    has_length = callable(getattr(dataset, "__len__", None))
    if not len(dataset) if has_length else next(iter(dataset), None) is None:
        raise ThresherError("A dataset that the trainer is given is empty: give one that has items.")


def numbered(dataset: Any) -> Any:
    """The dataset with its places as the column `id`, if it has none; one of the package datasets stays one."""
    if "__getitem__" not in dir(dataset) or "__len__" not in dir(dataset):
        if ID not in next(iter(dataset)):
            raise ThresherError("The items of an iterable train_dataset have no places: give them the column id.")
        return dataset
    if ID in dataset[0]:
        return dataset
    if "add_column" in dir(dataset):
        return dataset.add_column(ID, list(range(len(dataset))))
    return Numbered(dataset)


ThresherTrainer = weighted(Trainer)
