"""The cache of `huggingface_hub` as a place where a file may be at hand. What it says is never taken for true.

Its layout: `models--ORG--NAME/snapshots/COMMIT/PATH` is a link to `models--ORG--NAME/blobs/ETAG`.
"""

import stat
from collections.abc import Iterator
from pathlib import Path

from dis_store.digest import Sha256


def cached_files(
    cache: Path, repository: str, commit: str, path: str, sha256: Sha256 | None
) -> Iterator[Path]:
    """Yield the regular files that may be the wanted one.

    A link out of the repository's directory is not followed.

    Args:
        cache: Where the cache is.
        repository: `organisation/model`.
        commit: Of the file.
        path: Of the file.
        sha256: Its digest, where that is known; a blob may bear it as its name.
    """
    try:
        home = (cache / f"models--{repository.replace('/', '--')}").resolve()
    except OSError:
        return
    places = [home / "snapshots" / commit / path]
    if sha256 is not None:
        places.append(home / "blobs" / sha256.removeprefix("sha256:"))
    seen = set()
    for place in places:
        try:
            real = place.resolve()
            regular = stat.S_ISREG(real.lstat().st_mode)
        except (OSError, ValueError):
            continue
        if regular and real not in seen and real.is_relative_to(home):
            seen.add(real)
            yield real
