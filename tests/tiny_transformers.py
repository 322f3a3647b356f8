"""Tiny transformers of Hugging Face built from their configs, each with texts of different lengths and their losses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

WORDS, LENGTH = 29, 7
SIZES: dict[str, Any] = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


@dataclass(frozen=True)
class Tiny:
    """A model, the keywords it is called with, and how its outputs become losses [n]."""

    model: nn.Module
    inputs: dict[str, Tensor]
    losses_of: Callable[[Any], Tensor]

    def losses(self) -> Tensor:
        return self.losses_of(self.model(**self.inputs).logits)


def texts(n: int = 4) -> dict[str, Tensor]:
    """Token ids [n, T] padded on the right, and the mask of what is no padding."""
    ids, lengths = torch.randint(1, WORDS, (n, LENGTH)), torch.arange(n) % 4 + LENGTH - 3
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def of_classes(logits: Tensor) -> Tensor:
    return F.cross_entropy(logits, torch.arange(len(logits)) % 2, reduction="none")


def of_next_tokens(inputs: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """The mean loss of each text over its own tokens."""
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)[:, 1:]

    def losses(logits: Tensor) -> Tensor:
        wide = logits[:, :-1].mT.to(torch.promote_types(logits.dtype, torch.float32))
        tokens = F.cross_entropy(wide, labels, reduction="none", ignore_index=-100)
        return tokens.sum(1) / (labels != -100).sum(1)

    return losses


def bert(**more: Any) -> nn.Module:
    config = transformers.BertConfig(**SIZES, intermediate_size=24, max_position_embeddings=LENGTH + 2, **more)
    return transformers.BertForSequenceClassification(config)


def distilbert(**more: Any) -> nn.Module:
    sizes = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
    config = transformers.DistilBertConfig(vocab_size=WORDS, max_position_embeddings=LENGTH, **sizes, **more)
    return transformers.DistilBertForSequenceClassification(config)


def gpt2(**more: Any) -> nn.Module:
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": LENGTH, "bos_token_id": 1, "eos_token_id": 1}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=WORDS, **sizes, **more))


def llama(**more: Any) -> nn.Module:
    config = transformers.LlamaConfig(
        **SIZES, intermediate_size=24, num_key_value_heads=1, max_position_embeddings=LENGTH, **more
    )
    return transformers.LlamaForCausalLM(config)


def masked_bert() -> nn.Module:
    config = transformers.BertConfig(**SIZES, intermediate_size=24, max_position_embeddings=LENGTH)
    return transformers.BertForMaskedLM(config)


def albert() -> nn.Module:
    sizes = {"embedding_size": 8, "intermediate_size": 24, "max_position_embeddings": LENGTH}
    return transformers.AlbertForSequenceClassification(transformers.AlbertConfig(**SIZES, **sizes))


def gemma() -> nn.Module:
    sizes = {"intermediate_size": 24, "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": LENGTH}
    return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**SIZES, **sizes))


def with_lora(model: nn.Module, layers: list[str], dropout: float = 0.0) -> nn.Module:
    """The model with its own parameters frozen and LoRA beside these layers, both factors away from zero."""
    transposed = "c_attn" in layers  # GPT-2's Conv1D
    config = peft.LoraConfig(r=2, target_modules=layers, lora_dropout=dropout, fan_in_fan_out=transposed)
    found = peft.get_peft_model(model, config)
    for parameter in found.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter)
    return found


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "bert": bert,
    "distilbert": distilbert,
    "gpt2": gpt2,
    "gpt2 untied": lambda: gpt2(tie_word_embeddings=False),
    "llama": llama,
    "llama tied": lambda: llama(tie_word_embeddings=True),
    "gpt2 lora": lambda: with_lora(gpt2(), ["c_attn", "c_fc"], dropout=0.2),
    "llama lora": lambda: with_lora(llama(), ["q_proj", "v_proj", "down_proj"]),
}
OTHERS: dict[str, Callable[[], nn.Module]] = {
    "bert, masked words": masked_bert,  # a bias that two modules hold
    "albert": albert,  # layers that are called several times
    "gemma": gemma,  # embeddings that are scaled
}


def tiny(name: str) -> Tiny:
    """One of these models in training mode, with its dropout, and four texts of different lengths."""
    torch.manual_seed(0)
    model, inputs = (MAKERS | OTHERS)[name]().train(), texts()
    classifies = name in {"bert", "distilbert", "albert"}
    return Tiny(model, inputs, of_classes if classifies else of_next_tokens(inputs))
