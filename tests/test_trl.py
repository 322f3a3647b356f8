"""A weigher in TRL's SFTTrainer itself: ids by the places of the user's texts, weights by column, packing refused."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")
transformers = pytest.importorskip("transformers")

import tiny_transformers as tiny  # noqa: E402

from thresher.core.errors import ThresherError  # noqa: E402
from thresher.trainers import Weigher, weighted  # noqa: E402

VOCABULARY = ["<pad>", "<eos>", *(f"w{at}" for at in range(tiny.WORDS - 2))]
DRAWS = torch.Generator().manual_seed(0)
TEXTS = [
    " ".join(VOCABULARY[int(word)] for word in torch.randint(2, tiny.WORDS, (3 + at % 4,), generator=DRAWS))
    for at in range(16)
]


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: at for at, word in enumerate(VOCABULARY)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


def gpt2() -> nn.Module:
    torch.manual_seed(0)
    return tiny.gpt2(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def trained(weigher: Weigher, out: Path, columns: dict[str, Any], clean: Any = None, **more: Any) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trl and of what it imports
        from trl import SFTConfig, SFTTrainer

        options = {"per_device_train_batch_size": 4, "num_train_epochs": 1, "optim": "sgd", "max_grad_norm": 0.0}
        quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "bf16": False}
        args = SFTConfig(output_dir=str(out), logging_strategy="no", max_length=8, **options | quiet | more)
        trainer = weighted(SFTTrainer)(
            model=gpt2(), args=args, train_dataset=datasets.Dataset.from_dict({"text": TEXTS, **columns}),
            processing_class=tokenizer(), weigher=weigher, clean_dataset=clean,
        )  # fmt: skip
        trainer.train()
    return trainer.model


@torch.no_grad()
def losses() -> list[float]:
    """The mean loss over the words of each text, by a loop over them."""
    model, words, found = gpt2().eval(), tokenizer(), []
    for text in TEXTS:
        ids = torch.tensor([words(text + "<eos>")["input_ids"]])
        logits = model(input_ids=ids).logits[0, :-1]
        found.append(float(nn.functional.cross_entropy(logits, ids[0, 1:])))
    return found


def test_ids_are_the_places_of_the_texts_though_the_trainer_shuffles_them(tmp_path: Path) -> None:
    weigher = Weigher("prl-l", noise_rate=0.25)
    trained(weigher, tmp_path, {}, shuffle_dataset=True, learning_rate=0.0)
    rows = weigher.ledger.table().sort_by("id")
    assert rows["id"].to_pylist() == list(range(len(TEXTS)))
    assert rows["loss"].to_pylist() == pytest.approx(losses(), rel=1e-4)
    assert weigher.history[0]["kept"] == 0.75


def test_columns_of_ids_and_weights_travel(tmp_path: Path) -> None:
    columns = {"id": [100 + at for at in range(len(TEXTS))], "weight": [float(at % 2) for at in range(len(TEXTS))]}
    weigher = Weigher()
    model = trained(weigher, tmp_path, columns, learning_rate=0.05)
    rows = weigher.ledger.table().sort_by("id")
    assert rows["id"].to_pylist() == columns["id"]
    assert rows["weight"].to_pylist() == columns["weight"]
    assert any(not torch.equal(a, b) for a, b in zip(model.parameters(), gpt2().parameters(), strict=True))


def test_trusted_texts_are_prepared_as_the_others_are(tmp_path: Path) -> None:
    weigher = Weigher("l2rw")
    clean = datasets.Dataset.from_dict({"text": TEXTS[:5]})
    trained(weigher, tmp_path, {}, clean, learning_rate=0.05)
    rows = weigher.ledger.table().sort_by("id")
    assert rows.num_rows == len(TEXTS)
    assert 0 < sum(rows["kept"].to_pylist()) < len(TEXTS)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"packing": True}, "^Packed sequences have no loss, no weight and no id of their own: set packing=False"),
        ({"padding_free": True}, "^Packed sequences have no loss"),
        ({"loss_type": "dft"}, r"pass that as Weigher\(objective=...\)"),
    ],
)
def test_what_leaves_no_loss_of_a_text_is_refused(more: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ThresherError, match=sentence):
        trained(Weigher(), tmp_path, {}, **more)
