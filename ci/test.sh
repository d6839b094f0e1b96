#!/usr/bin/env bash
# Runs the tests: installs missing packages, then checks format, lints, documentation, unit tests, and whole programs on threads and on Open
# MPI.
#
#   ci/test.sh                 takes about 12 minutes on two cores, and at most twice as long when it compiles everything
#   ci/test.sh --all           also tests the report page in a browser, MPICH, other launchers, simulated clusters, a real Slurm, unequal hosts, experiments and the demonstration
#   ci/test.sh --quick         runs fewer parts, for work in progress
#   ci/test.sh PART...         runs only these parts
#   ci/test.sh --list          lists the parts and their expected seconds
#
# If a part fails, the other parts still run. Logs are in target/ci/. The output ends with the names of the failed tests and the counts of all tests.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=ci/parts.sh
. "$CI_DIR/parts.sh"
cd "$ROOT"

# field PART NUMBER: prints the field with this number from the part's line in the table PARTS.
field() {
  local entry
  for entry in "${PARTS[@]}"; do
    if [ "$(cut -d'|' -f1 <<<"$entry" | xargs)" = "$1" ]; then cut -d'|' -f"$2" <<<"$entry" | xargs; return; fi
  done
  die "there is no part '$1'; ci/test.sh --list names them"
}
# names [SET]: prints the names of all parts, or of the parts of a set (`test` or `all`).
names() {
  local entry
  for entry in "${PARTS[@]}"; do
    if [ -z "${1:-}" ] || [ "$(cut -d'|' -f2 <<<"$entry" | xargs)" = "$1" ]; then cut -d'|' -f1 <<<"$entry" | xargs; fi
  done
}

case ${1:-} in
  --list)
    for name in $(names); do printf '%-10s %-4s %4s s  %s\n' "$name" "$(field "$name" 2)" "$(field "$name" 3)" "$(field "$name" 5)"; done
    exit ;;
  --run-part) # from below, in a process of its own
    "part_$2"
    exit ;;
  --quick) chosen=("${QUICK[@]}") ;;
  --all) mapfile -t chosen < <(names) ;;
  "") mapfile -t chosen < <(names test) ;;
  -*) die "usage: ci/test.sh [--all | --quick | --list | PART...]" ;;
  *) chosen=("$@"); for name in "${chosen[@]}"; do field "$name" 1 >/dev/null; done ;;
esac

logs=$ROOT/target/ci
mkdir -p "$logs"
# All processes of a part inherit this variable, by which processes that the part leaves behind are found.
ARMATURE_CI_RUN=run-$$-$(seconds)
export ARMATURE_CI_RUN
child="" viewer="" table="" verdict=0

# ours: prints the numbers of the processes with the variable ARMATURE_CI_RUN of this run, without zombies and this process. The process that
# shows the log does not have the variable.
ours() {
  local files file pid
  mapfile -t files < <(grep -sl "ARMATURE_CI_RUN=$ARMATURE_CI_RUN" /proc/[0-9]*/environ)
  for file in "${files[@]}"; do
    pid=${file#/proc/}
    pid=${pid%/environ}
    if [ "$pid" != $$ ] && grep -qs '^State:.[^Z]' "/proc/$pid/status"; then echo "$pid"; fi
  done
}
# left_behind: ends the processes that a part has left behind. Succeeds if there were any.
left_behind() {
  local pids pid i
  for ((i = 0; i < 25; i++)); do
    pids=$(ours)
    [ -n "$pids" ] || return 1
    sleep 0.2
  done
  for pid in $pids; do
    printf 'left behind: %s\n' "$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")"
    kill -9 "$pid" 2>/dev/null || true
  done
}
interrupted() {
  [ -z "$child" ] || kill "$child" 2>/dev/null || true
  [ -z "$child" ] || wait "$child" 2>/dev/null || true
  [ -z "$viewer" ] || kill "$viewer" 2>/dev/null || true
  left_behind || true
  exit 130
}
trap interrupted INT TERM HUP

# count LOG...: adds up the last lines of cargo test and of the scripts. Prints the numbers of passed, failed and skipped tests.
count() {
  awk '
    /^test result: / { for (i = 1; i < NF; i++) {
      if ($(i + 1) == "passed;") passed += $i
      if ($(i + 1) == "failed;") failed += $i
      if ($(i + 1) == "ignored;") skipped += $i } }
    /^[a-z-]+: [0-9]+ passed, [0-9]+ failed$/ { passed += $2; failed += $4 }
    END { print passed + 0, failed + 0, skipped + 0 }' "$@"
}

start=$(seconds)
run_logs=()
for name in "${chosen[@]}"; do
  listed=$(field "$name" 3) limit=$(field "$name" 4) log=$logs/$name.log
  say "$name: $(field "$name" 5) (listed with $listed s, at most $limit s)"
  began=$(seconds)
  # The output of a part goes to a file, which another process shows, and not to a pipe: a process that the part leaves behind would keep the
  # pipe open.
  : >"$log"
  run_logs+=("$log")
  timeout --kill-after=30 "$limit" bash "$CI_DIR/test.sh" --run-part "$name" >"$log" 2>&1 </dev/null &
  child=$!
  env -u ARMATURE_CI_RUN tail -n +1 -s 0.2 -f --pid=$child "$log" &
  viewer=$!
  code=0
  wait $child || code=$?
  child=""
  wait $viewer || true
  viewer=""
  result=ok
  if [ $code = 124 ]; then result="ended after its limit of $limit s"; elif [ $code != 0 ]; then result="FAILED"; fi
  if left_behind; then result="FAILED: left processes behind"; fi
  [ "$result" = ok ] || { verdict=1; result+="; its log is $log"; }
  table+=$(printf '%-10s %6s s %6s s  %s' "$name" $(($(seconds) - began)) "$listed" "$result")$'\n'
done

printf '\n%-10s %8s %8s\n%s' part time listed "$table"
printf '%-10s %6s s\n' all $(($(seconds) - start))
read -r passed failed skipped < <(count "${run_logs[@]}")
# Failed tests and checks. The output of a check follows it, indented; its last lines usually have the cause.
awk '
  function show() { for (i = n > 8 ? n - 7 : 1; i <= n; i++) print substr(line[i], 1, 200); n = 0 }
  /^(check|test) .* \.\.\. FAILED/ { show(); print substr($0, 1, 200); failed = 1; next }
  failed && /^    / { line[++n] = $0; next }
  { show(); failed = 0 }
  END { show() }' "${run_logs[@]}"
[ $verdict = 0 ] || echo "error: not every part is ok" >&2
if [ "$skipped" -gt 0 ]; then echo "$passed passed, $failed failed, $skipped skipped"; else echo "$passed passed, $failed failed"; fi
[ $verdict = 0 ] && [ "$failed" = 0 ]
