#!/usr/bin/env bash
# Takes a screenshot of the top of a report page, for the README:
#
#   ci/demo.sh && ci/page-picture.sh target/demo/live.html docs/report.png 745
#
# The script needs Chromium (installed by ci/setup.sh test), but no network. A screenshot of 200 kB or more is an error.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
usage="usage: ci/page-picture.sh PAGE.html PICTURE.png [HEIGHT]"
page=$(realpath "${1:?$usage}") picture=${2:?$usage} height=${3:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --user-data-dir="$work/profile" \
  --window-size="1100,$height" --screenshot="$work/picture.png" "file://$page" >"$work/log" 2>&1 ||
  { cat "$work/log"; die "Chromium took no picture of $page"; }
[ -s "$work/picture.png" ] || { cat "$work/log"; die "Chromium took no picture of $page"; }
bytes=$(stat -c %s "$work/picture.png")
[ "$bytes" -lt 200000 ] || die "the picture has $bytes bytes, expected less than 200000: ask for less height than $height"
mv "$work/picture.png" "$picture"
echo "$picture: $bytes bytes"
