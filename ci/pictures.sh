# shellcheck shell=bash disable=SC2034
# Functions that provide real pictures. The icons of Debian's tango-icon-theme and the flags of iso-flags-png-320x240 are a database to
# search. The drawings of openclipart-png come from many programs and test the decoders. Sourced after lib.sh.

TANGO=${TANGO:-/usr/share/icons/Tango}
FLAGS=${FLAGS:-/usr/share/iso-flags-png-320x240}
CLIPART=${CLIPART:-/usr/share/openclipart/png}

# tango_pictures DATABASE_DIR QUERY_DIR [N]: creates both directories again, with at most N pictures each. The database has the icons in
# 32x32 pixels, and the queries are the same icons in 22x22 pixels under the same names. Links are left out, because they are duplicates.
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

# flags_and_icons DIR: creates the directory again, with the flags of the world and the Tango icons in 32x32 pixels.
flags_and_icons() {
  local pictures=$1
  [ -d "$FLAGS" ] || die "there are no flags in $FLAGS; run ci/setup.sh demo"
  rm -rf "$pictures"
  tango_pictures "$pictures/icons" "$pictures/smaller"
  rm -r "$pictures/smaller"
  mkdir "$pictures/flags"
  cp "$FLAGS"/*.png "$pictures/flags/"
}

# clipart_sample DIR N SEED: creates the directory again, with N pictures of openclipart-png. Equal seeds give equal pictures.
clipart_sample() {
  local sample=$1 count=$2 seed=$3 picture name
  [ -d "$CLIPART" ] || die "there are no pictures in $CLIPART; run ci/setup.sh test"
  rm -rf "$sample"
  mkdir -p "$sample"
  # The pictures are sorted by pseudorandom numbers of the generator of Park and Miller, which all versions of awk compute alike.
  while IFS=$'\t' read -r _ picture; do
    name=${picture#"$CLIPART/"}
    cp "$picture" "$sample/${name//\//-}"
  done < <(find "$CLIPART" -name '*.png' -type f | LC_ALL=C sort |
    awk -v x="$seed" '{ x = x * 16807 % 2147483647; printf "%.0f\t%s\n", x, $0 }' | sort -n | head -n "$count")
}

# clipart_is_read FERRET DIR N SEED: succeeds if the program reads a sample of N pictures, except for pictures above its size limit. DIR is
# the working directory.
clipart_is_read() {
  local ferret=$1 work=$2 count=$3 seed=$4 read large
  clipart_sample "$work/sample" "$count" "$seed"
  (cd "$work" && "$ferret" index sample -o sample.db) >"$work/messages" 2>&1 || { cat "$work/messages"; return 1; }
  read=$(awk '/ images with [0-9]+ regions in / { print $1 }' "$work/messages")
  large=$(grep -c '^skipped .* pixels is too large: at most ' "$work/messages" || true)
  [ "$((read + large))" -eq "$count" ] || {
    cat "$work/messages"
    echo "seed $seed: $read of $count pictures are read, $large are too large"
    return 1
  }
  echo "seed $seed: $read of $count pictures are read, all but $large that are too large"
}
