"""Images for tests: OCI layouts written by hand, right ones and ones with a lie in them."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import zstandard

OCI = "application/vnd.oci.image"
MANIFEST = f"{OCI}.manifest.v1+json"
INDEX = f"{OCI}.index.v1+json"
CONFIG = f"{OCI}.config.v1+json"
LAYER = f"{OCI}.layer.v1.tar"
PACKINGS: Mapping[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "+gzip": lambda data: gzip.compress(data, mtime=0),
    "+zstd": zstandard.ZstdCompressor().compress,
}
Json = dict[str, Any]


def sha256(data: bytes) -> str:
    """Return the tagged digest of bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def tar_of(files: Mapping[str, bytes], mode: int = 0o755) -> bytes:
    """Return a tar archive of files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


@dataclass(frozen=True)
class Member:
    """A member of a layer.

    Attributes:
        name: As the archive says it.
        data: The content of a regular file.
        kind: As `tarfile` calls it.
        target: Of a link.
        size: What the header says; None for the truth.
    """

    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    target: str = ""
    size: int | None = None


def layer_of(members: Sequence[Member], form: Literal[0, 1, 2] = tarfile.PAX_FORMAT) -> bytes:
    """Return a tar archive of members, right or wrong."""
    out = io.BytesIO()
    for member in members:
        info = tarfile.TarInfo(member.name)
        info.type, info.linkname = member.kind, member.target
        info.size = len(member.data) if member.size is None else member.size
        out.write(info.tobuf(form, "utf-8", "surrogateescape"))
        out.write(member.data + bytes(-len(member.data) % 512))
    return out.getvalue() + bytes(1024)


def dpkg_status(**versions: str) -> bytes:
    """Return the list of a Debian system in which packages are installed; `_` in a name stands for `-`."""
    return b"".join(
        f"Package: {name.replace('_', '-')}\nStatus: install ok installed\nMaintainer: x\n"
        f"Version: {version}\nDescription: of {name}\n Version: 9 in a description\n\n".encode()
        for name, version in versions.items()
    )


def distribution(name: str, version: str, below: str = "usr/lib/python3/site-packages") -> Member:
    """Return the METADATA of an installed Python distribution."""
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: another\n"
    return Member(f"{below}/{name}-{version}.dist-info/METADATA", text.encode())


@dataclass
class LayoutMaker:
    """Writes a layout blob by blob.

    Attributes:
        directory: Of the layout.
    """

    directory: Path

    def __post_init__(self) -> None:
        (self.directory / "blobs/sha256").mkdir(parents=True)
        (self.directory / "oci-layout").write_bytes(b'{"imageLayoutVersion": "1.0.0"}')

    def blob(self, data: bytes, media_type: str, **members: Any) -> Json:
        """Write a blob and return its descriptor."""
        digest = sha256(data)
        self.path(digest).write_bytes(data)
        return {"mediaType": media_type, "digest": digest, "size": len(data), **members}

    def path(self, digest: str) -> Path:
        """Return where a blob lies."""
        return self.directory / "blobs/sha256" / digest.removeprefix("sha256:")

    def document(self, value: Any, media_type: str, **members: Any) -> Json:
        """Write a document as people do, and return its descriptor."""
        return self.blob(json.dumps(value, indent=2).encode(), media_type, **members)

    def image(
        self,
        layers: Sequence[bytes] = (b"",),
        *,
        packing: str = "+gzip",
        architecture: str = "amd64",
        config: Mapping[str, Any] | None = None,
        history: Sequence[Json] = (),
        change: Callable[[Json], object] = lambda _: None,
        **members: Any,
    ) -> Json:
        """Write an image of layers, each a tar archive, and return the descriptor of its manifest.

        Args:
            layers: Lowest first.
            packing: How layers are compressed: a key of `PACKINGS`.
            architecture: Of the processor.
            config: The member `config` of the configuration.
            history: What made the layers, in the configuration.
            change: Makes another manifest of it, in place.
            members: Further members of the descriptor.
        """
        document = {
            "architecture": architecture,
            "os": "linux",
            "config": dict(config or {}),
            "rootfs": {"type": "layers", "diff_ids": [sha256(layer) for layer in layers]},
            **({"history": list(history)} if history else {}),
        }
        manifest: Json = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.document(document, CONFIG),
            "layers": [self.blob(PACKINGS[packing](each), LAYER + packing) for each in layers],
        }
        change(manifest)
        return self.document(manifest, MANIFEST, **members)

    def index(self, *entries: Json, **members: Any) -> Json:
        """Write an index as a blob and return its descriptor."""
        document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries), **members}
        return self.document(document, INDEX)

    def finish(self, *entries: Json) -> Path:
        """Write `index.json`, and return the directory."""
        document = {"schemaVersion": 2, "manifests": list(entries)}
        (self.directory / "index.json").write_text(json.dumps(document))
        return self.directory


def platform(architecture: str, os: str = "linux") -> Json:
    """Return the member `platform` of a descriptor."""
    return {"os": os, "architecture": architecture}


def named(name: str) -> Json:
    """Return annotations that give an image a tag in a layout."""
    return {"org.opencontainers.image.ref.name": name}
