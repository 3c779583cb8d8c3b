"""`.pth` files of an environment: the directories that they name are imported from, their code is never run.

Python would execute each line that begins with `import` at the start of every process. Here those lines are told and
left; what lies below `site-packages` is the environment's own, and nothing outside of it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

_CODE = ("import ", "import\t")
_LONGEST_SHOWN = 200


@dataclass(frozen=True)
class PathLines:
    """What the `.pth` files of an environment say.

    Attributes:
        import_paths: Directories below `site-packages`, in order, each once.
        ignored: Lines that are not acted on, as `FILE: LINE`.
    """

    import_paths: tuple[str, ...]
    ignored: tuple[str, ...]


def read_path_files(files: Mapping[str, bytes], is_directory: Callable[[str], bool]) -> PathLines:
    """Return what `.pth` files say.

    Args:
        files: The content of each by its name; they lie in `site-packages` itself.
        is_directory: Tells whether a path below `site-packages` is a directory there.
    """
    paths: dict[str, None] = {}
    ignored: list[str] = []
    for name, data in sorted(files.items()):
        for line in data.decode("utf-8", "replace").splitlines():
            text = line.rstrip()
            if not text or text.startswith("#"):
                continue
            path = None if text.startswith(_CODE) else _inside(text)
            if path is not None and is_directory(path):
                paths[path] = None
            else:
                ignored.append(f"{name}: {text[:_LONGEST_SHOWN]}")
    return PathLines(tuple(paths), tuple(ignored))


def _inside(text: str) -> str | None:
    """Return a relative path without detours that does not leave the directory; None for any other."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or ".." in parts or not parts or "\0" in text:
        return None
    return "/".join(parts)
