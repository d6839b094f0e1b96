#!/usr/bin/env bash
# Ends the jobs and daemons of a cluster that ci/slurm/up.sh has started, by their recorded process numbers. Does nothing if there is no
# cluster.
#
#   ci/slurm/down.sh DIR [--clean]      --clean also removes DIR
set -uo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[ $# -ge 1 ] || die "usage: ci/slurm/down.sh DIR [--clean]"
[ -d "$1" ] || exit 0
run=$(cd "$1" && pwd)
export SLURM_CONF=$run/slurm.conf

# gone PID: succeeds if the process does not exist, or is a zombie that has not been reaped.
gone() {
  local state
  state=$(sed -e 's/^.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1)
  [ -z "$state" ] || [ "$state" = Z ]
}
# stop PIDFILE NAME: ends the process in the file if it is a process of this name.
stop() {
  local pid i
  pid=$(cat "$1" 2>/dev/null) || return 0
  if [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ]; then
    kill "$pid" 2>/dev/null
    for ((i = 0; i < 80; i++)); do
      gone "$pid" && break
      sleep 0.1
    done
    gone "$pid" || kill -9 "$pid" 2>/dev/null
  fi
  rm -f "$1"
}
# Jobs are cancelled first, because a slurmd that ends does not end the processes of its job steps.
if [ -s "$SLURM_CONF" ] && timeout 10 scontrol ping 2>/dev/null | grep -q UP; then
  timeout 10 scancel --user="$(id -un)" 2>/dev/null
  for ((i = 0; i < 60; i++)); do
    [ -z "$(timeout 10 squeue -h 2>/dev/null)" ] && break
    sleep 0.2
  done
fi
for file in "$run"/slurmd.*.pid; do
  if [ -e "$file" ]; then stop "$file" slurmd; fi
done
stop "$run/slurmctld.pid" slurmctld
stop "$run/munge/munged.pid" munged
rm -f "$run"/munge/munge.socket.2*
if [ "${2:-}" = --clean ]; then rm -rf "$run"; fi
say "Slurm is down"
