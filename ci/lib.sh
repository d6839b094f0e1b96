# shellcheck shell=bash disable=SC2034
# What the scripts of ci/ share. Sourced, never run: sets ROOT (the repository) and CI_DIR.

CI_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$CI_DIR")

# say TEXT...: a line about what happens next, told apart from the output of the tools.
say() { printf '==> %s\n' "$*"; }

# die TEXT...: says what is wrong and ends the script.
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# seconds: whole seconds since the epoch.
seconds() { date +%s; }

# python_packages NAME REQUIREMENTS...: a Python environment target/NAME with these, made anew when what it is to have changes.
python_packages() {
  local environment=$ROOT/target/$1 wanted
  shift
  wanted=$(cat "$@")
  [ "$(cat "$environment/wanted" 2>/dev/null)" = "$wanted" ] && return
  say "installing into ${environment#"$ROOT/"}: ${wanted//$'\n'/ }"
  python3 -m venv --clear "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check "${@/#/--requirement=}"
  printf '%s\n' "$wanted" >"$environment/wanted"
}

# side_by_side LANES COMMAND...: runs each command, a line for bash, LANES at a time. Prints the output of a command once it has ended, with
# its seconds. All of them run, and it fails if one of them fails.
side_by_side() {
  local lanes=$1 lock code=0
  shift
  lock=$(mktemp)
  # shellcheck disable=SC2016  # for the shell of each command
  printf '%s\0' "$@" | xargs -0 -P "$lanes" -I {} bash -c '
    began=$(date +%s) code=0 log=$(mktemp)
    bash -c "$1" >"$log" 2>&1 </dev/null || code=$?
    exec 9<"$2"
    flock 9
    printf "==> %s s, exit code %s: %s\n" "$(($(date +%s) - began))" "$code" "$1"
    cat "$log"
    rm -f "$log"
    [ "$code" = 0 ]' side_by_side {} "$lock" || code=$?
  rm -f "$lock"
  return "$code"
}
