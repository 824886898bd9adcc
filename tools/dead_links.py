"""Name every link and picture of the built documentation that leads nowhere.

    python tools/dead_links.py build/docs

Only what is inside of the folder is looked at: files, and places in pages. Exit code 1 if one is dead.
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep targets and names."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.places.add(value)


def dead(folder: Path) -> Iterator[str]:
    """A line per link that leads nowhere."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            places = pages[target].places if target in pages else {unquote(parts.fragment)}
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in places):
                yield f"{path.relative_to(folder.resolve())}: {link}"


def main() -> None:
    """Print what is dead."""
    found = sorted(set(dead(Path(sys.argv[1]))))
    print("\n".join(found) or "no dead links")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
