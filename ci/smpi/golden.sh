# shellcheck shell=bash
# Compares event logs of simulated runs with kept ones. Sourced after lib.sh and checks.sh; tests/golden/README.md.

# rounded DIR: the event logs of the first start of a job in a directory, one rank after the other, their times and figures to three digits: what is decided
# counts, and not that a header has become a byte longer.
rounded() {
  local log
  for log in "$1"/attempts/1/rank-*.jsonl; do
    LC_ALL=C awk -v number='-?[0-9]+(\\.[0-9]+)?(e-?[0-9]+)?' '{
      line = ""
      while (match($0, "[:,[]" number "[],}]")) {
        value = substr($0, RSTART + 1, RLENGTH - 2)
        # Whole numbers count something, and are exact.
        if (value ~ /[.e]/) value = (value + 0 < 1e-9 && value + 0 > -1e-9) ? "0" : sprintf("%.3g", value + 0)
        line = line substr($0, 1, RSTART) value
        $0 = substr($0, RSTART + RLENGTH - 1)
      }
      print line $0
    }' "$log"
  done
}

# as_kept NAME DIR: for check; whether the event logs of a directory are those of tests/golden/events/NAME.jsonl. With
# ARMATURE_GOLDEN=write they are, from now on.
as_kept() {
  local kept=$ROOT/tests/golden/events/$1.jsonl
  rounded "$2" >"$2/rounded"
  [ -s "$2/rounded" ] || { echo "there are no events in $2"; return 1; }
  if [ "${ARMATURE_GOLDEN:-}" = write ]; then cp "$2/rounded" "$kept"; fi
  diff -u "$kept" "$2/rounded" | cut -c 1-400 | head -n 40
  cmp -s "$kept" "$2/rounded" || { echo "If that is meant to be: ARMATURE_GOLDEN=write ci/test.sh smpi, and look at the change. The pages that are kept in report/ are made of these events."; return 1; }
}
