#!/usr/bin/env bash
# Builds the command `armature` as one static program for Linux on x86_64, and runs it in an empty root directory:
#
#   ci/release/command.sh FILE
#
# The program is linked with musl. The standard library for musl comes from rustup (`rustup target add x86_64-unknown-linux-musl`). Without it, the
# compiler and the source of the standard library come from Debian, which updates both for its browsers, and cargo compiles the library.
# RUSTC_BOOTSTRAP permits that on a stable compiler.
set -euo pipefail
# shellcheck source=ci/release/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
file=$(realpath -m "${1:?usage: ci/release/command.sh FILE}")
target=x86_64-unknown-linux-musl
# zig links: it contains musl and an unwinder, on any Linux.
python_packages zig ci/release/zig-requirements.txt
zig=$ROOT/target/zig/bin
library=()
export PATH=$zig:$PATH CARGO_TARGET_DIR=$ROOT/target/musl CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_STRIP=true
if [ -d "$(rustc --print target-libdir --target "$target")" ]; then
  say "standard library for musl: rustup"
else
  export PATH=$zig:/usr/bin:$PATH RUSTC=/usr/bin/rustc CARGO=/usr/bin/cargo RUSTC_BOOTSTRAP=1
  [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ] || die "rustup has no target $target, and the package rust-web-src is missing"
  say "standard library for musl: compiled from Debian's rust-web-src $(rustc --version)"
  library=("-Zbuild-std=std,panic_abort")
fi
# Messages of panics name source files without the directories of this machine.
export RUSTFLAGS="--remap-path-prefix=$ROOT=armature --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
# zig adds the start files of musl.
cargo-zigbuild rustc --locked --release --package=armature-launch --bin=armature --target="$target" "${library[@]}" -- -Clink-self-contained=no
install -D "$CARGO_TARGET_DIR/$target/release/armature" "$file"

needed=$(readelf --dynamic --program-headers "$file" | grep -e NEEDED -e INTERP || true)
[ -z "$needed" ] || die "$file needs shared libraries: $needed"
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
cp "$file" "$empty"
[ "$(id -u)" != 0 ] || chroot "$empty" /armature completions bash >/dev/null
"$file" --version
