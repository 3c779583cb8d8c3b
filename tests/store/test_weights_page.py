"""docs/internals/formats/weights.md: its worked example is what the code computes."""

import json
import re
from pathlib import Path

from dis_store import Digest, tensor_set_digest
from dis_store.tensors.safetensors_header import MAX_HEADER_BYTES, MAX_NAME_LENGTH
from dis_store.tensors.tensor_scan import MAX_SCANNED_HEADER_BYTES
from dis_store.tensors.tensor_set import FORMAT, tensor_set
from safetensors_bytes import safetensors_bytes
from tensor_layouts import scanned

PAGE = (Path(__file__).parents[2] / "docs/internals/formats/weights.md").read_text("utf-8")
HEADER, DOCUMENT = re.findall(r"```json\n(.*?)\n```", PAGE, re.DOTALL)
DATA = bytes.fromhex("0000803f00000040803f")


def test_the_worked_example_is_what_is_computed() -> None:
    tensors = scanned(safetensors_bytes(HEADER.encode(), DATA))
    assert tensor_set(tensors) == DOCUMENT.encode()
    digest = tensor_set_digest(tensors)
    assert digest == Digest.of(DOCUMENT.encode())
    assert f"The digest of the weights is `{digest}`" in PAGE
    assert f"`{DATA.hex()}`" in PAGE


def test_two_files_of_the_same_tensors_have_the_digest_of_the_example() -> None:
    header = json.loads(HEADER)
    weight = safetensors_bytes({"layer.weight": header["layer.weight"]}, DATA[:8])
    bias = safetensors_bytes(
        {"layer.bias": {**header["layer.bias"], "data_offsets": [0, 2]}}, DATA[8:]
    )
    for files in ((weight, bias), (bias, weight), (bias, weight, bias)):
        found = [each for file in files for each in scanned(file)]
        assert tensor_set(found) == DOCUMENT.encode()


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    assert f'"format":{FORMAT},' in DOCUMENT
    assert f"more than {MAX_SCANNED_HEADER_BYTES >> 20} MiB" in PAGE
    assert f"more than {MAX_HEADER_BYTES // 10**6} MB" in PAGE
    assert f"1 to {MAX_NAME_LENGTH}\ncharacters" in PAGE
