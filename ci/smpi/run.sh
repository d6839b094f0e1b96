#!/usr/bin/env bash
# Runs a program that was built for SMPI on N simulated hosts, in one process and with reproducible results:
#
#   ci/mpi/with.sh smpi cargo build --release -p ferret
#   ci/smpi/run.sh 14 [--speeds "1Gf 2Gf ..."] [--platform F.xml --hosts F.hosts] [--cfg KEY:VALUE]... \
#     PROGRAM ARGS...
#
# PROGRAM is the path of the program, or its name in the SMPI target directory (release before debug). --cfg is passed to smpirun, for
# example to change the network model. Computing takes no simulated time; a program declares its work instead. The time limit is
# ARMATURE_SMPI_TIMEOUT seconds (default 600).
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
# Each rank loads its own copy of the program, which is ten times smaller without symbols.
strip -o "$work/program.so" "$program"
# smpirun starts only a file that is executable, and shows the name of the file as that of the program in its messages.
chmod +x "$work/program.so"
# By default, the C library reserves thread-local memory for eight copies of a program only; each rank has a copy.
GLIBC_TUNABLES=glibc.rtld.optional_static_tls=$((1024 * n + 4096)) timeout -k 10 "${ARMATURE_SMPI_TIMEOUT:-600}" \
  smpirun -np "$n" -platform "$platform" -hostfile "$hosts" --log=root.thresh:warning \
  --cfg=smpi/simulate-computation:no --cfg=smpi/grow-injected-times:no \
  --cfg=smpi/iprobe:1e-6 --cfg=smpi/test:1e-6 --cfg=smpi/tmpdir:"$work" "${extra[@]}" "$work/program.so" "$@"
