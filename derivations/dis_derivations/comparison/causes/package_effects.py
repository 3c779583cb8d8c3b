"""What is known about the effect of a package of an image on bits.

Engines, and what they compute with, can change bits; what cannot is named as well, and of all others nothing is known.
Sources: reports of changed outputs after an update of torch or cuBLAS alone (pytorch #181737, llama.cpp #11715), and
measurements of NumPy's mathematics on processors of several generations (numpy #23523).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from dis_derivations.images.contents.image_packages import PackageDifference

_SHOWN = 4


@dataclass(frozen=True)
class PackageEffect:
    """A kind of packages.

    Attributes:
        rank: Where it stands among the kinds; 0 is the most likely to change bits.
        words: What it does to bits; empty where nothing is known.
        harmless: Whether it cannot change a bit.
    """

    rank: int
    words: str
    harmless: bool = False


_COMPUTES = PackageEffect(0, "computes results: can change bits")
_KERNELS = PackageEffect(1, "brings kernels: can change bits")
_MATHEMATICS = PackageEffect(2, "brings the mathematics of the system: can change last bits")
_PROMPTS = PackageEffect(3, "reaches bits through the token ids of prompts alone")
_UNKNOWN = PackageEffect(4, "")
_HARMLESS = PackageEffect(5, "cannot change a bit", harmless=True)

# The first that a whole name matches decides.
_EFFECTS: tuple[tuple[re.Pattern[str], PackageEffect], ...] = tuple(
    (re.compile("|".join(names)), effect)
    for effect, names in (
        (
            _HARMLESS,
            (
                "tzdata.*", "ca-certificates.*", "certifi", "fonts?-.*", "man-db", "manpages.*", ".*-docs?",
                ".*-doc-.*", ".*-man", "bash-completion", "less", "nano", "vim.*", "media-types", "mime-support",
                "debian-archive-keyring", "ubuntu-keyring", "alpine-keys", "gpgv?", "gnupg.*", "openssh-.*",
                "iso-codes", "pip", "wheel",
            ),
        ),
        (
            _COMPUTES,
            (
                "vllm.*", "torch", "pytorch.*", "torch-.*", "libtorch.*", "triton.*", "pytorch-triton.*",
                "flash-attn.*", "flashinfer.*", "xformers", "sglang.*", "transformers", "accelerate",
                "deep-?gemm.*", "deep-?ep", "llama-?cpp.*", "ggml.*", "onnxruntime.*", "tensorrt.*",
                "xgrammar", "compressed-tensors", "auto-?gptq.*", "autoawq.*", "bitsandbytes", "jax.*", "tensorflow.*",
            ),
        ),
        (
            _KERNELS,
            (
                "nvidia.*", "libnvidia.*", "cuda.*", "libcuda.*", "cudnn.*", "libcu[a-z]+[0-9-].*", "libnccl.*",
                "nccl.*", "libnv[a-z]+[0-9-].*", "cutlass.*", "rocm.*", "hip.*", "roc[a-z]+", "miopen.*", "rccl.*",
                "amdgpu.*", "mkl.*", "libmkl.*", "intel-(?:oneapi|openmp|mkl).*", "onednn.*", "libdnnl.*",
                "(?:lib)?openblas.*", "lib(?:blas|lapack|atlas).*", "numpy", "python3-numpy.*", "scipy", "numba",
                "llvmlite", "einops", "torchvision", "torchaudio", "libgomp.*", "libomp.*", "tbb", "libtbb.*",
                "intel-cmplr.*",
            ),
        ),
        (
            _MATHEMATICS,
            (
                "libc6.*", "libc-bin", "glibc.*", "musl", "libm", "libstdc\\+\\+.*", "libgcc.*", "libgfortran.*",
                "python3?(?:\\.[0-9]+)?(?:-minimal|-stdlib)?", "libpython3.*",
            ),
        ),
        (
            _PROMPTS,
            (
                "tokenizers", "sentencepiece", "tiktoken", "mistral-common", "jinja2", "regex", "openai-harmony",
                "outlines.*", "lm-format-enforcer", "llguidance",
            ),
        ),
    )
)  # fmt: skip


def package_effect(name: str) -> PackageEffect:
    """Return what a package does to bits, told by its name."""
    return next((effect for names, effect in _EFFECTS if names.fullmatch(name)), _UNKNOWN)


def ranked(packages: Iterable[PackageDifference]) -> tuple[PackageDifference, ...]:
    """Return packages, the most likely to change bits first."""
    return tuple(sorted(packages, key=lambda each: (package_effect(each.name).rank, each.name)))


def effect_of_packages(packages: Iterable[PackageDifference]) -> str:
    """Return what is known of packages that differ, in words for a cause; empty where nothing is."""
    # Of the names that say the same only the keys count: an image may have a hundred thousand.
    names: dict[str, dict[str, None]] = {}
    for each in ranked(packages):
        effect = package_effect(each.name)
        if effect.words and not effect.harmless:
            names.setdefault(effect.words, {})[each.name] = None
    said = []
    for effect_words, alike in names.items():
        more = f" and {len(alike) - _SHOWN} more" if len(alike) > _SHOWN else ""
        said.append(f"{', '.join(islice(alike, _SHOWN))}{more}: {effect_words}")
    return "; ".join(said)
