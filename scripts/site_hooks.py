"""Hooks of mkdocs: pages that lie outside docs/ join the site, and links to and from them lead there.

In the repository these links are ordinary relative paths; on the site every page is below docs/.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# Page of the site: where it lies in the repository.
OUTSIDE = {
    "benchmarks.md": "benchmarks/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "notes.md": "src/residual_audio/data/sounds/notes/README.md",
    "tiny.md": "src/residual_audio/models/tiny/README.md",
}
LINK = re.compile(r"(\]\()([^)\s#]+)([^)]*\))")


def on_files(files: Files, config: Any) -> Files:
    for page, path in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Relative links as they are in the repository → as they are on the site."""
    here = page.file.src_uri
    home = posixpath.dirname(OUTSIDE.get(here, f"docs/{here}"))
    of_page = {path: name for name, path in OUTSIDE.items()}

    def moved(match: re.Match[str]) -> str:
        before, link, after = match.groups()
        if "://" in link:
            return match[0]
        target = posixpath.normpath(posixpath.join(home, link))
        inside = of_page.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        if inside is None:
            return match[0]  # not on the site: mkdocs says so, and the build fails
        return f"{before}{posixpath.relpath(inside, posixpath.dirname(here) or '.')}{after}"

    return LINK.sub(moved, markdown)
