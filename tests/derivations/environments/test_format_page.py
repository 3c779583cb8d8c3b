"""The worked example of the page about environments, computed again."""

import re
from collections.abc import Callable
from pathlib import Path

from dis_derivations.environments.site_packages import read_site_packages
from dis_store import canonical_json, strict_json
from dis_store.digest import Digest
from package_wheels import write_package

PAGE = Path(__file__).parents[3] / "docs/internals/formats/environment.md"


def test_the_worked_example_recomputes(unpack: Callable[..., Path], tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8").partition("## Example")[2]
    document, record, preimage = re.findall(r"```(?:json)?\n(.*?)```", text, re.DOTALL)
    of_object, of_files = re.findall(r"`([0-9a-f]{64})`", text)
    wheel = write_package(tmp_path, "one", files={"one.py": b"ONE = 1\n"}, packed=False)
    environment = unpack(wheel)
    assert environment.name == of_object
    assert (environment / "environment.json").read_text() == document.rstrip("\n")
    assert (environment / "site-packages/one-1.0.dist-info/RECORD").read_text() == record
    assert Digest.of(preimage.rstrip("\n").encode()) == of_files
    assert read_site_packages([environment / "site-packages"]).digest == of_files
    parsed = strict_json.decode(preimage.encode(), name="the preimage")
    assert canonical_json.encode(parsed) == preimage.rstrip("\n").encode()
