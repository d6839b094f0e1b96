#!/usr/bin/env bash
# Packs the static program with its man pages, completions and licences as a Debian package, checks the package with lintian, and installs, runs and
# removes it in a Debian system in a directory:
#
#   ci/release/deb.sh PROGRAM DIRECTORY     run by root, because debootstrap and chroot need it
set -euo pipefail
# shellcheck source=ci/release/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
usage="usage: ci/release/deb.sh PROGRAM DIRECTORY"
program=$(realpath "${1:?$usage}") directory=$(realpath -m "${2:?$usage}")
cargo_tool cargo-deb 3.8.0
files=$ROOT/target/deb
rm -rf "$files"
mkdir -p "$files" "$directory"
cp "$program" "$files/armature"
"$program" man --dir "$files/man"
for shell in bash zsh fish; do "$program" completions "$shell" >"$files/armature.$shell"; done
"$CI_DIR/release/licences.sh" >"$files/licences"
printf 'armature (%s-1) unstable; urgency=medium\n\n  * The changes are in CHANGELOG.md of the source.\n\n -- %s  %s\n' "$(version)" \
  "$(sed -n 's/^maintainer = "\(.*\)"/\1/p' launch/Cargo.toml)" "$(git log -1 --format=%cD)" >"$files/changelog"
cargo deb --quiet --locked --package=armature-launch --no-build --no-strip --output="$directory"
package=$(find "$directory" -name 'armature_*.deb')
lintian --fail-on=error,warning --suppress-tags="$(grep -o '^[a-z-]*' ci/release/lintian-exceptions | paste -sd,)" "$package"

debian_system
cp "$package" "$DEBIAN_SYSTEM/armature.deb"
chroot "$DEBIAN_SYSTEM" sh -euxc '
  dpkg -i /armature.deb
  cd / && armature --version && armature doctor | tail -n 3
  dpkg -r armature
  test ! -e /usr/bin/armature'
rm "$DEBIAN_SYSTEM/armature.deb"
say "the package installs, runs and is removed"
