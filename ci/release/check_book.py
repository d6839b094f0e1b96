"""Checks the links between the pages of a book: check_book.py DIRECTORY.

Each link must lead to a file of the directory, and to an element of the page if it names one. Links with a scheme are not followed, and the pages of
`cargo doc` under `api` are only targets.
"""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """Links of a page, and the names of its elements."""

    def __init__(self, path):
        super().__init__()
        self.targets, self.names = [], {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        """Collects the links and the name of an element."""
        for key, value in attributes:
            if key in ("href", "src"):
                self.targets.append(value)
            elif key in ("id", "name"):
                self.names.add(value)


def main(root):
    api = root / "api"
    pages = {path: Page(path) for path in root.rglob("*.html") if api not in path.parents}
    faults, count = [], 0
    for path, page in pages.items():
        for target in page.targets:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            file = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            name = urllib.parse.unquote(parts.fragment)
            if not file.exists() or file in pages and name not in pages[file].names:
                faults.append(f"{path.relative_to(root)}: {target}")
    print("\n".join(faults + [f"{len(pages)} pages with {count} links, of which {len(faults)} lead nowhere"]))
    return bool(faults)


sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
