#!/usr/bin/env bash
# Runs programs that were built for SMPI on simulated clusters and checks what comes of it.
#
#   ci/smpi/test.sh FERRET      the real-MPI build of Ferret, whose output the simulated ranks must reproduce
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=ci/checks.sh
. "$CI_DIR/checks.sh"
# shellcheck source=ci/pictures.sh
. "$CI_DIR/pictures.sh"
ferret=$(realpath "${1:?usage: ci/smpi/test.sh FERRET}")
[ -x "$ferret" ] || die "$ferret is missing; build it first"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
run=$CI_DIR/smpi/run.sh

tango_pictures pictures queries 40
"$ferret" index pictures -o pictures.db >index.log 2>&1 || { cat index.log; die "ferret index failed"; }
"$ferret" query queries --db pictures.db -k 10 -o one-rank.tsv --mapping serial >one-rank.log 2>&1 ||
  { cat one-rank.log; die "ferret query failed on one rank"; }

# simulate N SPEEDS OUT MAPPING
simulate() {
  "$run" "$1" --speeds "$2" ferret query queries --db pictures.db -k 10 -o "$3" --mapping "$4"
}
# Fourteen hosts of five speeds, and a homogeneous cluster.
unequal="1Gf 500Mf 1Gf 1500Mf 2Gf"
check "Ferret runs on 14 unequal hosts" simulate 14 "$unequal" a.tsv auto
check "its output has the bytes of one rank's" cmp one-rank.tsv a.tsv
check "it runs again" simulate 14 "$unequal" b.tsv auto
check "with the same output" cmp a.tsv b.tsv
check "Ferret runs on one host" simulate 1 1Gf c.tsv serial
check "its output has the bytes of one rank's" cmp one-rank.tsv c.tsv

# The whole-program tests, each a case of one binary.
for ranks in 1 2 3 4 8; do
  check "the whole-program cases pass on $ranks simulated ranks" "$run" "$ranks" armature-cases
done
checks_done smpi
