#!/usr/bin/env bash
# Checks that deny.toml permits the licence of every dependency, for every platform and use, and that docs/dependencies.md states a reason
# for every dependency of the workspace.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

# allowed: prints the licences that deny.toml lists under [licenses] allow, one per line.
allowed() {
  awk '/^\[/ { inside = ($0 == "[licenses]") }
       inside && /^allow *= *\[/ { list = 1; next }
       list && /^\]/ { list = 0 }
       list && match($0, /"[^"]+"/) { print substr($0, RSTART + 1, RLENGTH - 2) }' deny.toml
}
# judge: reads lines `crate|licence expression`, and prints those whose expression the licences in
# the file $1 (the permitted ones) do not satisfy.
judge() {
  awk -v names="$1" '
    # Licence expression as in Cargo.toml: AND, OR (also written /), WITH and parentheses. OR has the lowest precedence.
    function either(  good) { good = both(); while (word[at] == "OR") { at++; good = both() || good } return good }
    function both(  good) { good = one(); while (word[at] == "AND") { at++; good = one() && good } return good }
    function one(  good, name) {
      if (word[at] == "(") { at++; good = either(); if (word[at] != ")") broken = 1; at++; return good }
      name = word[at++]
      if (word[at] == "WITH") { name = name " WITH " word[at + 1]; at += 2 }
      return name in allow
    }
    BEGIN { FS = "|"; while ((getline name < names) > 0) allow[name] = 1 }
    {
      text = $2; gsub(/[()]/, " & ", text); gsub("/", " OR ", text)
      split("", word); last = split(text, word, " "); at = 1; broken = 0
      good = last > 0 && either()
      if (!good || broken || at != last + 1) printf "%s: %s\n", $1, ($2 == "" ? "no licence" : $2)
    }'
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
allowed >"$work/allowed"
[ -s "$work/allowed" ] || die "deny.toml: expected names under [licenses] allow = [...]"

# The function `judge` is tested first, with permitted licences and others.
printf '%s\n' 'a|GPL-3.0' 'b|' 'c|MIT AND GPL-3.0' 'd|(MIT OR GPL-3.0' 'e|Apache-2.0 WITH Nonsense' >"$work/wrong"
printf '%s\n' 'a|MIT' 'b|GPL-3.0/MIT' 'c|(GPL-3.0 OR MIT) AND ISC' 'd|X WITH Y OR MIT' >"$work/right"
[ "$(judge "$work/allowed" <"$work/wrong" | wc -l)" = 5 ] || die "the check lets a wrong licence pass"
[ -z "$(judge "$work/allowed" <"$work/right")" ] || die "the check refuses a right licence"

cargo tree --locked --workspace --edges normal,build,dev --target all --prefix none --format '{p}|{l}' |
  sed 's/ (\*)$//' | grep -v '^$' | sort -u >"$work/crates"
judge "$work/allowed" <"$work/crates" >"$work/refused"
if [ -s "$work/refused" ]; then
  cat "$work/refused"
  die "these licences are not among those that deny.toml allows"
fi

# docs/dependencies.md must have a line for every dependency of the workspace.
awk '/^\[/ { inside = ($0 == "[workspace.dependencies]") } inside && /=/ && !/path = / { print $1 }' Cargo.toml >"$work/named"
[ -s "$work/named" ] || die "Cargo.toml: expected names under [workspace.dependencies]"
while read -r name; do
  grep -q "^| \`$name\` |" docs/dependencies.md || die "docs/dependencies.md has no line for the dependency $name"
done <"$work/named"

echo "$(wc -l <"$work/crates") crates have a licence that deny.toml allows, and every dependency its reason"
