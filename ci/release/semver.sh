#!/usr/bin/env bash
# Compares the public interface of the crates with that of the last release, which is the newest tag v*, by cargo-semver-checks. A change that needs
# another version number than that of the workspace is an error. Before the first release there is nothing to compare with.
set -euo pipefail
# shellcheck source=ci/release/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
last=$(git describe --tags --abbrev=0 --match='v*' HEAD^ 2>/dev/null || true)
if [ -z "$last" ]; then
  say "no tag v* before this commit: no earlier interface to compare with"
  exit
fi
cargo_tool cargo-semver-checks 0.51.0
mapfile -t crates < <(published_crates)
say "comparing with $last"
"$CI_DIR/mpi/with.sh" openmpi cargo semver-checks --baseline-rev="$last" "${crates[@]/#/--package=}"
