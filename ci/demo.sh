#!/usr/bin/env bash
# Shows armature at work: image similarity search over MPI on real pictures, the result shown and checked.
#
#   ci/demo.sh       a minute or two, most of it compiling; may be run again at any time
#
# RANKS sets the number of ranks (default 6). Everything it makes is in target/demo/.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=ci/pictures.sh
. "$CI_DIR/pictures.sh"
RANKS=${RANKS:-6}
cd "$ROOT"
"$CI_DIR/setup.sh" demo
set -a
# shellcheck source=ci/mpi/openmpi.env
. "$CI_DIR/mpi/openmpi.env"
set +a

say "building Ferret (about a minute the first time)"
cargo build --locked --release -p ferret
ferret=$CARGO_TARGET_DIR/release/ferret
demo=$ROOT/target/demo
mkdir -p "$demo"
cd "$demo"

say "real pictures: the icons of the Tango theme, 32x32 as the database, 22x22 as the queries"
tango_pictures pictures queries
echo "$(find pictures -type f | wc -l) pictures in the database, $(find queries -type f | wc -l) queries"

say "indexing"
"$ferret" index pictures -o pictures.db

# timed NAME COMMAND...: runs it, keeps the time in milliseconds as NAME_ms.
timed() {
  local name=$1 began
  shift
  began=$(date +%s%N)
  "$@"
  printf -v "${name}_ms" %d $((($(date +%s%N) - began) / 1000000))
}
query=("$ferret" query queries --db pictures.db -k 10)
say "one rank"
rm -f one-rank.tsv many-ranks.tsv
timed one "${query[@]}" -o one-rank.tsv --mapping serial
say "$RANKS ranks under mpirun; the planner chooses which ranks run which stages"
# shellcheck disable=SC2086  # a command and its options
timed many $ARMATURE_TEST_MPIRUN -n "$RANKS" "${query[@]}" -o many-ranks.tsv --mapping auto --summary

say "both wrote the same bytes?"
cmp one-rank.tsv many-ranks.tsv || die "the output of $RANKS ranks differs from that of one: $demo"
answers=$(wc -l <many-ranks.tsv)
[ "$answers" -gt 0 ] || die "there is no answer in $demo/many-ranks.tsv"
echo "yes: $answers lines, $(sha256sum many-ranks.tsv | cut -c1-16)"

say "some queries and their three best answers"
awk -F'\t' '$1 != last { last = $1; n++ } n % 40 == 5 && $2 <= 3 {
  if ($1 != shown) { print $1; shown = $1 }
  printf "    %d. %-45s %s\n", $2, $3, $4 }' many-ranks.tsv

say "how good are the answers?"
"$ferret" eval pairs --database pictures --queries queries | tee quality.txt
found=$(awk '/^right image is among ten/ { print int($6) }' quality.txt)
[ "${found:-0}" -ge 70 ] || die "the right picture is among ten in ${found:-?} % of the queries, expected at least 70 %"

# shellcheck disable=SC2154  # set by timed
printf '\ntime of the query run, start-up included: %d.%03d s on one rank, %d.%03d s on %d ranks and %d cores\n' \
  $((one_ms / 1000)) $((one_ms % 1000)) $((many_ms / 1000)) $((many_ms % 1000)) "$RANKS" "$(nproc)"
say "done; everything is in $demo"
