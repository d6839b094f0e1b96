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
# Ferret, armature and others, too: experiments start them. They lie beside the program that these are.
"$CI_DIR/mpi/with.sh" openmpi cargo build --locked --release -p armature-bench -p armature-launch -p ferret \
  -p matmul -p matmul-stream -p rabin-karp -p workflow
# And what runs on simulated ranks.
"$CI_DIR/mpi/with.sh" smpi cargo build --locked --release -p ferret -p rabin-karp -p armature-bench-simulated
# Peers that cargo does not install.
python_packages mpi4py bench/peers/mpi4py/requirements.txt
python_packages workflow-peers bench/peers/workflows/requirements.txt
bench=("$CI_DIR/mpi/with.sh" openmpi cargo run --locked --quiet --release -p armature-bench -- "$@")
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
