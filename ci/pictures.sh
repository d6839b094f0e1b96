# shellcheck shell=bash disable=SC2034
# Real pictures to search in: the icons of Debian's tango-icon-theme. Sourced after lib.sh.

TANGO=${TANGO:-/usr/share/icons/Tango}

# tango_pictures DATABASE_DIR QUERY_DIR [N]: makes both directories anew. The database has the icons at 32x32 pixels, the
# queries the same icons at 22x22, of the same names. Links are left out, being the same picture again. At most N of each.
tango_pictures() {
  local database=$1 queries=$2 most=${3:-100000} large small name count=0
  [ -d "$TANGO/32x32" ] || die "there are no icons in $TANGO; run ci/setup.sh demo"
  rm -rf "$database" "$queries"
  mkdir -p "$database" "$queries"
  while read -r large; do
    small=$TANGO/22x22/${large#"$TANGO/32x32/"}
    if [ ! -f "$small" ] || [ -L "$small" ]; then continue; fi
    name=${large#"$TANGO/32x32/"}
    name=${name//\//-}
    cp "$large" "$database/$name"
    cp "$small" "$queries/$name"
    count=$((count + 1))
    [ "$count" -lt "$most" ] || break
  done < <(find "$TANGO/32x32" -name '*.png' -type f | LC_ALL=C sort)
  [ "$count" -gt 0 ] || die "$TANGO has no icon in both sizes"
}
