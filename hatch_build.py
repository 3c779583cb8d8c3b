"""The build hook of the wheel: makes the manual pages, so that `man dis` works where dis is installed."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ROOMS = ("cli", "derivations", "store")
_PAGES = "build/man"


class ManualPages(BuildHookInterface):  # type: ignore[type-arg] - hatchling gives the type of its configuration
    """Adds the pages to what the wheel installs below `share`."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the pages before the wheel is put together."""
        del version
        root = Path(self.root)
        sys.path[:0] = [str(root / room) for room in _ROOMS]
        try:
            from dis_command.manual import write_pages
            from dis_command.program import dis

            pages = write_pages(dis, root / _PAGES)
        finally:
            del sys.path[: len(_ROOMS)]
        for page in pages:
            source = page.relative_to(root).as_posix()
            build_data["shared_data"][source] = f"share/man/{page.parent.name}/{page.name}"
