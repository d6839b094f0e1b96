#!/usr/bin/env bash
# Runs programs that were built for SMPI on simulated clusters and checks their results.
#
#   ci/smpi/test.sh FERRET SYNTHETIC_FARM RABIN_KARP MATMUL_STREAM ARMATURE_BURNER ARMATURE
#
# The first four programs are built for real MPI, and simulated ranks must reproduce their results. ARMATURE_BURNER writes the loads of simulated
# hosts.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=ci/checks.sh
. "$CI_DIR/checks.sh"
# shellcheck source=ci/pictures.sh
. "$CI_DIR/pictures.sh"
# shellcheck source=ci/smpi/golden.sh
. "$CI_DIR/smpi/golden.sh"
usage="usage: ci/smpi/test.sh FERRET SYNTHETIC_FARM RABIN_KARP MATMUL_STREAM ARMATURE_BURNER ARMATURE"
ferret=$(realpath "${1:?$usage}") synthetic=$(realpath "${2:?$usage}")
search=$(realpath "${3:?$usage}") product=$(realpath "${4:?$usage}") burner=$(realpath "${5:?$usage}")
armature=$(realpath "${6:?$usage}")
for program in "$ferret" "$synthetic" "$search" "$product" "$burner" "$armature"; do [ -x "$program" ] || die "$program is missing; build it first"; done
work=$(mktemp -d) lane=""
leave() { [ -z "$lane" ] || kill "$lane" 2>/dev/null || true; rm -rf "$work"; }
trap leave EXIT
trap 'exit 130' INT TERM HUP
cd "$work"
run=$CI_DIR/smpi/run.sh
# Relative speeds of the simulated hosts of whole-program cases.
mixed=1,1,2,0.5,1.5

# A simulation uses one core. The tests of whole programs take longest, and run in the background, one simulation after another.
#
# waves SEED CASE...: runs cases of the program armature-cases on simulated hosts whose speeds drop to one half and recover periodically, with a
# different phase for each host and seed.
wave_seconds=0.02
waves() {
  local host seed=$1
  shift
  "$armature" simulate --print-platform -n 4 --speeds 1,2,0.5 >"waves-$seed.xml"
  sed -i '$d' "waves-$seed.xml"
  for host in 0 1 2 3; do
    "$burner" simgrid "h$host" $wave_seconds 0.5 $((4 * seed + host)) 0.5 >>"waves-$seed.xml"
  done
  echo '</platform>' >>"waves-$seed.xml"
  ARMATURE_BALANCE=live "$run" 4 --platform "waves-$seed.xml" armature-cases "$@"
}
# kept NAME COMMAND...: runs the command, with its output in NAME.log and its exit code in NAME.code.
kept() {
  local name=$1 code=0
  shift
  "$@" >"$name.log" 2>&1 || code=$?
  echo "$code" >"$name.code.new"
  mv "$name.code.new" "$name.code"
}
# passed NAME: command for the function check, which waits for the end of the background command NAME, and fails if that command has failed.
passed() {
  until [ -e "$1.code" ]; do
    kill -0 "$lane" || return 1
    sleep 0.2
  done
  [ "$(cat "$1.code")" = 0 ] || { cat "$1.log"; return 1; }
}
in_background() {
  kept waves-1 waves 1
  kept cases-8 "$run" 8 --speeds "$mixed" armature-cases
  kept cases-3 "$run" 3 --speeds "$mixed" armature-cases
}
in_background &
lane=$!

tango_pictures pictures queries 40
"$ferret" index pictures -o pictures.db >index.log 2>&1 || { cat index.log; die "ferret index failed"; }
"$ferret" query queries --db pictures.db -k 10 -o one-rank.tsv --mapping serial >one-rank.log 2>&1 ||
  { cat one-rank.log; die "ferret query failed on one rank"; }

# simulate N SPEEDS OUT MAPPING: runs Ferret with the mapping of stages MAPPING on N simulated hosts, and writes its output to the file OUT.
simulate() {
  "$run" "$1" --speeds "$2" ferret query queries --db pictures.db -k 10 -o "$3" --mapping "$4" >simulated.log 2>&1 ||
    { cat simulated.log; return 1; }
}
# Ferret is simulated on fourteen hosts with five different speeds, and on a single host.
unequal=1,0.5,1,1.5,2
check "Ferret runs on 14 unequal hosts" simulate 14 "$unequal" a.tsv auto
check "it says that they are simulated" grep -q " 14 ranks, mpi: SMPI" simulated.log
check "its output has the bytes of one rank's" cmp one-rank.tsv a.tsv
check "Ferret runs on one host" simulate 1 1 c.tsv serial
check "its output has the bytes of one rank's" cmp one-rank.tsv c.tsv

# Two pipelines with large items are simulated: a search, and a matrix product whose checksum depends on every bit of the product.
patterns=(foobar arfo --generate foobar:500K --generate fooba:300K --segment 8K --hash-bits 6)
"$search" "${patterns[@]}" -o one-rank.matches 2>search.log || { cat search.log; die "rabin-karp failed on one rank"; }
searched() { "$run" 5 --speeds "$unequal" rabin-karp "${patterns[@]}" -o "$1" >search.log 2>&1 || { cat search.log; return 1; }; }
check "Rabin-Karp runs on 5 unequal hosts" searched a.matches
check "its matches are those of one rank" cmp one-rank.matches a.matches
check "it says how long it took" grep -q " matches in .* s$" search.log
shape=(--shape 210x190x230 --block 24)
multiplied() { "$run" 5 --speeds "$unequal" matmul-stream "${shape[@]}" --verify >simulated.product 2>product.log || { cat product.log; return 1; }; }
"$product" "${shape[@]}" >one-rank.product 2>product.log || { cat product.log; die "matmul-stream failed on one rank"; }
check "a streamed product runs on 5 unequal hosts" multiplied
checksum() { sed -n 's/.* checksum //p' "$1"; }
check "its bits are those of one rank" equal "$(checksum one-rank.product)" "$(checksum simulated.product)"

# The seed determines when the simulated hosts become slower. If their speeds had no effect, the runs with all seeds would end at the same time.
for seed in 2 3; do
  waves "$seed" units stencils-moving overtaking >"ends-$seed" 2>&1 || { cat "ends-$seed"; die "cases beside loads failed"; }
done
ends_differ() { ! cmp -s <(grep ' ended at ' ends-2 | sort) <(grep ' ended at ' ends-3 | sort); }
check "ranks notice loads that come and go" ends_differ

# Hosts 1 and 2 have fast links to host 0, and a slow link between each other, which only messages between hosts 1 and 2 reveal.
cat >far.xml <<'XML'
<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<zone id="world" routing="Full">
  <host id="h0" speed="1Gf"/>
  <host id="h1" speed="1Gf"/>
  <host id="h2" speed="1Gf"/>
  <link id="near1" bandwidth="125MBps" latency="25us"/>
  <link id="near2" bandwidth="125MBps" latency="25us"/>
  <link id="far" bandwidth="1MBps" latency="25us"/>
  <route src="h0" dst="h1"><link_ctn id="near1"/></route>
  <route src="h0" dst="h2"><link_ctn id="near2"/></route>
  <route src="h1" dst="h2"><link_ctn id="far"/></route>
</zone>
</platform>
XML
slow_link() {
  ARMATURE_CASES_SLOW_LINK=1 ARMATURE_BALANCE=live ARMATURE_EVENTS=events \
    "$run" 3 --platform far.xml armature-cases slow-link
}
check "a mapping that is balanced live leaves a link that turns out to be slow" slow_link
check "what is decided there is what was decided before" as_kept pipeline events
check "the log says which" grep -q '"kind":"link","from":1,"to":2' events/attempts/1/rank-0.jsonl

# Only work that a program declares may take simulated time. seconds_for MEGAFLOPS: prints the simulated seconds of a pipeline whose stages
# declare this work for each item.
seconds_for() {
  ARMATURE_CASES_MEGAFLOPS=$1 "$run" 2 --speeds 1 armature-cases declared 2>>declared.log | sed -n 's/^simulated seconds: \([0-9.]*\) .*/\1/p'
}
first=$(seconds_for 1000) again=$(seconds_for 1000) half=$(seconds_for 500)
check "a simulated time is printed" [ -n "$first" ]
check "two runs take the same simulated time to the last digit" equal "$first" "$again"
halved() { awk -v whole="$first" -v half="$half" 'BEGIN { exit !(half > 0.49 * whole && half < 0.51 * whole) }'; }
check "half the declared work takes half the time" halved
# Sixteen items pass three stages, each of which declares one second of work: 48 s on one host. If real computing counted, the time would be
# longer.
declared_only() { awk -v whole="$first" 'BEGIN { exit !(whole >= 48 && whole < 48.01) }'; }
check "only declared work takes simulated time" declared_only
# ended_at: prints the simulated time at which each rank ends, for cases of the program armature-cases whose mappings are planned from measured
# times.
ended_at() { "$run" 3 --speeds "$mixed" armature-cases auto overtaking many-pipelines 2>>declared.log | grep ' ended at ' | sort; }
first=$(ended_at) again=$(ended_at)
check "three ranks print when they end" [ "$(wc -l <<<"$first")" = 3 ]
check "a planned run ends at the same simulated time to the last digit" equal "$first" "$again"

# A simulated farm must have the same results as on real ranks, and take the simulated time of its declared work.
farm=(--tasks 400 --mean 5 --deviation 50 --iterations 3 --task-bytes 1000 --result-bytes 100)
"$synthetic" "${farm[@]}" --sleep >real-farm 2>farm.log || { cat farm.log; die "synthetic-farm failed on one rank"; }
labour() { "$run" 5 --speeds 1 synthetic-farm "${farm[@]}" >"$1" 2>farm.log || { cat farm.log; return 1; }; }
# told NAME FILE: prints the value of the field NAME in the last line of the file, which is JSON.
told() { tail -n 1 "$2" | sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }
[ -n "$(told checksum real-farm)" ] || die "synthetic-farm prints no checksum"
check "a farm runs on 5 hosts" labour farm-a
check "its results are those of one real rank" equal "$(told checksum real-farm)" "$(told checksum farm-a)"
busy() { awk -v e="$(told efficiency farm-a)" 'BEGIN { exit !(e > 0.9 && e <= 1) }' || { tail -n 1 farm-a; return 1; }; }
check "its ranks are busy more than nine tenths of the time" busy
# Platform file of the simulated hosts on which workflows are run; the tasks declare their work.
cat >four.toml <<'TOML'
bandwidth = "125 MB"
[[processor]]
name = "h0"
memory = "40 MB"
[[processor]]
name = "h1"
speed = 2.0
memory = "40 MB"
[[processor]]
name = "h2"
speed = 0.5
memory = "30 MB"
[[processor]]
name = "h3"
speed = 2.0
memory = "30 MB"
TOML
replay=(--synthetic-work --platform four.toml --summary)
tenth=(--memory-scale 0.1 --size-scale 0.1)
# flow NAME ARGS...: runs a workflow, with standard output in NAME and messages in NAME.log.
flow() { "$run" 4 --speeds 1,2,0.5 armature-workflow "${replay[@]}" "${@:2}" >"$1" 2>"$1.log" || { cat "$1.log"; return 1; }; }
for shape in epigenomics montage; do
  check "a workflow like $shape runs on 4 unequal hosts" flow $shape "${tenth[@]}" --generate $shape:60 --time-scale 0.01
done
check "half of the work of montage runs there" flow half "${tenth[@]}" --generate montage:60 --time-scale 0.005
# flow_seconds NAME and planned_seconds NAME: print the measured and the planned time of a workflow.
flow_seconds() { sed -n 's/^.* tasks are done, after \([0-9.]*\) s$/\1/p' "$1"; }
planned_seconds() { sed -n 's/.*planned by .* for \([0-9.]*\) s.*/\1/p' "$1.log"; }
# near LOW HIGH NUMBER OTHER: command for the function check, which fails unless NUMBER is between LOW and HIGH times OTHER.
near() { awk "BEGIN { exit !($1 * $4 <= $3 && $3 <= $2 * $4) }" || { echo "$3 is not $1 to $2 times $4"; return 1; }; }
check "it takes half the time" near 0.48 0.52 "$(flow_seconds half)" "$(flow_seconds montage)"
for shape in epigenomics montage; do
  check "the time of $shape is near what was planned" near 0.9 1.1 "$(flow_seconds $shape)" "$(planned_seconds $shape)"
done
check "a real run is replayed there" flow real "$ROOT/framework/workflow-files/tests/data/bacass-1.5.json" --time-scale 0.01 --memory-scale 0.01 --size-scale 0.01
small_flow() { ARMATURE_EVENTS=flow-events flow small "${tenth[@]}" --generate montage:24 --time-scale 0.01; }
check "a small one logs its events" small_flow
check "what its ranks do is what they did before" as_kept workflow flow-events
printf 'TASK a /bin/true\n' >commands.dag
refused() {
  if "$run" 2 armature-workflow commands.dag >refused.log 2>&1; then echo "they are run"; return 1; fi
  grep "commands cannot be run on simulated hosts" refused.log || { cat refused.log; return 1; }
}
check "commands are refused there" refused

# `armature simulate` predicts the time of a run, keeps a record of it, and refuses what it cannot simulate.
# shellcheck disable=SC2016  # for that shell
farm_program=$("$CI_DIR/mpi/with.sh" smpi sh -c 'echo "$CARGO_TARGET_DIR/$CARGO_BUILD_TARGET/debug/synthetic-farm"')
predicted() { "$armature" simulate -n 6 --run predicted "$farm_program" "${farm[@]}" >"$1" 2>farm.log || { cat farm.log; return 1; }; }
check "a farm is simulated" predicted prediction
cat prediction
check "its time and efficiency are printed" grep -Eq '^run 1 "labour": .* on 6 simulated ranks, efficiency [0-9.]+ %' prediction
check "the activity of rank 0 is printed" grep -q "^  rank 0: computing " prediction
check "its page is written" [ -s "$(sed -n 's/^page: //p' prediction)" ]
check "the run has a record" "$armature" status predicted
# A process has 1,024 thread-local keys. If each copy of the program took one, no more ranks could be simulated.
check "copies of the program take no thread-local keys" equal "" "$(nm -D "$farm_program" | grep pthread_key)"
is_refused() { if "$armature" "$@" >refused.log 2>&1; then return 1; else equal 2 $?; fi; }
check "more ranks than memory allows are refused before the start" is_refused simulate -n 1000000 "$farm_program"
check "it says how many are possible" grep -Eq "cannot simulate 1000000 ranks: .* expected at most [0-9]+ ranks" refused.log
check "a program of another MPI is refused" is_refused simulate -n 2 "$synthetic"
check "it says how to build it" grep -q "armature simulate --build cargo build" refused.log
check "a simulated program is refused by armature run" is_refused run -n 2 "$farm_program"

# The decisions of a farm and of loops on simulated hosts with different speeds must be those of the stored event logs.
unequal_farm() { ARMATURE_EVENTS=farm-events "$run" 4 --speeds 1,2,0.5 synthetic-farm "${farm[@]}" >/dev/null; }
check "a farm runs on 4 unequal hosts" unequal_farm
check "what it decides is what it decided before" as_kept farm farm-events
# loops EVENTS CASE: runs a case of the program armature-cases with loops, and writes its event log to the directory EVENTS.
loops() { ARMATURE_BALANCE=live ARMATURE_EVENTS=$1 "$run" 3 --speeds 1,2,0.5 armature-cases "$2"; }
check "DOALL loops run on 3 unequal hosts" loops doall-events units
check "what they decide is what they decided before" as_kept doall doall-events
loses_no_core() { ! grep -l '"lost_s"' doall-events/attempts/1/activity-*.jsonl; }
check "their ranks lose no time to other programs of this machine" loses_no_core
check "loops over a grid run there" loops grid-events stencils-moving
check "what they decide is what they decided before" as_kept grid grid-events

check "the whole-program cases pass on 4 hosts beside loads that come and go" passed waves-1
check "they pass on 8 simulated ranks" passed cases-8
check "they pass on 3 simulated ranks" passed cases-3
checks_done smpi
