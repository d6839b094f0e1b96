#!/usr/bin/env bash
# Builds the book with mdBook, as pages that open without a network, and the pages of `cargo doc` beneath it:
#
#   ci/release/book.sh DIRECTORY     then open DIRECTORY/index.html
#
# Checks the links of all pages, and that the search finds a page when Chromium opens it from the disk.
set -euo pipefail
# shellcheck source=ci/release/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
book=$(realpath -m "${1:?usage: ci/release/book.sh DIRECTORY}")
cargo_tool mdbook 0.5.4
sources=$ROOT/target/book
rm -rf "$sources" "$book"
mkdir -p "$sources"
cp docs/book.toml docs/book.css "$sources"
python3 ci/release/stage_book.py "$sources/src"
mdbook build --dest-dir "$book" "$sources"

mapfile -t crates < <(published_crates)
rm -rf "${CARGO_TARGET_DIR:-target}/doc"
"$CI_DIR/mpi/with.sh" openmpi cargo doc --locked --no-deps "${crates[@]/#/--package=}"
cp -r "${CARGO_TARGET_DIR:-target}/doc" "$book/api"
python3 ci/release/check_book.py "$book"

profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking --user-data-dir="$profile" \
  --virtual-time-budget=20000 --dump-dom "file://$book/index.html?search=halo" >"$profile/page" 2>"$profile/log" ||
  { cat "$profile/log"; die "Chromium cannot open the book"; }
grep -q '<a href="[^"]*docs/[^"]*.html?highlight=halo' "$profile/page" || die "the search of the book does not find the word halo"
say "the search of the book works without a server"
