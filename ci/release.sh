#!/usr/bin/env bash
# Builds and tries everything that a release consists of, in target/release-VERSION/: crates, the static command, its Debian package, the book,
# checksums. A person runs this script as root, before a release, in a fresh clone. It installs missing packages and uploads nothing.
#
#   ci/release.sh              took 12 minutes on two busy cores, and 32 when it also compiled its tools
#   ci/release.sh --publish    then uploads the crates to crates.io, with the token that `cargo login` has stored
set -euo pipefail
# shellcheck source=ci/release/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/release/lib.sh"
cd "$ROOT"
case "${1:-}" in
  "" | --publish) ;;
  *) die "usage: ci/release.sh [--publish], not '$1'" ;;
esac
"$CI_DIR/setup.sh" release
version=$(version)
directory=$ROOT/target/release-$version
rm -rf "$directory"
mkdir -p "$directory"
grep -q "^## $version" CHANGELOG.md || die "CHANGELOG.md has no entry for $version"

"$CI_DIR/release/semver.sh"
"$CI_DIR/release/command.sh" "$directory/armature"
"$CI_DIR/release/deb.sh" "$directory/armature" "$directory"
"$CI_DIR/release/book.sh" "$directory/book"
"$CI_DIR/release/packaging.sh" "$directory"
"$CI_DIR/release/crates.sh" "$directory/crates" "$@"

tar -C "$directory" -czf "$directory/armature-book-$version.tar.gz" --transform="s,^book,armature-book-$version," book
(cd "$directory" && find . -type f ! -path './book/*' -printf '%P\0' | sort -z | xargs -0 sha256sum) >"$ROOT/target/SHA256SUMS"
mv "$ROOT/target/SHA256SUMS" "$directory"
say "target/release-$version:"
(cd "$directory" && du -ah --max-depth=1 . && cat SHA256SUMS)
