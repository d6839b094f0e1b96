#!/usr/bin/env bash
# Packages the crates of a release, and builds each crate from its package alone, in the order of their dependencies.
#
#   ci/release.sh              needs no account and uploads nothing
#   ci/release.sh --publish    then uploads the packages to crates.io, with the token that `cargo login` has stored
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
case "${1:-}" in
  "" | --publish) ;;
  *) die "usage: ci/release.sh [--publish], not '$1'" ;;
esac
"$CI_DIR/setup.sh" build
# Crates without `publish = false`. Cargo packages them in the order of their dependencies.
mapfile -t crates < <(git ls-files '*/Cargo.toml' ':!bench/peers' | xargs grep -L '^publish' | xargs sed -n 's/^name = "\(armature-.*\)"$/\1/p')
[ "${#crates[@]}" -gt 0 ] || die "no crate of the workspace can be published"
say "packages: ${crates[*]}"
"$CI_DIR/mpi/with.sh" openmpi cargo package --locked "${crates[@]/#/--package=}"
for crate in "${crates[@]}"; do
  package=$(find "${CARGO_TARGET_DIR:-target}/package" -maxdepth 1 -name "$crate-[0-9]*.crate")
  files=$(tar -tzf "$package")
  for file in LICENSE-APACHE LICENSE-MIT README.md; do
    grep -q "/$file$" <<<"$files" || die "$package does not contain $file"
  done
done
say "${#crates[@]} packages contain all that they need"
[ "${1:-}" != --publish ] || "$CI_DIR/mpi/with.sh" openmpi cargo publish --locked "${crates[@]/#/--package=}"
