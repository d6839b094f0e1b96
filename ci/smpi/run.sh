#!/usr/bin/env bash
# Runs a program that was built for SMPI on N simulated hosts, in one process and repeatably:
#
#   ci/mpi/with.sh smpi cargo build --release -p ferret
#   ci/smpi/run.sh 14 [--speeds "1Gf 2Gf ..."] [--platform F.xml --hosts F.hosts] [--cfg KEY:VALUE]... \
#     PROGRAM ARGS...
#
# PROGRAM is the file that cargo built, or just its name (looked for in the SMPI target directory, release first).
# --cfg is handed to smpirun (network models, say). Computing costs no simulated time unless the program declares
# it. Time limit: ARMATURE_SMPI_TIMEOUT seconds (default 600).
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
usage="usage: ci/smpi/run.sh N [--speeds \"1Gf 2Gf ...\"] [--platform F.xml --hosts F.hosts] [--cfg KEY:VALUE]... PROGRAM ARGS..."
[ $# -ge 2 ] || die "$usage"
n=$1; shift
speeds="1Gf 1Gf 2Gf 500Mf 1500Mf" platform="" hosts="" extra=()
while [ $# -gt 0 ]; do
  case $1 in
    --speeds) speeds=$2; shift 2 ;;
    --platform) platform=$2; shift 2 ;;
    --hosts) hosts=$2; shift 2 ;;
    --cfg) extra+=(--cfg="$2"); shift 2 ;;
    --*) die "unknown option $1; $usage" ;;
    *) break ;;
  esac
done
[ $# -ge 1 ] || die "$usage"
program=$1; shift
if [ ! -f "$program" ]; then
  # shellcheck source=ci/mpi/smpi.env
  target=$(. "$CI_DIR/mpi/smpi.env" && echo "$CARGO_TARGET_DIR/$CARGO_BUILD_TARGET")
  for profile in release debug; do
    if [ -f "$target/$profile/$program" ]; then program=$target/$profile/$program; break; fi
  done
fi
[ -f "$program" ] || die "no program '$program'; build it with: ci/mpi/with.sh smpi cargo build -p NAME"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$platform" ]; then
  # shellcheck disable=SC2086  # one word a speed
  "$CI_DIR/smpi/platform.sh" "$work/cluster" "$n" $speeds
  platform=$work/cluster.xml hosts=$work/cluster.hosts
fi
# Every rank loads a copy of its own: without the symbols it is a tenth of the size.
strip -o "$work/program.so" "$program"
# A program must be a file that is executable; what it says about itself is its file name.
chmod +x "$work/program.so"
# What the C library keeps free for thread-local variables of libraries that are loaded late is enough for eight copies.
GLIBC_TUNABLES=glibc.rtld.optional_static_tls=$((1024 * n + 4096)) timeout -k 10 "${ARMATURE_SMPI_TIMEOUT:-600}" \
  smpirun -np "$n" -platform "$platform" -hostfile "$hosts" --log=root.thresh:warning \
  --cfg=smpi/simulate-computation:no --cfg=smpi/grow-injected-times:no \
  --cfg=smpi/iprobe:1e-6 --cfg=smpi/test:1e-6 --cfg=smpi/tmpdir:"$work" "${extra[@]}" "$work/program.so" "$@"
