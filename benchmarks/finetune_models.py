"""The models that `finetune.py` trains: a pretrained Llama of 260,032 parameters, and one of 10.8 million.

The small one comes in the format of llama2.c (`stories260K.bin`). The larger one is built from its config, and learns
here from texts about something else before it is fine-tuned.
"""

import struct
from pathlib import Path

import numpy as np
import torch
from finetune_texts import BEGIN, END, running_text
from torch import nn


def llama(path: Path) -> nn.Module:
    """The checkpoint in Hugging Face's Llama, which turns halves of a head where llama2.c turns neighbours."""
    import transformers

    raw = path.read_bytes()
    width, inner, layers, heads, pairs, words, length = struct.unpack("7i", raw[:28])
    numbers = torch.from_numpy(np.frombuffer(raw, np.float32, offset=28).copy())
    config = transformers.LlamaConfig(
        vocab_size=words, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=pairs, max_position_embeddings=length, rms_norm_eps=1e-5,
        tie_word_embeddings=True, bos_token_id=BEGIN, eos_token_id=END,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    blocks, at = model.model.layers, 0

    def take(parameter: nn.Parameter, turned: int = 0) -> None:
        nonlocal at
        values = numbers[at : at + parameter.numel()].view(parameter.shape)
        if turned:
            values = values.view(turned, -1, 2, width).transpose(1, 2).reshape(parameter.shape)
        parameter.data.copy_(values)
        at += parameter.numel()

    take(model.model.embed_tokens.weight)
    for name, turned in [("input_layernorm", 0), ("self_attn.q_proj", heads), ("self_attn.k_proj", pairs),
                         ("self_attn.v_proj", 0), ("self_attn.o_proj", 0), ("post_attention_layernorm", 0),
                         ("mlp.gate_proj", 0), ("mlp.down_proj", 0), ("mlp.up_proj", 0)]:  # fmt: skip
        for block in blocks:
            take(block.get_submodule(name).weight, turned)
    take(model.model.norm.weight)
    return model


def larger() -> nn.Module:
    """A Llama with random weights."""
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6,
        num_key_value_heads=6, max_position_embeddings=1024, tie_word_embeddings=True, bos_token_id=BEGIN,
        eos_token_id=END,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def pretrain(folder: Path, out: Path, device: str, steps: int, batch: int = 64, length: int = 256) -> None:
    """Let the larger model learn the next word of running text, and keep its weights."""
    model, text = larger().to(device).train(), running_text(folder).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, steps, pct_start=0.1)
    draws = torch.Generator().manual_seed(0)
    for step in range(steps):
        starts = torch.randint(len(text) - length - 1, (batch,), generator=draws).to(device)
        rows = text[starts[:, None] + torch.arange(length + 1, device=device)]
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            logits = model(input_ids=rows[:, :-1], use_cache=False).logits
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    torch.save({name: value.cpu() for name, value in model.state_dict().items()}, out)


def pretrained(folder: Path, larger_weights: Path | None) -> nn.Module:
    """The small model, or the larger one with the weights that `pretrain` has kept."""
    if larger_weights is None:
        return llama(folder / "stories260K.bin")
    model = larger()
    model.load_state_dict(torch.load(larger_weights, weights_only=True))
    return model
