"""Train the quickstart model on the text of write_corpus.py and write its checkpoint."""

import argparse
import itertools
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from checkpoint import round_to_bfloat16, write_checkpoint
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM
from vocabulary import render, train_tokenizer
from write_corpus import documents

VOCABULARY, CONTEXT, ROWS = 1536, 256, 24
PEAK_RATE, WARM_UP = 5e-3, 60
HELD_OUT_SEED, HELD_OUT_DOCUMENTS, HELD_OUT_BATCHES = 1_000_003, 1500, 16


class Text:
    """Documents as one long row of ids.

    Attributes:
        ids: Every document's ids in a row, int64 [n].
        starts: Where documents begin, int64 [documents].
    """

    def __init__(self, texts: list[str], tokenizer: Tokenizer) -> None:
        rows = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        lengths = np.array([len(row) for row in rows])
        self.ids = torch.from_numpy(np.concatenate([np.array(row) for row in rows]))
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self.starts = torch.from_numpy(starts[starts + CONTEXT <= len(self.ids)])

    def batches(self, generator: torch.Generator) -> Iterator[torch.Tensor]:
        """Yield rows [ROWS, CONTEXT] that each begin with a document, without end."""
        while True:
            order = self.starts[torch.randperm(len(self.starts), generator=generator)]
            # A row holds several documents, so one round over the text needs fewer starts than all.
            for chosen in order[: len(self.ids) // CONTEXT].split(ROWS):
                yield torch.stack([self.ids[start : start + CONTEXT] for start in chosen])


def new_model(vocabulary: int) -> LlamaForCausalLM:
    """Return an untrained model of about 1.4 million parameters."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        initializer_range=0.04,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config)


def rate(step: int, steps: int) -> float:
    """Return the learning rate: a linear rise, then half a cosine down to nothing."""
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    return PEAK_RATE * 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP)))


def loss_of(model: LlamaForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of each next id, in nats."""
    logits = model(input_ids=ids).logits[:, :-1]
    return torch.nn.functional.cross_entropy(
        logits.float().reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1)
    )


def held_out_loss(model: LlamaForCausalLM, tokenizer: Tokenizer) -> float:
    """Return the mean loss over documents from a seed that training never used."""
    texts = [render(d) for d in documents(HELD_OUT_DOCUMENTS, HELD_OUT_SEED)]
    batches = itertools.islice(Text(texts, tokenizer).batches(torch.Generator()), HELD_OUT_BATCHES)
    with torch.no_grad():
        return float(torch.stack([loss_of(model, ids) for ids in batches]).mean())


def optimizers_for(model: LlamaForCausalLM) -> list[torch.optim.Optimizer]:
    """Return Muon for the layers' matrices and AdamW for the embedding and the norms."""
    inner = [p for p in model.model.layers.parameters() if p.dim() == 2]
    scales = [p for p in model.parameters() if p.dim() == 1]
    outer = [*scales, model.model.embed_tokens.weight]
    return [
        torch.optim.Muon(inner, lr=0.0, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(outer, lr=0.0, weight_decay=0.0, betas=(0.9, 0.98)),
    ]


def train(model: LlamaForCausalLM, text: Text, steps: int, seed: int) -> None:
    """Train a model in place, printing the loss now and then."""
    optimizers, began, mean = optimizers_for(model), time.monotonic(), 0.0
    batches = text.batches(torch.Generator().manual_seed(seed))
    for step in range(steps):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate(step, steps)
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, next(batches))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        mean += (loss.item() - mean) * max(0.02, 1 / (step + 1))
        if step % 50 == 49:
            print(f"step {step + 1} loss {mean:.4f} {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    """Write the corpus, the tokenizer and the checkpoint, then measure what was written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=1_800)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    texts = [render(d) for d in documents(arguments.documents, arguments.seed)]
    tokenizer = train_tokenizer(texts, VOCABULARY)
    text = Text(texts, tokenizer)
    model = new_model(tokenizer.get_vocab_size())
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{sum(map(len, texts))} characters, {len(text.ids)} tokens, {size} parameters")
    train(model, text, arguments.steps, arguments.seed)
    print(f"held-out loss {held_out_loss(model, tokenizer):.4f}")
    round_to_bfloat16(model)
    print(f"held-out loss in bfloat16 {held_out_loss(model, tokenizer):.4f}")
    write_checkpoint(arguments.out, model, tokenizer)


if __name__ == "__main__":
    main()
