# shellcheck shell=bash
# Compares event logs of simulated runs with stored ones (tests/golden/README.md). Sourced after lib.sh and checks.sh.

# rounded DIR: prints the event logs of the first attempt of a job, one rank after another. Times and other fractional numbers are rounded
# to three digits, so that decisions are compared, and small changes such as the length of a message header have no effect.
rounded() {
  local log
  for log in "$1"/attempts/1/rank-*.jsonl; do
    LC_ALL=C awk -v number='-?[0-9]+(\\.[0-9]+)?(e-?[0-9]+)?' '{
      line = ""
      while (match($0, "[:,[]" number "[],}]")) {
        value = substr($0, RSTART + 1, RLENGTH - 2)
        # Integers are counts, and are compared exactly.
        if (value ~ /[.e]/) value = (value + 0 < 1e-9 && value + 0 > -1e-9) ? "0" : sprintf("%.3g", value + 0)
        line = line substr($0, 1, RSTART) value
        $0 = substr($0, RSTART + RLENGTH - 1)
      }
      print line $0
    }' "$log"
  done
}

# as_kept NAME DIR: command for the function check, which compares the event logs in DIR with tests/golden/events/NAME.jsonl.
# With ARMATURE_GOLDEN=write, the stored log is replaced first.
as_kept() {
  local kept=$ROOT/tests/golden/events/$1.jsonl
  rounded "$2" >"$2/rounded"
  [ -s "$2/rounded" ] || { echo "there are no events in $2"; return 1; }
  if [ "${ARMATURE_GOLDEN:-}" = write ]; then cp "$2/rounded" "$kept"; fi
  diff -u "$kept" "$2/rounded" | cut -c 1-400 | head -n 40
  cmp -s "$kept" "$2/rounded" || { echo "If that is meant to be: ARMATURE_GOLDEN=write ci/test.sh smpi, and look at the change. The pages that are kept in report/ are made of these events."; return 1; }
}
