#!/usr/bin/env bash
# Demonstrates armature with an image similarity search over MPI on real pictures. In the middle of a run, competing programs start on the
# core of one rank. One run keeps its mapping of stages to ranks, and in another run armature changes it. The results are checked and shown.
#
#   ci/demo.sh       takes two minutes, and some minutes for compiling at the first time; can be repeated
#
# RANKS sets the number of ranks (default: one for each core, but at least two and at most four), LOADS the number of competing programs
# (default: 4), and COPIES the number of queries of each kind that are made from a picture (default: 3). All files are in target/demo/. The
# script fails if a result is wrong, but not because a run is slow.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=ci/pictures.sh
. "$CI_DIR/pictures.sh"
# shellcheck source=ci/beside.sh
. "$CI_DIR/beside.sh"
cd "$ROOT"
"$CI_DIR/setup.sh" demo
set -a
# shellcheck source=ci/mpi/openmpi.env
. "$CI_DIR/mpi/openmpi.env"
set +a
cores=$(usable_cores)
# The first stage is serial and has a quarter of the work. With more than four ranks, this stage would be the bottleneck.
RANKS=${RANKS:-$((cores < 2 ? 2 : cores > 4 ? 4 : cores))}
# On a single core, the ranks cannot avoid the competing programs. Fewer programs and queries limit the duration.
LOADS=${LOADS:-$((cores < 2 ? 1 : 4))}
COPIES=${COPIES:-$((cores < 2 ? 2 : 3))}
on_cores="on $cores core$([ "$cores" -eq 1 ] || echo s)"

say "building Ferret, the image search, and the command armature (a few minutes the first time)"
cargo build --locked --release --workspace --bin ferret --bin armature
ferret=$CARGO_TARGET_DIR/release/ferret
armature=$CARGO_TARGET_DIR/release/armature
demo=$ROOT/target/demo
mkdir -p "$demo"
cd "$demo"
trap 'end_all; exit 130' INT TERM HUP
trap end_all EXIT

say "real pictures to search in: flags of the world and the icons of the Tango theme"
flags_and_icons pictures
"$ferret" index pictures -o pictures.db
say "and queries: each of them cut, noisy, brighter or darker, and resized, as photographs of 512 pixels"
rm -rf queries
"$ferret" vary pictures -o queries --copies "$COPIES" --side 512
query=("$ferret" query queries/queries --db pictures.db -k 10)
queries=$(wc -l <queries/truth.tsv)

say "a query goes through six stages"
echo "    load decodes the picture, seg cuts it into regions, ext describes them, ind finds pictures with such regions, rank compares, out writes."
echo "    Which ranks run what is written like this: seg+ext@0,1 says that ranks 0 and 1 each run both of these stages."

say "1. One rank"
had_a_core "${query[@]}" -o one-rank.tsv --mapping serial || die "the serial program has failed"
one_ms=$took_ms
whole=$(stat -c %s one-rank.tsv)
figures "$queries" "$one_ms"
# A core share below this threshold shows competing load. Waiting for the disk takes less.
[ "$core_share" -ge 85 ] || echo "    This machine is busy: that rank had its core for $core_share % of the time. So what follows is rough."

# stream NAME N OPTION...: runs the queries on all ranks, starts N competing programs after a third of them, and compares the results with
# those of one rank. Sets the variables of watch_stream.
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
say "3. The same, but after a third of the queries $LOADS other programs come to where rank $decoder decodes all pictures"
stream kept "$LOADS" --mapping mapping --balance off
kept_ms=$stream_ms kept_beside=$beside_ms
figures "$queries" "$kept_ms"

say "4. Once more, and armature may change the mapping while the stream runs"
stream live "$LOADS" --mapping mapping --balance live
live_ms=$stream_ms live_beside=$beside_ms
figures "$queries" "$live_ms"

say "queries a second, as time goes by"
chart "$queries" alone kept live

say "what was decided, and why (armature explain target/demo/events-live tells more)"
"$armature" explain events-live | changes live "$decoder"
changed=$(($(mappings_of live | wc -l) - 1))
if [ "$changed" -lt 1 ]; then
  echo "    The mapping was not changed: no other one was better by enough for what was measured."
fi

say "did everybody write the same bytes, and are the answers right?"
echo "yes: three runs on $RANKS ranks wrote the $(wc -l <live.tsv) lines of one rank, $(sha256sum live.tsv | cut -c1-16)"
quality queries/truth.tsv live.tsv
[ "$found" -ge 70 ] || die "the right picture is among ten in $found % of the queries, expected at least 70 %"
awk -F'\t' '$1 != last { last = $1; n++ } n % 2000 == 300 && $2 <= 3 {
  if ($1 != shown) { print "  " $1; shown = $1 }
  printf "    %d. %-45s %s\n", $2, $3, $4 }' live.tsv

say "in short, $on_cores"
printf '    %s ranks do in %s s what one does in %s s: %s times as fast\n' \
  "$RANKS" "$(decimal "$alone_ms")" "$(decimal "$one_ms")" "$(ratio "$one_ms" "$alone_ms")"
verdict "$kept_beside" "$live_beside" "$changed"
say "to look at: what the ranks did while the load was there, as a page that opens in any browser"
"$armature" report events-live --title "Ferret, beside $LOADS other programs from a third on" -o live.html >/dev/null
echo "    $demo/live.html"
say "done; everything is in target/demo"
