"""Small wheels with true RECORD files, and ways to spoil them."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# The time of every member: the same files make the same wheel.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def record_hash(data: bytes, algorithm: str = "sha256") -> str:
    """Return a hash as RECORD has it."""
    digest = hashlib.new(algorithm, data).digest()
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def record_of(files: Mapping[str, bytes], info: str) -> str:
    """Return the RECORD of files."""
    rows = [f"{path},{record_hash(data)},{len(data)}" for path, data in files.items()]
    return "".join(f"{row}\n" for row in [*rows, f"{info}/RECORD,,"])


def write_package(  # noqa: PLR0913 - a wheel has many parts
    index: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, bytes] | None = None,
    *,
    requires: Sequence[str] = (),
    tag: str = "py3-none-any",
    python: str = "",
    record: str | None = None,
    executables: Sequence[str] = (),
    packed: bool = True,
) -> Path:
    """Write the wheel of a package, and return its path.

    Args:
        index: The directory.
        name: Of the package.
        version: Of the package.
        files: What is in it; by default a module of its name.
        requires: What it needs.
        tag: What it is for.
        python: The versions of Python that it says it is for.
        record: Its RECORD; a true one if None.
        executables: Those of the files that are programs.
        packed: Whether it is compressed, which another zlib may do to other bytes.
    """
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    metadata += [f"Requires-Dist: {each}\n" for each in requires]
    metadata += [f"Requires-Python: {python}\n"] if python else []
    members = {
        **({f"{stem}.py": f"VERSION = {version!r}\n".encode()} if files is None else files),
        f"{info}/METADATA": "".join(metadata).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    text = record_of(members, info) if record is None else record
    index.mkdir(parents=True, exist_ok=True)
    path = index / f"{stem}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in {**members, f"{info}/RECORD": text.encode()}.items():
            entry = zipfile.ZipInfo(member, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            entry.external_attr = (0o100755 if member in executables else 0o100644) << 16
            archive.writestr(entry, data)
    return path
