#!/usr/bin/env bash
# Runs the experiments behind the claims of speed and quality. Each experiment prints its tables, writes CSV and SVG files to target/bench/,
# and ends with a line for each mark: NAME: VALUE UNIT, mark MARK: reached|short|not resolved.
#
#   ci/bench.sh [NAME...]      runs the named experiments, or all of them (some hours)
#   ci/bench.sh --list         lists the experiments
#   ci/bench.sh --smoke        runs all experiments in a short form, whose results mean nothing
#   ci/bench.sh NAME --rounds N --only PART    runs fewer rounds, or one part of an experiment (bench/README.md)
#   ci/bench.sh --keep NOTE ARGUMENTS...       runs with these arguments, and stores the marks with the note in bench/results/
#   ci/bench.sh --against COMMIT ARGUMENTS...  runs alternately with the experiments and the code of COMMIT and with those of the working tree
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
if [ "${1:-}" = --against ]; then
  [ $# -ge 3 ] || die "usage: ci/bench.sh --against COMMIT ARGUMENTS..."
  other=$(git rev-parse --short=12 "$2^{commit}")
  shift 2
  versions=target/bench/versions tree=target/bench/versions/$other
  if ! [ -d "$tree" ]; then
    mkdir -p "$tree"
    git archive "$other" | tar -x -C "$tree"
  fi
  # Everything is built before the first measurement.
  for version in "$tree" .; do "$version/ci/bench.sh" --list >/dev/null; done
  rm -f "$versions"/*.log
  for round in 1 2 3; do
    for name in old new; do
      version=.
      [ $name = new ] || version=$tree
      say "round $round: $name"
      "$version/ci/bench.sh" "$@" | tee "$versions/$name-$round.log"
    done
  done
  say "marks of the three rounds; old is $other. The tables are in $versions/"
  grep -HE ', mark at (least|most) ' "$versions"/{old,new}-*.log | sed 's:.*/\([a-z]*\)-[0-9].log\::\1 :; s/ (95 .*//' | sort -k2
  exit
fi
"$CI_DIR/setup.sh" bench
# Experiments start other programs from the directory of the program armature-bench. The short form (--smoke), whose times mean nothing, uses
# the debug build of the tests. `--test broken` selects the cargo features of that build, which include those of the dev-dependencies.
profile=(--release) built=release
for argument in "$@"; do [ "$argument" != --smoke ] || { profile=(--test broken); built=debug; }; done
programs=(armature-bench armature ferret matmul matmul-stream rabin-karp armature-workflow armature-commands)
"$CI_DIR/mpi/with.sh" openmpi cargo build --locked --workspace "${profile[@]}" "${programs[@]/#/--bin=}"
simulated=(ferret rabin-karp armature-workflow armature-bench-simulated{,-loop,-pipeline,-task-bench,-workflow})
"$CI_DIR/mpi/with.sh" smpi cargo build --locked --workspace "${profile[@]}" "${simulated[@]/#/--bin=}"
# Python frameworks with which experiments compare armature.
python_packages mpi4py bench/peers/mpi4py/requirements.txt
python_packages workflow-peers bench/peers/workflows/requirements.txt
# shellcheck disable=SC2016  # for that shell
bench=("$CI_DIR/mpi/with.sh" openmpi sh -c 'exec "$CARGO_TARGET_DIR/$0/armature-bench" "$@"' "$built" "$@")
[ -n "$note" ] || exec "${bench[@]}"
commit=$(git rev-parse --short=12 HEAD)
# If the working tree differs from the commit, the name of the results file says so.
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
