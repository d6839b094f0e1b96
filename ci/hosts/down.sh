#!/usr/bin/env bash
# Removes the emulated hosts of ci/hosts/up.sh: ends their processes by process number, and removes their namespaces and control groups.
# Does nothing if there are no hosts.
#
#   ci/hosts/down.sh           uses HOSTS_DIR and HOSTS_PREFIX like up.sh
set -uo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
dir=${HOSTS_DIR:-$ROOT/target/hosts} prefix=${HOSTS_PREFIX:-arm-}
export PATH=$PATH:/usr/sbin:/sbin
[[ $prefix =~ ^[a-z]+[a-z0-9]*-$ ]] || die "HOSTS_PREFIX: expected letters, digits and a dash at the end, got '$prefix'"
command -v ip >/dev/null || exit 0

# spaces, cgroups: print the network namespaces and the control groups whose names begin with HOSTS_PREFIX, including those of other
# runs.
spaces() { local path; for path in /run/netns/"$prefix"*; do if [ -e "$path" ]; then echo "${path##*/}"; fi; done; }
cgroups() { local path; for path in /sys/fs/cgroup/cpu/"$prefix"* /sys/fs/cgroup/"$prefix"*; do if [ -d "$path" ]; then echo "$path"; fi; done; }
# processes: prints the processes on the hosts, without this process, which may have been started on a host.
processes() {
  local name
  {
    for name in $(spaces); do ip netns pids "$name"; done
    for name in $(cgroups); do cat "$name/cgroup.procs"; done
  } 2>/dev/null | sort -un | grep -vx $$
}
for signal in TERM KILL; do
  for pid in $(processes); do kill -$signal "$pid" 2>/dev/null; done
  for ((i = 0; i < 40; i++)); do
    [ -n "$(processes)" ] || break
    sleep 0.05
  done
done
for name in $(spaces); do ip netns del "$name"; done
for group in $(cgroups); do
  # For a moment after the end of a process, the kernel still counts it in its control group, and refuses to remove the group.
  for ((i = 0; i < 40; i++)); do
    if rmdir "$group" 2>/dev/null; then break; fi
    sleep 0.05
  done
done
rm -f "$dir"/{env,etc-hosts,hostfile}
rmdir "$dir" 2>/dev/null
left="$(spaces) $(cgroups)"
[ "$left" = " " ] || die "still there: $left"
say "hosts are down"
