"""The worker's own BLAKE3 is BLAKE3."""

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.engines.transformers.portable_blake3 import digest


@given(st.binary(max_size=300))
def test_it_hashes_as_the_package_does(data: bytes) -> None:
    assert digest(data) == blake3(data).digest()


@pytest.mark.parametrize(
    "length", [0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 3073, 4096, 7169, 31744]
)
def test_blocks_chunks_and_trees_of_every_shape_are_hashed(length: int) -> None:
    data = bytes(place % 251 for place in range(length))
    assert digest(data) == blake3(data).digest()
