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
