#!/usr/bin/env bash
# Runs the experiments behind our claims of speed and quality. Each prints its table, writes CSV and SVG under
# target/bench/, and closes with one line: NAME: VALUE UNIT, mark MARK: reached|short|not resolved.
#
#   ci/bench.sh [NAME...]      the named ones, or all (some hours)
#   ci/bench.sh --list         what there is
#   ci/bench.sh --smoke        all in a short form, whose figures mean nothing
#   ci/bench.sh NAME --rounds N --only PART    fewer rounds, or one part of it (bench/README.md)
#   ci/bench.sh --keep NOTE ARGUMENTS...       with these arguments; the marks are kept in bench/results/, with the note
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
note=""
if [ "${1:-}" = --keep ]; then
  note=${2:-}
  [ -n "$note" ] || die "usage: ci/bench.sh --keep NOTE ARGUMENTS...; the note says what else the machine did"
  shift 2
fi
"$CI_DIR/setup.sh" bench
# Experiments start programs that lie beside the program of the experiments. The short form, whose times mean nothing, uses the build of the
# tests (--test broken: with the features of the dev-dependencies).
profile=(--release) built=release
for argument in "$@"; do [ "$argument" != --smoke ] || { profile=(--test broken); built=debug; }; done
programs=(armature-bench armature ferret matmul matmul-stream rabin-karp armature-workflow armature-commands)
"$CI_DIR/mpi/with.sh" openmpi cargo build --locked --workspace "${profile[@]}" "${programs[@]/#/--bin=}"
simulated=(ferret rabin-karp armature-bench-simulated armature-bench-simulated-loop armature-bench-simulated-workflow)
"$CI_DIR/mpi/with.sh" smpi cargo build --locked --workspace "${profile[@]}" "${simulated[@]/#/--bin=}"
# Peers that cargo does not install.
python_packages mpi4py bench/peers/mpi4py/requirements.txt
python_packages workflow-peers bench/peers/workflows/requirements.txt
# shellcheck disable=SC2016  # for that shell
bench=("$CI_DIR/mpi/with.sh" openmpi sh -c 'exec "$CARGO_TARGET_DIR/$0/armature-bench" "$@"' "$built" "$@")
[ -n "$note" ] || exec "${bench[@]}"
commit=$(git rev-parse --short=12 HEAD)
# What is not committed yet belongs to no commit.
git diff --quiet HEAD -- framework launch apps bench/src bench/simulated || commit+=-changed
kept=bench/results/$(git log -1 --format=%cs)-$commit.txt
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
code=0
"${bench[@]}" | tee "$printed" || code=$?
{
  echo "commit $commit"
  echo "arguments $*"
  echo "machine $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
  echo "note $note"
  [ "$code" = 0 ] || echo "ended early with code $code"
  grep -E ', mark at (least|most) ' "$printed" || true
} >"$kept"
say "$(grep -cE ', mark at (least|most) ' "$kept" || true) marks are kept in $kept"
exit "$code"
