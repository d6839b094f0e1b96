#!/usr/bin/env bash
# Installs the packages that armature needs on Debian 12 and that are missing. It can be run again at any time.
#
#   ci/setup.sh [build|demo|bench|release|test]     (default: test, which needs most packages)
#
# Run by root, the script installs packages with apt. Run by another user, it prints the command to run and exits with 1. Install Rust
# yourself, with rustup. With ARMATURE_SETUP=skip, no packages are installed, for systems other than Debian.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# C compiler and headers; Open MPI; libclang for the MPI bindings; hwloc for the topology.
BUILD=(gcc libc6-dev pkg-config libopenmpi-dev openmpi-bin libclang-dev libhwloc-dev)
# Real pictures for the image search (7 MB to download).
DEMO=("${BUILD[@]}" iso-flags-png-320x240 tango-icon-theme)
# SimGrid, frameworks for comparison, and Python for those on PyPI. Makeflow is in coop-computing-tools.
BENCH=("${BUILD[@]}" libsimgrid-dev python3-venv ripgrep coop-computing-tools make)
# A browser that opens the book, checks of Debian packages, and a Debian system in a directory. 2 GB on the disk.
RELEASE=("${BUILD[@]}" python3-venv chromium debootstrap lintian)
# Compiler and source of the standard library for the static command; only without rustup's library for musl.
MUSL=(rustc-web cargo-web rust-web-src)
# MPICH, SimGrid, Slurm, tools for links between hosts on one machine, shellcheck, a browser (110 MB to download), and pictures from many
# programs (131 MB to download, 160 MB on the disk).
TEST=("${DEMO[@]}" "${BENCH[@]}" openclipart-png libmpich-dev mpich slurm-wlm slurm-client munge util-linux iproute2 shellcheck
  chromium chromium-driver)

need_rust() {
  if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    die "cargo is installed but not on the PATH; run: . \"${CARGO_HOME:-$HOME/.cargo}/env\""
  fi
  command -v cargo >/dev/null || die "Rust is missing. Install it with rustup (https://rustup.rs), then run this again."
  local want have
  want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")
  have=$(rustc --version | cut -d' ' -f2)
  [ "$(printf '%s\n' "$want" "$have" | sort -V | head -n1)" = "$want" ] ||
    die "Rust $have is too old, armature needs $want or newer; run: rustup update stable"
}

need_components() {
  cargo fmt --version >/dev/null 2>&1 || die "cargo fmt is missing; run: rustup component add rustfmt"
  cargo clippy --version >/dev/null 2>&1 || die "cargo clippy is missing; run: rustup component add clippy"
}

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

need_packages() {
  local missing=() p
  command -v dpkg-query >/dev/null ||
    die "this is no Debian; install the like of these and set ARMATURE_SETUP=skip: $*"
  for p in "$@"; do installed "$p" || missing+=("$p"); done
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" -ne 0 ]; then
    printf 'error: packages are missing. As root, run:\n  apt-get update && apt-get install -y --no-install-recommends %s\n' \
      "${missing[*]}" >&2
    exit 1
  fi
  say "installing ${missing[*]}"
  apt-get update -qq </dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
  for p in "${missing[@]}"; do installed "$p" || die "apt-get did not install $p"; done
}

for_what=${1:-test}
case $for_what in
  build) packages=("${BUILD[@]}") ;;
  bench) packages=("${BENCH[@]}") ;;
  demo) packages=("${DEMO[@]}") ;;
  release)
    packages=("${RELEASE[@]}")
    [ -d "$(rustc --print target-libdir --target x86_64-unknown-linux-musl)" ] || packages+=("${MUSL[@]}") ;;
  test) packages=("${TEST[@]}") ;;
  *) die "usage: ci/setup.sh [build|demo|bench|release|test], not '$for_what'" ;;
esac
need_rust
[ "$for_what" = test ] && need_components
[ "${ARMATURE_SETUP:-}" = skip ] || need_packages "${packages[@]}"
say "set up for $for_what: $(rustc --version | cut -d' ' -f1,2), ${#packages[@]} packages present"
