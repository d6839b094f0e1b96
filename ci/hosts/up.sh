#!/usr/bin/env bash
# Emulates unequal hosts on this machine. Each host has its own network namespace, IP address, host name, /dev/shm, link rate and share of a
# core. Needs root. Hosts of an earlier run with the same prefix are removed first.
#
#   ci/hosts/up.sh             start ranks with ci/hosts/run.sh -n 4 PROGRAM, and remove the hosts with ci/hosts/down.sh
#
#   HOSTS         one word for each host: NAME:PERCENT:RATE, with PERCENT of one core and RATE of its link in the syntax of tc
#                 (default "h1:50:1gbit h2:50:1gbit h3:25:100mbit h4:12:20mbit")
#   HOSTS_PREFIX  prefix of the names of namespaces and control groups       (default arm-)
#   HOSTS_NET     first three bytes of the IP addresses                      (default 10.77.0)
#   HOSTS_DIR     directory of the state                                     (default target/hosts)
#
# Exits with code 3 and an error message if the machine does not permit emulated hosts.
#
# The links of all hosts end in a bridge in a separate namespace. The network of the machine gets no device, route or rule.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
dir=${HOSTS_DIR:-$ROOT/target/hosts} prefix=${HOSTS_PREFIX:-arm-} net=${HOSTS_NET:-10.77.0}
read -ra hosts <<<"${HOSTS:-h1:50:1gbit h2:50:1gbit h3:25:100mbit h4:12:20mbit}"
export PATH=$PATH:/usr/sbin:/sbin
for host in "${hosts[@]}"; do
  [[ $host =~ ^[a-z][a-z0-9]*:[0-9]+:[0-9]+[kmg]?bit$ ]] || die "HOSTS: expected NAME:PERCENT:RATE as in h3:25:100mbit, got '$host'"
done

# --- requirements
cannot() { printf 'cannot play several hosts: %s\n' "$*" >&2; exit 3; }
[ "$(id -u)" -eq 0 ] || cannot "it needs root, for namespaces, link rates and control groups"
for tool in ip tc nsenter unshare; do command -v $tool >/dev/null || die "$tool is missing; run ci/setup.sh test"; done
unshare --net --uts --mount true 2>/dev/null ||
  cannot "this machine does not let root make namespaces (a container without CAP_SYS_ADMIN?)"
if [ -e /sys/fs/cgroup/cpu/cgroup.procs ]; then
  groups=/sys/fs/cgroup/cpu version=1
elif grep -qsw cpu /sys/fs/cgroup/cgroup.controllers; then
  groups=/sys/fs/cgroup version=2
else
  cannot "there is no control group for CPU time in /sys/fs/cgroup, so the hosts would be equal"
fi

HOSTS_DIR=$dir HOSTS_PREFIX=$prefix "$CI_DIR/hosts/down.sh" >/dev/null
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
undo() { HOSTS_DIR=$dir HOSTS_PREFIX=$prefix "$CI_DIR/hosts/down.sh" >/dev/null || true; }
trap undo EXIT

# State of the emulated hosts, which the other scripts in this directory read.
{
  printf 'prefix=%q\ngroups=%q\n' "$prefix" "$groups"
  printf 'names=('; for host in "${hosts[@]}"; do printf '%q ' "${host%%:*}"; done; echo ')'
} >"$dir/env"
echo "127.0.0.1 localhost" >"$dir/etc-hosts"
: >"$dir/hostfile"
number=0
for host in "${hosts[@]}"; do
  number=$((number + 1))
  echo "$net.$number ${host%%:*}" >>"$dir/etc-hosts"
  echo "${host%%:*} slots=1" >>"$dir/hostfile"
done

# --- the switch
switch=${prefix}switch
ip netns add "$switch" || cannot "this machine does not let root name network namespaces"
ip -n "$switch" link add bridge0 type bridge || cannot "this kernel has no bridges between network namespaces"
ip -n "$switch" link set bridge0 up

# --- the hosts
# Period of the hosts' CPU quotas in microseconds. It is short, so that a quota also slows down work of a few milliseconds.
period=10000
if [ $version = 2 ]; then
  # The write fails in a container, where the visible root group contains processes. Such a group cannot have subgroups with CPU limits.
  echo +cpu 2>/dev/null >"$groups/cgroup.subtree_control" || cannot "the control groups in $groups may not be divided"
fi
number=0
for host in "${hosts[@]}"; do
  number=$((number + 1))
  IFS=: read -r name percent rate <<<"$host"
  space=$prefix$name
  ip netns add "$space"
  ip -n "$space" link set lo up
  ip -n "$space" link add eth0 type veth peer name "port$number" netns "$switch" ||
    cannot "this kernel has no links between network namespaces"
  ip -n "$switch" link set "port$number" master bridge0 up
  ip -n "$space" addr add "$net.$number/24" dev eth0
  ip -n "$space" link set eth0 up
  # The rate of the host's link is limited in both directions: at the device of the host, and at the port of the switch that sends to the host.
  tc -n "$space" qdisc add dev eth0 root tbf rate "$rate" burst 128kb latency 200ms ||
    cannot "this kernel has no token buckets, which give a link its rate"
  tc -n "$switch" qdisc add dev "port$number" root tbf rate "$rate" burst 128kb latency 200ms
  mkdir -p "$groups/$space" 2>/dev/null || cannot "control groups may not be made in $groups"
  quota=$((percent * period / 100))
  if [ $version = 1 ]; then
    echo $period >"$groups/$space/cpu.cfs_period_us"
    echo $quota >"$groups/$space/cpu.cfs_quota_us"
  else
    echo "$quota $period" >"$groups/$space/cpu.max"
  fi
done
trap - EXIT
say "hosts are up: ${hosts[*]}; enter one with ci/hosts/exec.sh h1 COMMAND, start ranks with ci/hosts/run.sh -n ${#hosts[@]} PROGRAM"
