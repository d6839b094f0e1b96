#!/usr/bin/env bash
# Prints the licences of armature and of everything that the static program contains: crates, the standard library of Rust, and musl and the unwinder
# of zig. Of a crate with several licences, the text of MIT is enough.
set -euo pipefail
# shellcheck source=ci/release/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
printf 'armature: MIT OR Apache-2.0. Debian has the text of Apache-2.0 in /usr/share/common-licenses/Apache-2.0.\n\n'
cat LICENSE-MIT
cargo tree --locked --package=armature-launch --target=x86_64-unknown-linux-musl --edges=normal,no-proc-macro --prefix=none --no-dedupe \
  --format='{p}|{l}' | grep -vF "($ROOT" | sort -u | while IFS='|' read -r crate licence; do
  printf '\n---- %s: %s\n\n' "$crate" "$licence"
  shopt -s nullglob
  directory=("${CARGO_HOME:-$HOME/.cargo}/registry/src/"*"/${crate/ v/-}")
  texts=("${directory[0]}"/LICENSE-MIT* "${directory[0]}"/{LICENSE,LICENCE,COPYING}*)
  [ ${#texts[@]} = 0 ] || cat "${texts[0]}"
done
printf '\n---- musl: MIT\n\n'
cat "$ROOT"/target/zig/lib/python3*/site-packages/ziglang/lib/libc/musl/COPYRIGHT
printf '\n---- libunwind of LLVM: Apache-2.0 WITH LLVM-exception\n'
printf '\n---- The standard library of Rust: MIT OR Apache-2.0. Copyright (c) The Rust Project Contributors\n'
