#!/usr/bin/env bash
# Demonstrates armature: image similarity search over MPI on real pictures. In the middle of the stream, other programs start on the core
# of one rank: once with a fixed mapping, and once with a mapping that armature may change. The script shows and checks the results.
#
#   ci/demo.sh       takes two minutes, and the time to compile at the first run; it can be repeated at any time
#
# Settings: RANKS, the number of ranks (default: one per core, from two to four); LOADS, the number of other programs (default: 4);
# COPIES, the number of queries of each kind per picture (default: 3). All files are written to target/demo/. The script fails if a
# result is wrong, never because of a time.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=ci/pictures.sh
. "$CI_DIR/pictures.sh"
# shellcheck source=ci/background-load.sh
. "$CI_DIR/background-load.sh"
cd "$ROOT"
"$CI_DIR/setup.sh" demo
set -a
# shellcheck source=ci/mpi/openmpi.env
. "$CI_DIR/mpi/openmpi.env"
set +a
cores=$(usable_cores)
# More than four ranks would save no time, because the serial first stage is a quarter of the work.
RANKS=${RANKS:-$((cores < 2 ? 2 : cores > 4 ? 4 : cores))}
# On a machine with one core no mapping can avoid the load. Fewer other programs and fewer queries keep the run short.
LOADS=${LOADS:-$((cores < 2 ? 1 : 4))}
COPIES=${COPIES:-$((cores < 2 ? 2 : 3))}
on_cores="on $cores core$([ "$cores" -eq 1 ] || echo s)"

say "building the image search Ferret and the command armature (a few minutes at the first run)"
cargo build --locked --release --workspace --bin ferret --bin armature
ferret=$CARGO_TARGET_DIR/release/ferret
armature=$CARGO_TARGET_DIR/release/armature
demo=$ROOT/target/demo
mkdir -p "$demo"
cd "$demo"
trap 'end_all; exit 130' INT TERM HUP
trap end_all EXIT

say "database: flags of the world and the icons of the Tango theme"
flags_and_icons pictures
"$ferret" index pictures -o pictures.db
say "queries: each picture cropped, with noise, brighter or darker, and resized to 512 pixels"
rm -rf queries
"$ferret" vary pictures -o queries --copies "$COPIES" --side 512
query=("$ferret" query queries/queries --db pictures.db -k 10)
queries=$(wc -l <queries/truth.tsv)

say "each query passes through six stages"
echo "    load decodes the picture, seg divides it into regions, ext computes their features, ind looks up candidates, rank compares, out writes."
echo "    A mapping assigns stages to ranks: seg+ext@0,1 means that ranks 0 and 1 each run both stages."

say "1. One rank"
had_a_core "${query[@]}" -o one-rank.tsv --mapping serial || die "the serial program has failed"
one_ms=$took_ms
whole=$(stat -c %s one-rank.tsv)
figures "$queries" "$one_ms"
# The run hardly waits for the disk. If it had much less than a whole core, other programs are using the machine.
[ "$core_share" -ge 85 ] || echo "    This machine is busy: the rank had its core for $core_share % of the time. The times below are rough."

# stream NAME N OPTION...: runs the query on all ranks, with N other programs after a third of the stream, and compares the output with
# that of one rank. Sets the variables that watch_stream sets.
stream() {
  local name=$1 loads=$2
  shift 2
  rm -rf "$name.tsv" "events-$name"
  # shellcheck disable=SC2086  # a command and its options
  ARMATURE_BIND=core ARMATURE_EVENTS=events-$name $ARMATURE_TEST_MPIRUN -n "$RANKS" "${query[@]}" --summary "$@" \
    >"$name.tsv" 2>"$name.txt" &
  watch_stream "$name" $! "$whole" "$loads" || { cat "$name.txt"; die "the query on $RANKS ranks has failed"; }
  cmp one-rank.tsv "$name.tsv" || die "the output of $RANKS ranks differs from that of one: $demo"
}

say "2. $RANKS ranks under mpirun, $on_cores; the planner chooses which ranks run which stages"
stream alone 0 --mapping auto --balance off
mapping=$(mappings_of alone | tail -n 1)
printf '%s\n' "$mapping" >mapping
alone_ms=$stream_ms
echo "    $mapping"
figures "$queries" "$alone_ms" "$one_ms" "one rank"

decoder=$(first_rank "$mapping")
say "3. The same mapping, but after a third of the queries $LOADS other programs start on the core of rank $decoder, which decodes all pictures"
stream kept "$LOADS" --mapping mapping --balance off
kept_ms=$stream_ms kept_loaded=$loaded_ms
figures "$queries" "$kept_ms"

say "4. The same load, but armature may change the mapping while the stream runs"
stream live "$LOADS" --mapping mapping --balance live
live_ms=$stream_ms live_loaded=$loaded_ms
figures "$queries" "$live_ms"

say "queries per second over time"
chart "$queries" alone kept live

say "decisions and their reasons (details: armature explain target/demo/events-live)"
"$armature" explain events-live | changes live "$decoder"
changed=$(($(mappings_of live | wc -l) - 1))
if [ "$changed" -lt 1 ]; then
  echo "    The mapping was not changed: by the measurements, no other mapping gained enough."
fi

say "are the outputs equal, and are the answers right?"
echo "yes: three runs on $RANKS ranks wrote the same $(wc -l <live.tsv) lines as one rank (SHA-256 $(sha256sum live.tsv | cut -c1-16)…)"
quality queries/truth.tsv live.tsv
[ "$found" -ge 70 ] || die "the right picture is among the first ten answers in $found % of the queries, expected at least 70 %"
awk -F'\t' '$1 != last { last = $1; n++ } n % 2000 == 300 && $2 <= 3 {
  if ($1 != shown) { print "  " $1; shown = $1 }
  printf "    %d. %-45s %s\n", $2, $3, $4 }' live.tsv

say "summary, $on_cores"
printf '    %s ranks take %s s, one rank takes %s s: %s times as fast\n' \
  "$RANKS" "$(decimal "$alone_ms")" "$(decimal "$one_ms")" "$(ratio "$one_ms" "$alone_ms")"
verdict "$kept_loaded" "$live_loaded" "$changed"
say "report of the last run, for any browser"
"$armature" report events-live --title "Ferret, with $LOADS other programs after a third of the queries" -o live.html >/dev/null
echo "    $demo/live.html"
say "done; all files are in target/demo"
