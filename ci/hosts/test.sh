#!/usr/bin/env bash
# Emulates four unequal hosts on this machine, and checks their speeds and links. Then it checks programs over MPI on all hosts:
#
# - Ferret writes the same bytes as on one rank.
# - Rows of a loop move to the fast hosts, and the grid is the same as on one rank.
# - Most tasks of a workflow run on the fast hosts, within the memory limit of each host.
# - The files of a workflow are sent between hosts that share no directory.
#
# Takes less than a minute, and removes the hosts at the end. Fails if the machine does not permit emulated hosts.
#
#   ci/hosts/test.sh FERRET SOR WORKFLOW PROBE       paths of the programs, built for Open MPI
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=ci/checks.sh
. "$CI_DIR/checks.sh"
# shellcheck source=ci/pictures.sh
. "$CI_DIR/pictures.sh"
usage="usage: ci/hosts/test.sh FERRET SOR WORKFLOW PROBE"
ferret=${1:?$usage} sor=${2:?$usage} workflow=${3:?$usage} probe=${4:?$usage}
for program in "$ferret" "$sor" "$workflow" "$probe"; do [ -x "$program" ] || die "$program is missing; build it first"; done
ferret=$(readlink -f "$ferret") sor=$(readlink -f "$sor") workflow=$(readlink -f "$workflow") probe=$(readlink -f "$probe")

work=$(mktemp -d)
export HOSTS_DIR=$work/hosts HOSTS_PREFIX=arm-
export HOSTS="h1:50:1gbit h2:50:1gbit h3:25:100mbit h4:12:20mbit"
leave() { "$CI_DIR/hosts/down.sh" >/dev/null; rm -rf "$work"; }
trap leave EXIT
trap 'exit 130' INT TERM HUP
on() { timeout 60 "$CI_DIR/hosts/exec.sh" "$@"; }
# milliseconds: prints milliseconds since 1970.
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
# between LOW HIGH NUMBER: command for the function check, which fails unless NUMBER is from LOW to HIGH.
between() { awk "BEGIN { exit !($1 <= $3 && $3 <= $2) }" || { echo "wanted: $1 to $2"; echo "found:  $3"; return 1; }; }

say "one rank"
cd "$work"
tango_pictures pictures queries 40
"$ferret" index pictures -o pictures.db >index.log 2>&1 || { cat index.log; die "ferret index failed"; }
query=(query queries --db "$work/pictures.db" -k 10)
"$ferret" "${query[@]}" -o one-rank.tsv --mapping serial >one-rank.log 2>&1 || { cat one-rank.log; die "ferret query failed on one rank"; }

say "four hosts"
"$CI_DIR/hosts/up.sh" || die "the hosts did not come up"
check "they may be made again" "$CI_DIR/hosts/up.sh"
names() { local host; for host in h1 h2 h3 h4; do on $host hostname; done | tr '\n' ' '; }
check "each has its own name" equal "h1 h2 h3 h4 " "$(names)"
on h1 touch /dev/shm/mine
check "each has its own shared memory" equal "" "$(on h2 ls /dev/shm)"

# The speed of a host is the number to which a loop counts in one second, on all hosts at the same time. The largest of three counts is used,
# because other work on this machine can only reduce a count.
# shellcheck disable=SC2016  # for perl
count='my $n = 0; $SIG{ALRM} = sub { print $n; exit }; alarm 1; while (1) { $n++ }'
declare -A counted=([h1]=1 [h2]=1 [h3]=1 [h4]=1)
for _ in 1 2 3; do
  for host in h1 h2 h3 h4; do on $host "perl -e '$count'" >"count.$host" & done
  wait
  for host in h1 h2 h3 h4; do
    n=$(cat "count.$host")
    if [ "$n" -gt "${counted[$host]}" ]; then counted[$host]=$n; fi
  done
done
# times HOST: prints how many times as fast as HOST the host h1 is.
times() { awk "BEGIN { printf \"%.2f\", ${counted[h1]} / ${counted[$1]} }"; }
echo "h1 computes $(times h2), $(times h3) and $(times h4) times as fast as h2, h3 and h4"
check "h2 computes as fast as h1" between 0.7 1.4 "$(times h2)"
check "h3 computes half as fast" between 1.5 2.8 "$(times h3)"
check "h4 computes a quarter as fast" between 2.7 6.0 "$(times h4)"

# carry FROM: prints the milliseconds in which two million bytes are transferred from the host FROM to the host h1.
bytes=2000000
# shellcheck disable=SC2016  # for perl
receive='use IO::Socket::INET; my $s = IO::Socket::INET->new(LocalPort => 7070, Listen => 1, ReuseAddr => 1) or die; $| = 1; print "up\n";
  my $c = $s->accept; my $n = 0; while (my $got = sysread($c, my $x, 65536)) { $n += $got } syswrite($c, "$n"); '
# shellcheck disable=SC2016
give='use IO::Socket::INET; my $s = IO::Socket::INET->new(PeerAddr => "h1:7070") or die; print $s "x" x '$bytes'; $s->flush; shutdown($s, 1);
  sysread($s, my $n, 99); print $n'
carry() {
  local began got i
  on h1 "perl -e '$receive'" >receiver.log &
  for ((i = 0; i < 100; i++)); do
    if grep -q up receiver.log; then break; fi
    sleep 0.05
  done
  began=$(milliseconds)
  got=$(on "$1" "perl -e '$give'")
  wait $!
  [ "$got" = $bytes ] || die "$got bytes of $bytes came from $1"
  echo $(($(milliseconds) - began))
}
fast=$(carry h2) slow=$(carry h4)
echo "2 MB take $fast ms from h2 and $slow ms from h4"
# The transfer has 16 Mbit, of which a burst of 1 Mbit may exceed the rate of 20 Mbit/s.
check "the link of h4 carries 20 Mbit/s at most" between 700 20000 "$slow"
check "that of h2 more than twice as much" between 2 1000 "$(awk "BEGIN { print $slow / $fast }")"

say "a platform file of all four"
probe_runs() { timeout 60 "$CI_DIR/hosts/run.sh" -n 4 "$probe" --platform -o platform.toml >probe.log 2>&1 || { cat probe.log; return 1; }; }
check "the hosts are measured" probe_runs
cat platform.toml
# speed_of HOST and megabytes_of A B: print the speed of a host and the bandwidth of a link from the platform file.
speed_of() { awk -v host="name = \"$1\"" '$0 == host { found = 1 } found && /^speed/ { print $3; exit }' platform.toml; }
megabytes_of() { awk -v a="$1" -v b="$2" '$1 == "#" && $2 == a && $4 == b":" { print $8 }' platform.toml; }
check "h2 is as fast as h1" between 0.85 1.15 "$(speed_of h2)"
check "h3 is half as fast" between 0.425 0.575 "$(speed_of h3)"
check "h4 is 0.24 times as fast" between 0.204 0.276 "$(speed_of h4)"
check "the link of h1 and h2 has 1 Gbit/s" between 106 144 "$(megabytes_of h1 h2)"
check "that of h3 has 100 Mbit/s" between 10.6 14.4 "$(megabytes_of h1 h3)"
check "that of h4 has 20 Mbit/s" between 2.1 2.9 "$(megabytes_of h1 h4)"

say "Ferret on all four"
# hosts_in LOG: prints the host of each rank, from the table that armature logs at its start.
hosts_in() { awk '/^ *rank +host/ { table = 1; next } table && /^ *[0-9]+ .*GiB$/ { print $2; next } { table = 0 }' "$1" | tr '\n' ' '; }
# ferret_runs MAPPING: command for the function check, which runs Ferret with a mapping on all hosts and fails if Ferret fails.
ferret_runs() {
  timeout 100 "$CI_DIR/hosts/run.sh" -n 4 "$ferret" "${query[@]}" -o "$work/$1.tsv" --mapping "$1" >"$1.log" 2>&1 || { cat "$1.log"; return 1; }
}
for mapping in orderly auto; do
  check "Ferret runs with mapping $mapping" ferret_runs $mapping
  check "its ranks are on four hosts" equal "h1 h2 h3 h4 " "$(hosts_in $mapping.log)"
  check "its output has the bytes of one rank's" cmp one-rank.tsv $mapping.tsv
done

say "A loop on all four"
# All hosts begin with the same number of grid rows, although the slowest host has a quarter of the speed of the fastest.
sor_runs() {
  timeout 150 "$CI_DIR/hosts/run.sh" -n 4 "$sor" --size 1500 --sweeps 150 --verify --summary >sor.out 2>sor.log || { cat sor.log sor.out; return 1; }
}
check "the loop makes the grid of one rank" sor_runs
grep -A 6 '^loop sor' sor.log || true
# rows_of RANK COLUMN: prints word number COLUMN of the rank's row in the summary of the loop, where a time is two words. Word 9 is the number of
# grid rows that the rank had at first, and word 10 the number that it had at the end.
rows_of() { awk -v rank="$1" -v column="$2" '/^rank +units/ { table = 1; next } table && $1 == rank { print $column; exit }' sor.log; }
check "the slowest host began with a quarter of the rows" between 374 375 "$(rows_of 3 9)"
check "it ends with less than two thirds of them" between 1 250 "$(rows_of 3 10)"
check "the fast hosts have more" between 400 1400 "$(rows_of 0 10)"

say "A workflow on all four"
{
  echo 'bandwidth = "125 MB"'
  while read -r name speed memory; do
    printf '[[processor]]\nname = "%s"\nspeed = %s\nmemory = "%s MB"\n' "$name" "$speed" "$memory"
  done <<<"h1 1.0 60
h2 1.0 40
h3 0.5 30
h4 0.25 20"
  # The platform file lists the links with less than the default bandwidth, each with an entry for either direction.
  for pair in h1:h3:12500 h2:h3:12500 h1:h4:2500 h2:h4:2500 h3:h4:2500; do
    IFS=: read -r one other bandwidth <<<"$pair"
    printf '[[link]]\nfrom = "%s"\nto = "%s"\nbandwidth = "%s kB"\n' "$one" "$other" "$bandwidth" "$other" "$one" "$bandwidth"
  done
} >four.toml
# Each task of the workflow allocates its memory, and checks that the values that it reads are those that other tasks have written.
workflow_runs() {
  timeout 150 "$CI_DIR/hosts/run.sh" -n 4 "$workflow" --generate blast:60 --synthetic-work --time-scale 0.0002 --memory-scale 0.08 \
    --size-scale 0.03 --platform "$work/four.toml" --summary >workflow.out 2>workflow.log || { cat workflow.log workflow.out; return 1; }
}
check "a workflow runs" workflow_runs
grep -A 6 '^workflow ' workflow.log || true
check "all tasks are done" grep -q '^60 tasks are done' workflow.out
check "as they were planned" grep -q 'planned by ' workflow.log
# of_rank RANK COLUMN: prints word number COLUMN of the rank's row in the summary of the workflow, where times and sizes are two words.
of_rank() { awk -v rank="$1" -v column="$2" '/^rank +tasks/ { table = 1; next } table && $1 == rank { print $column; exit }' workflow.log; }
check "the fast hosts run most of them" between 36 59 "$(($(of_rank 0 2) + $(of_rank 1 2)))"
check "the slowest runs fewest" between 1 14 "$(of_rank 3 2)"
check "it holds no more than it may" between 0 20 "$(of_rank 3 9)"

say "A workflow's files on all four, which share no directory"
mkdir one h1 h2 h3 h4
{
  printf '[[task]]\nid = "split"\ncommand = "split -n l/8 --numeric-suffixes words part-"\ninputs = ["words"]\noutputs = ['
  printf '"part-%02d", ' 0 1 2 3 4 5 6 7
  printf ']\n'
  for n in 0 1 2 3 4 5 6 7; do
    printf '[[task]]\nid = "sort-%s"\ncommand = "sh sorted part-0%s"\nrun_time = 1\ninputs = ["sorted", "part-0%s"]\noutputs = ["part-0%s.sorted"]\n' $n $n $n $n
  done
  printf '[[task]]\nid = "join"\ncommand = "LC_ALL=C sort -m part-*.sorted > all"\noutputs = ["all"]\ninputs = ['
  printf '"part-%02d.sorted", ' 0 1 2 3 4 5 6 7
  printf ']\n'
} >one/words.toml
# shellcheck disable=SC2016  # for the tasks' shell
printf 'LC_ALL=C sort "$1" >"$1.sorted"\n' >one/sorted
awk 'BEGIN { for (n = 0; n < 60000; n++) print (n * 7919) % 60013, "a word" }' >one/words
cp one/* h1
(cd one && "$workflow" words.toml >../one.out 2>../one.log) || { cat one.log; die "the workflow failed on one rank"; }
# Each rank runs in the directory with the name of its host. Only the directory of h1 contains the workflow and its files.
# shellcheck disable=SC2016  # for the shell of each rank
files_run() {
  timeout 150 "$CI_DIR/hosts/run.sh" -n 4 sh -c 'cd "$(hostname)" && exec "$@"' - "$workflow" words.toml --send-files \
    --summary >files.out 2>files.log || { cat files.log files.out; return 1; }
}
check "a workflow runs on hosts with a directory each" files_run
check "its results are those of one rank" cmp one/all h1/all
check "other hosts ran tasks" grep -q '"rank":[123]' h1/words.toml.outputs/rank-0.jsonl
check "nothing is left on the other hosts" equal "" "$(find h2 h3 h4 -mindepth 1)"

"$CI_DIR/hosts/down.sh"
nothing_left() {
  local path left=""
  for path in /run/netns/"$HOSTS_PREFIX"* /sys/fs/cgroup/cpu/"$HOSTS_PREFIX"* /sys/fs/cgroup/"$HOSTS_PREFIX"*; do
    if [ -e "$path" ]; then left+="$path "; fi
  done
  [ -z "$left" ] || { echo "still there: $left"; return 1; }
}
check "nothing is left of the hosts" nothing_left
checks_done hosts
