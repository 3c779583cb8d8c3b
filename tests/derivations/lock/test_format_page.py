"""The worked example of the page about locks, computed again."""

import re
from pathlib import Path
from typing import get_args

from dis_derivations.lock.document import Lock
from dis_derivations.lock.refusals import _NOT_THE_MANIFESTS
from dis_derivations.sources.source import Reason
from dis_store import strict_json
from dis_store.digest import Sha256

PAGE = Path(__file__).parents[3] / "docs/internals/formats/lock.md"


def test_the_example_is_a_lock_and_its_id_is_the_hash_of_the_line_shown() -> None:
    lockfile, preimage = re.findall(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    lock = Lock.decode(lockfile.encode(), name="the example")
    assert lock.encode() == lockfile.encode()
    assert lock.lock_id == Sha256.of(preimage.rstrip("\n").encode())
    assert lock.used == {
        **strict_json.decode(preimage.encode(), name="the preimage"),
        "lock_id": lock.lock_id,
    }


def test_the_files_of_the_example_have_the_bytes_described() -> None:
    lockfile = re.findall(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0]
    files = {file.path: file for file in Lock.decode(lockfile.encode(), name="x").artifacts}
    for path, data in (("config.json", b"{}\n"), ("chat_template.jinja", b"text\n")):
        assert files[path].digest == Sha256.of(data)
        assert files[path].size == len(data)


def test_every_reason_is_on_the_page_with_its_exit_code() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([25]) \|", PAGE.read_text("utf-8"), re.MULTILINE))
    assert set(rows) == set(get_args(Reason))
    for reason, code in rows.items():
        assert (code == "5") == (reason in _NOT_THE_MANIFESTS)
