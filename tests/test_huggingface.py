"""A weigher in Hugging Face's Trainer: ids and weights as columns, the weights of a plain loop, language models."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import tiny_transformers as tiny  # noqa: E402

from thresher import Examples, fit, weigh  # noqa: E402
from thresher.core.errors import ThresherError  # noqa: E402
from thresher.rules import KeepSmallest, MetaGradient  # noqa: E402
from thresher.trainers import ThresherTrainer, Weigher, weighted  # noqa: E402

N, LENGTH = 24, 6
DRAWS = torch.Generator().manual_seed(0)
IDS = torch.randint(1, tiny.WORDS, (N, LENGTH), generator=DRAWS)
LABELS = (IDS[:, 0] % 2).tolist()
ONES = [1] * LENGTH
ITEMS: list[dict[str, Any]] = [
    {"input_ids": ids.tolist(), "attention_mask": ONES, "labels": label} for ids, label in zip(IDS, LABELS, strict=True)
]


def bert() -> nn.Module:
    torch.manual_seed(0)
    return tiny.bert(num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def gpt2() -> nn.Module:
    torch.manual_seed(0)
    return tiny.gpt2(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def trained(model: nn.Module, items: Any, out: Path, weigher: Weigher, **more: Any) -> Any:
    options = {"num_train_epochs": 1, "per_device_train_batch_size": 8, "learning_rate": 0.01, "max_grad_norm": 0.0}
    named = {name: more.pop(name) for name in ("clean_dataset", "eval_dataset") if name in more}
    resume = more.pop("resume", None)
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no"}
    arguments = transformers.TrainingArguments(output_dir=str(out), **{"optim": "sgd"} | options | quiet | more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = ThresherTrainer(model=model, args=arguments, train_dataset=items, weigher=weigher, **named)
        trainer._get_train_sampler = lambda *given: torch.utils.data.SequentialSampler(items)  # noqa: ARG005
        trainer.train(resume_from_checkpoint=resume)
    return trainer


def by_hand(model: nn.Module, rule: Any, targets: torch.Tensor, clean: Any = None) -> list[float]:
    """The weights of every batch by weigh, in a loop written by hand with the same optimizer and schedule."""
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.01), []
    for step, index in enumerate(torch.arange(N).split(8)):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * (1 - step / 3)
        inputs = {"input_ids": IDS[index], "attention_mask": torch.ones(8, LENGTH, dtype=torch.long)}
        weights = weigh(rule, model, inputs, targets[index], clean=clean)
        logits = model(**inputs).logits
        losses = nn.functional.cross_entropy(logits.movedim(-1, 1), targets[index], reduction="none")
        if losses.ndim == 2:
            losses = losses.sum(1) / (targets[index] != -100).sum(1)
        optimizer.zero_grad()
        ((weights * losses).sum() / weights.sum()).backward()
        optimizer.step()
        found += weights.tolist()
    return found


@pytest.mark.parametrize("name", ["prl-l", "l2rw"])
@pytest.mark.parametrize("language", [False, True])
def test_the_trainer_weighs_and_trains_as_a_loop_by_hand(name: str, language: bool, tmp_path: Path) -> None:
    make = gpt2 if language else bert
    items = [{**item, "labels": item["input_ids"]} for item in ITEMS] if language else ITEMS
    targets = torch.cat([IDS[:, 1:], torch.full((N, 1), -100)], 1) if language else torch.tensor(LABELS)
    mask = torch.ones(6, LENGTH, dtype=torch.long)
    clean = ({"input_ids": IDS[:6], "attention_mask": mask}, targets[:6])
    rule: Any = KeepSmallest(by="output_gradient_norm", fraction=0.75) if name == "prl-l" else MetaGradient()
    more = {} if name == "prl-l" else {"clean_dataset": items[:6]}
    weigher, model, plain = Weigher(name, noise_rate=0.25), make(), make()
    trained(model, items, tmp_path, weigher, **more)
    expected = by_hand(plain, rule, targets, clean if more else None)
    rows = weigher.ledger.table().sort_by("id")
    assert rows["id"].to_pylist() == list(range(N))
    assert rows["weight"].to_pylist() == pytest.approx(expected, rel=1e-3, abs=1e-5)
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def test_ids_and_weights_are_columns(tmp_path: Path) -> None:
    """An example whose weight is 0 teaches nothing, whatever its label is."""
    items = [{**item, "id": 500 + at, "weight": float(at % 2)} for at, item in enumerate(ITEMS)]
    spoilt = [item if at % 2 else {**item, "labels": 1 - item["labels"]} for at, item in enumerate(items)]
    found = []
    for given in (items, spoilt):
        model, weigher = bert(), Weigher()
        trained(model, given, tmp_path, weigher)
        found.append(model)
    table = weigher.ledger.table().sort_by("id")
    assert table["id"].to_pylist() == list(range(500, 500 + N))
    assert table["weight"].to_pylist() == [float(at % 2) for at in range(N)]
    for mine, other in zip(*(model.parameters() for model in found), strict=True):
        torch.testing.assert_close(mine, other)


def test_accumulation_bf16_datasets_and_evaluation(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list([{**item, "text": "not for the model"} for item in ITEMS])
    weigher = Weigher("prl-g", noise_rate=0.25)
    trainer = trained(
        bert(), data, tmp_path, weigher, gradient_accumulation_steps=3, bf16=True, num_train_epochs=2, eval_dataset=data
    )
    assert weigher.ledger.table().num_rows == 2 * N
    assert np.isfinite(trainer.evaluate()["eval_loss"])
    assert weigher.total == 2


@pytest.mark.parametrize("name", ["prl-l", "l2rw"])
def test_a_checkpoint_goes_on_as_if_it_had_never_stopped(name: str, tmp_path: Path) -> None:
    """From amid an epoch, and from its last step; the ledger has the rows of both parts."""
    known: dict[str, Any] = {"clean_dataset": ITEMS[:7]} if name == "l2rw" else {}
    weighers = [Weigher(name, noise_rate=0.5, **({"clean_batch": 3} if known else {})) for _ in range(3)]
    known |= {"num_train_epochs": 2, "save_strategy": "steps", "save_steps": 1}
    expected = trained(bert(), ITEMS, tmp_path, weighers[0], **known)
    for weigher, step in zip(weighers[1:], (2, 3), strict=True):
        resumed = trained(bert(), ITEMS, tmp_path, weigher, resume=str(tmp_path / f"checkpoint-{step}"), **known)
        assert weigher.ledger.to_pandas().equals(weighers[0].ledger.to_pandas())
        assert [record["epoch"] for record in weigher.history] == [1, 2]
        for mine, other in zip(resumed.model.parameters(), expected.model.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=0, atol=0)
    last = Weigher(name, noise_rate=0.5, **({"clean_batch": 3} if name == "l2rw" else {}))
    trained(bert(), ITEMS, tmp_path, last, resume=True, **known | {"num_train_epochs": 3})
    assert [record["epoch"] for record in last.history] == [1, 2, 3]
    with pytest.raises(ThresherError, match="has no checkpoint to resume from"):
        trained(bert(), ITEMS, tmp_path / "none", last, resume=True, **known)
    (tmp_path / "checkpoint-2" / "weigher.pt").unlink()
    with pytest.raises(ThresherError, match=r"has no weigher\.pt: resume from a checkpoint that this trainer"):
        trained(bert(), ITEMS, tmp_path, Weigher(name, noise_rate=0.5), resume=str(tmp_path / "checkpoint-2"), **known)


def test_a_rule_that_drops_everything_leaves_the_model_under_a_trainer_as_it_was(tmp_path: Path) -> None:
    items = [{**item, "weight": 0.0} for item in ITEMS]
    model, plain, weigher = bert(), bert(), Weigher()
    trained(model, items, tmp_path, weigher, optim="adamw_torch", weight_decay=0.5)
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, other)
    assert weigher.history[0]["skipped"] == 3


def test_iterable_datasets_bring_their_own_ids(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    streams = [
        datasets.IterableDataset.from_generator(lambda items=items: iter(items))
        for items in (ITEMS, [{**item, "id": 7 + at} for at, item in enumerate(ITEMS)])
    ]
    with pytest.raises(ThresherError, match="iterable train_dataset have no places: give them the column id"):
        trained(bert(), streams[0], tmp_path, Weigher(), max_steps=3)
    weigher = Weigher("prl-l", noise_rate=0.25)
    trained(bert(), streams[1], tmp_path, weigher, max_steps=3)
    assert weigher.ledger.table()["id"].to_pylist() == list(range(7, 7 + N))


@pytest.mark.parametrize(
    "more", [{"label_smoothing_factor": 0.1}, {"compute_loss_func": lambda *_: 0}], ids=["smoothed", "own"]
)
def test_losses_that_no_weigher_can_count_are_refused(more: dict[str, Any], tmp_path: Path) -> None:
    arguments = {name: value for name, value in more.items() if name != "compute_loss_func"}
    args = transformers.TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True, **arguments)
    given = {name: value for name, value in more.items() if name == "compute_loss_func"}
    with pytest.raises(ThresherError, match=r"pass that as Weigher\(objective=...\)"):
        ThresherTrainer(model=bert(), args=args, train_dataset=ITEMS, weigher=Weigher(), **given)


def test_items_without_labels_are_refused(tmp_path: Path) -> None:
    items = [{name: value for name, value in item.items() if name != "labels"} for item in ITEMS]
    with pytest.raises(ThresherError, match="items have no labels to learn"):
        trained(bert(), items, tmp_path, Weigher())


def test_any_trainer_can_be_weighted() -> None:
    class Other(transformers.Trainer):  # type: ignore[misc, name-defined]
        pass

    assert issubclass(weighted(Other), Other)
    assert weighted(Other).__name__ == "WeightedOther"


@pytest.mark.parametrize("name", ["prl-l", "prl-g"])
def test_a_stock_model_and_a_batch_encoding_go_through_fit(name: str) -> None:
    encoded = transformers.BatchEncoding({"input_ids": IDS, "attention_mask": torch.ones_like(IDS)})
    run = fit(name, bert, Examples(encoded, LABELS), noise_rate=0.25, epochs=12, batch=8, learning_rate=5e-3)
    assert run.history[-1]["kept"] == 0.75
    assert run.history[-1]["loss"] < 0.6 * run.history[0]["loss"]
    short = transformers.BatchEncoding({"input_ids": IDS, "attention_mask": torch.ones(3, LENGTH)})
    with pytest.raises(ValueError, match=r"inputs of different lengths \(24 of input_ids, 3 of attention_mask\)"):
        Examples(short, LABELS)
