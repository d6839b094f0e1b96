# shellcheck shell=bash
# Functions that the scripts of a release share. This file is sourced, not run.
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# cargo_tool NAME VERSION: compiles a tool from crates.io into target/tools, unless it is there in this version, and puts it into the PATH.
cargo_tool() {
  local tools=$ROOT/target/tools
  PATH=$tools/bin:$PATH
  grep -qs "^\"$1 $2 " "$tools/.crates.toml" && return
  say "compiling $1 $2"
  CARGO_TARGET_DIR=$tools/build cargo install --quiet --locked --root "$tools" "$1@$2"
  rm -rf "$tools/build"
}

# published_crates: prints the names of the crates without `publish = false`.
published_crates() {
  git ls-files '*/Cargo.toml' ':!bench/peers' | xargs grep -L '^publish' | xargs sed -n 's/^name = "\(armature-.*\)"$/\1/p'
}

# version: prints the version of the workspace.
version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml"; }

DEBIAN_SYSTEM=$ROOT/target/debian

# debian_system: unpacks a minimal Debian 12 into DEBIAN_SYSTEM, unless it is there. Needs root.
debian_system() {
  [ ! -e "$DEBIAN_SYSTEM/complete" ] || return 0
  say "unpacking Debian into ${DEBIAN_SYSTEM#"$ROOT/"}"
  rm -rf "$DEBIAN_SYSTEM"
  debootstrap --variant=minbase bookworm "$DEBIAN_SYSTEM" >"$ROOT/target/debootstrap.log" || die "debootstrap failed; see target/debootstrap.log"
  echo "deb http://deb.debian.org/debian-security bookworm-security main" >>"$DEBIAN_SYSTEM/etc/apt/sources.list"
  touch "$DEBIAN_SYSTEM/complete"
}
