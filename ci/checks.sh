# shellcheck shell=bash
# Functions for a shell script that makes checks and counts them. Sourced after lib.sh.

checks_passed=0
checks_failed=0

# check TEXT COMMAND...: runs the command. The check passes if the command succeeds; the output of the command is shown only if it fails.
check() {
  local text=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "check $text ... ok"
    checks_passed=$((checks_passed + 1))
  else
    echo "check $text ... FAILED: $*"
    [ -z "$output" ] || printf '%s\n' "$output" | sed 's/^/    /'
    checks_failed=$((checks_failed + 1))
  fi
}

# equal WANTED FOUND: command for the function check, which fails unless the texts WANTED and FOUND are equal.
equal() { [ "$1" = "$2" ] || { echo "wanted: $1"; echo "found:  $2"; return 1; }; }

# checks_done NAME: prints the numbers of passed and failed checks. Fails if a check has failed, or if there were no checks.
checks_done() {
  echo "$1: $checks_passed passed, $checks_failed failed"
  [ "$checks_failed" -eq 0 ] && [ "$checks_passed" -gt 0 ]
}
