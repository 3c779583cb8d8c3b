"""Print how a checkpoint answers prompts and continues stories, greedily in float64."""

import argparse
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from vocabulary import END

OPENINGS = (
    "Once upon a time there was",
    "One morning in spring, Clara could not find",
    "It was a rainy afternoon. Tom was reading a book when",
    "The library is a quiet place",
    "Dear Emma,",
    "Henry decided to make a",
)


def main() -> None:
    """Generate for every prompt and opening."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--max-tokens", type=int, default=160)
    arguments = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float64)
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)

    def generate(text: str) -> str:
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        limit = arguments.max_tokens
        rows = model.generate(**ids, do_sample=False, max_new_tokens=limit)
        new = rows[0, ids["input_ids"].shape[1] :]
        ended = "ended" if new[-1] == tokenizer.convert_tokens_to_ids(END) else "cut off"
        return f"{tokenizer.decode(new, skip_special_tokens=True)} ({len(new)} tokens, {ended})"

    conversations = json.loads(arguments.prompts.read_text("utf-8"))["conversations"]
    for conversation in conversations:
        text = tokenizer.apply_chat_template(
            conversation, tokenize=False, add_generation_prompt=True
        )
        print(f"> {conversation[-1]['content']}\n{generate(text)}")
    for opening in OPENINGS:
        print(f"# {opening} …\n{generate(opening)}")


if __name__ == "__main__":
    main()
