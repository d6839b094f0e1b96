# shellcheck shell=bash disable=SC2034
# Functions that all scripts in ci/ share. This file is sourced, not run. Sets ROOT (directory of the repository) and CI_DIR.

CI_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$CI_DIR")

# say TEXT...: prints a line about the next step of the script, with a mark that distinguishes it from the output of programs.
say() { printf '==> %s\n' "$*"; }

# die TEXT...: prints an error message and ends the script.
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# seconds: prints whole seconds since 1970.
seconds() { date +%s; }

# python_packages NAME REQUIREMENTS...: installs the packages of these requirements files into the Python environment target/NAME. The
# environment is created again when the requirements have changed.
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

# side_by_side LANES COMMAND...: runs each command in bash, at most LANES at a time. Prints the duration and the output of each command when
# it has ended. A failed command does not stop the others, and makes the function fail.
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
