"""The build hook of the wheel: the built page is part of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Build the page where npm is installed and the page is missing."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page; an editable installation leaves it to `make web`."""
        root = Path(self.root)
        page = root / "src" / "lapis" / "web" / "dist" / "index.html"
        if version == "editable" or page.is_file():
            return
        if shutil.which("npm") is None:
            self.app.display_warning("no npm: the wheel is without the page of the workbench")
            return
        for command in (["npm", "ci", "--no-fund", "--no-audit"], ["npm", "run", "build"]):
            subprocess.run(command, cwd=root / "web", check=True)
