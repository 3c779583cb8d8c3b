"""Write a trained model as a checkpoint directory that any Hugging Face loader opens."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM
from vocabulary import CHAT_TEMPLATE, END

CONFIG_KEYS = (
    "attention_bias",
    "attention_dropout",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "mlp_bias",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rms_norm_eps",
    "tie_word_embeddings",
    "vocab_size",
)


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON document for people to read."""
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def config_document(config: LlamaConfig, end: int) -> dict[str, Any]:
    """Return config.json, with the keys that loaders of every age look for."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "dtype": "bfloat16",
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "bos_token_id": None,
        "eos_token_id": end,
        "pad_token_id": end,
        "use_cache": True,
        **{key: getattr(config, key) for key in CONFIG_KEYS},
    }


def round_to_bfloat16(model: LlamaForCausalLM) -> dict[str, torch.Tensor]:
    """Round the model's parameters in place and return them as bfloat16, the tied head left out."""
    tensors: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensors[name] = parameter.detach().to(torch.bfloat16).contiguous()
            parameter.copy_(tensors[name].to(parameter.dtype))
    return tensors


def write_checkpoint(folder: Path, model: LlamaForCausalLM, tokenizer: Tokenizer) -> None:
    """Write weights, configuration, tokenizer and chat template into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    end = tokenizer.token_to_id(END)
    weights = save(round_to_bfloat16(model), metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(weights)
    write_json(folder / "config.json", config_document(model.config, end))
    generation = {"do_sample": False, "eos_token_id": [end], "pad_token_id": end}
    write_json(folder / "generation_config.json", generation)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    names = {"eos_token": END, "pad_token": END}
    write_json(folder / "special_tokens_map.json", names)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": CHAT_TEMPLATE,
        "model_max_length": model.config.max_position_embeddings,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
        "add_eos_token": False,
        **names,
    }
    write_json(folder / "tokenizer_config.json", settings)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
