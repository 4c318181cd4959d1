"""Writes a small Llama with random weights that a real vLLM serves offline: 24 million parameters, 48 MB, in shards.

    python tiny_model.py FOLDER [--shards 16] [--layers 8] [--hidden 512]

Runs in vLLM's own environment (torch, safetensors, tokenizers). The text it writes is nonsense; its load is real.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

SENTENCES = (
    "A server reads its weights from storage, one shard after the other, and copies them to the device.",
    "Then the graph is compiled, memory is profiled, and what is left becomes the cache of keys and values.",
    "The first token comes when the queue is empty; the next ones follow at a steady pace.",
    "0 1 2 3 4 5 6 7 8 9 10 16 32 64 128 256 512 1024 2048 4096 8192",
    "Zwei Karten, ein Modell: jede trägt die Hälfte der Schichten, und beide warten aufeinander.",
)
SPECIAL = ("<pad>", "<s>", "</s>")
CHAT = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"
CONTEXT = 4096
HEADS, KEY_VALUE_HEADS = 8, 4


def write_tokenizer(folder: Path) -> int:
    """A byte-level BPE tokenizer; the number of its entries."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=512, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    pad, begin, end = SPECIAL
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": CONTEXT,
            "pad_token": pad,
            "bos_token": begin,
            "eos_token": end,
            "chat_template": CHAT,
            "clean_up_tokenization_spaces": False,
        },
    )
    return tokenizer.get_vocab_size()


def shapes(hidden: int, layers: int, vocabulary: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor of the checkpoint; the output matrix is the embedding."""
    inner = hidden * 11 // 4
    grouped = hidden * KEY_VALUE_HEADS // HEADS
    yield "model.embed_tokens.weight", (vocabulary, hidden)
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight", (hidden,)
        yield f"{prefix}.self_attn.q_proj.weight", (hidden, hidden)
        yield f"{prefix}.self_attn.k_proj.weight", (grouped, hidden)
        yield f"{prefix}.self_attn.v_proj.weight", (grouped, hidden)
        yield f"{prefix}.self_attn.o_proj.weight", (hidden, hidden)
        yield f"{prefix}.post_attention_layernorm.weight", (hidden,)
        yield f"{prefix}.mlp.gate_proj.weight", (inner, hidden)
        yield f"{prefix}.mlp.up_proj.weight", (inner, hidden)
        yield f"{prefix}.mlp.down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)


def write_weights(folder: Path, tensors: list[tuple[str, tuple[int, ...]]], shards: int) -> None:
    """Exactly so many safetensors files, and the index that says which tensor is in which."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    where: dict[str, str] = {}
    total = 0
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = tensors[shard * len(tensors) // shards : (shard + 1) * len(tensors) // shards]
        made = {tensor: torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * 0.02 for tensor, shape in part}
        made = {tensor: value.to(torch.bfloat16) for tensor, value in made.items()}
        save_file(made, folder / name, metadata={"format": "pt"})
        where.update(dict.fromkeys(made, name))
        total += sum(value.numel() * 2 for value in made.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": where})


def write_json(path: Path, what: object) -> None:
    path.write_text(json.dumps(what, indent=2) + "\n")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--shards", type=int, default=16)
    asked.add_argument("--layers", type=int, default=8)
    asked.add_argument("--hidden", type=int, default=512, help="a multiple of 128")
    args = asked.parse_args()

    args.folder.mkdir(parents=True, exist_ok=True)
    vocabulary = write_tokenizer(args.folder)
    write_weights(args.folder, list(shapes(args.hidden, args.layers, vocabulary)), args.shards)
    write_json(
        args.folder / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "torch_dtype": "bfloat16",
            "vocab_size": vocabulary,
            "hidden_size": args.hidden,
            "intermediate_size": args.hidden * 11 // 4,
            "num_hidden_layers": args.layers,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KEY_VALUE_HEADS,
            "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    )
    write_json(args.folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})


if __name__ == "__main__":
    main()
