"""Writes the sources of the book for mdBook: stage_book.py DIRECTORY, started in the root of the repository.

The pages in docs/ link to files of the whole repository, but mdBook only renders pages that its table of contents lists, from one directory. This
program copies the pages that docs/SUMMARY.md lists, and everything that they link to, and writes the table of contents: the pages of
docs/SUMMARY.md in its order, then the other pages. A mention of `cargo doc` becomes a link to the pages of `cargo doc`, which ci/release/book.sh
copies to `api`.
"""

import os
import re
import shutil
import sys

CONTENTS = "docs/SUMMARY.md"
LINK = re.compile(r"\]\(([^)\s#]*)(?:#[^)\s]*)?\)")
CODE_BLOCK = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
CARGO_DOC = "`cargo doc -p armature-mpi --open`"


def read(page):
    with open(page, encoding="utf-8") as file:
        return file.read()


def links(page, text):
    """Returns the files of the repository that this text of a page links to, with paths relative to the root of the repository."""
    targets = [target for target in LINK.findall(CODE_BLOCK.sub("", text)) if target and "://" not in target]
    return [os.path.normpath(os.path.join(os.path.dirname(page), target)) for target in targets]


def item(page):
    """Returns the item of a page in the table of contents: a link with the first heading of the page."""
    heading = next(line for line in read(page).splitlines() if line.startswith("# "))
    return f"[{heading.removeprefix('# ')}]({page})"


def reachable(start):
    """Returns the start page and all files that can be reached from it by links, in the order of their discovery."""
    found, unread = [start], [start]
    while unread:
        page = unread.pop(0)
        new = dict.fromkeys(file for file in links(page, read(page)) if file not in found)
        found += new
        unread += [file for file in new if file.endswith(".md")]
    return found


def contents(pages):
    """Returns mdBook's table of contents, in which each item is one link, and each part has a heading of the first level."""
    lines = ["# Summary", item("README.md"), item(CONTENTS)]
    listed = {"README.md", CONTENTS}
    for number, part in enumerate(read(CONTENTS).split("\n## ")):
        lines.append("# " + (part.partition("\n")[0] if number > 0 else "Start"))
        new = [page for page in links(CONTENTS, part) if page in pages and page not in listed]
        lines += ["- " + item(page) for page in new]
        listed.update(new)
    lines.append("# Further pages")
    lines += ["- " + item(page) for page in pages if page not in listed]
    return "\n".join(lines) + "\n"


def main(directory):
    files = reachable("README.md")
    pages = [file for file in files if file.endswith(".md")]
    for file in files:
        copy = os.path.join(directory, file)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if file not in pages:
            shutil.copyfile(file, copy)
            continue
        to_root = os.path.relpath(".", os.path.dirname(file) or ".")
        text = read(file).replace(CARGO_DOC, f"[{CARGO_DOC}]({to_root}/api/armature/index.html)")
        with open(copy, "w", encoding="utf-8") as out:
            out.write(text)
    with open(os.path.join(directory, "SUMMARY.md"), "w", encoding="utf-8") as out:
        out.write(contents(pages))


main(sys.argv[1])
