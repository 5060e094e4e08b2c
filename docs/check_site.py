"""Checks that every link within the built site has a target.

`python docs/check_site.py build/site`
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class PageParser(HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


def read_page(path: Path) -> PageParser:
    parser = PageParser()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def broken_links(site: Path) -> list[str]:
    """Return "page: link" for each link within the site that has no target."""
    pages = {path.resolve(): read_page(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            lacks_anchor = known and parts.fragment and parts.fragment not in known.anchors
            if not target.exists() or lacks_anchor:
                found.append(f"{path.relative_to(site.resolve())}: {link}")
    return found


def main() -> None:
    found = broken_links(Path(sys.argv[1]))
    print("\n".join(found) or "all links have targets")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
