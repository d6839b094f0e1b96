#!/usr/bin/env bash
# Packages the crates of a release, and builds each crate from its package alone, in the order of their dependencies:
#
#   ci/release/crates.sh DIRECTORY              needs no account and uploads nothing
#   ci/release/crates.sh DIRECTORY --publish    then uploads the packages to crates.io, with the token that `cargo login` has stored
set -euo pipefail
# shellcheck source=ci/release/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
directory=${1:?usage: ci/release/crates.sh DIRECTORY [--publish]}
mkdir -p "$directory"
# Cargo packages the crates in the order of their dependencies.
mapfile -t crates < <(published_crates)
[ "${#crates[@]}" -gt 0 ] || die "no crate of the workspace can be published"
say "packages: ${crates[*]}"
"$CI_DIR/mpi/with.sh" openmpi cargo package --locked "${crates[@]/#/--package=}"
for crate in "${crates[@]}"; do
  package=${CARGO_TARGET_DIR:-target}/package/$crate-$(version).crate
  files=$(tar -tzf "$package")
  for file in LICENSE-APACHE LICENSE-MIT README.md; do
    grep -q "/$file$" <<<"$files" || die "$package does not contain $file"
  done
  cp "$package" "$directory"
done
say "${#crates[@]} packages contain all that they need"
[ "${2:-}" != --publish ] || "$CI_DIR/mpi/with.sh" openmpi cargo publish --locked "${crates[@]/#/--package=}"
