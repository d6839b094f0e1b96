#!/usr/bin/env bash
# Writes a cluster for SimGrid: N hosts around one switch, each with a link of 1 Gbit/s and a latency of 25 µs.
#
#   ci/smpi/platform.sh PREFIX N SPEED...      writes PREFIX.xml and PREFIX.hosts
#
# Speeds are in flop/s in the syntax of SimGrid (1e9f, 1Gf). The first speed is that of rank 0, and the others are assigned to the other
# ranks in turn.
set -euo pipefail
[ $# -ge 3 ] || { echo "usage: ci/smpi/platform.sh PREFIX N SPEED..." >&2; exit 2; }
prefix=$1 n=$2; shift 2
[[ $n =~ ^[1-9][0-9]*$ ]] || { echo "error: N must be a number of hosts, 1 or more, not '$n'" >&2; exit 2; }
speeds=("$@")
{
  echo '<?xml version="1.0"?>'
  echo '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
  echo '<platform version="4.1">'
  echo '<zone id="cluster" routing="Cluster">'
  for ((i = 0; i < n; i++)); do
    k=0
    if [ $i -gt 0 ] && [ ${#speeds[@]} -gt 1 ]; then k=$((1 + (i - 1) % (${#speeds[@]} - 1))); fi
    echo "  <host id=\"h$i\" speed=\"${speeds[k]}\"/>"
    echo "  <link id=\"l$i\" bandwidth=\"125MBps\" latency=\"25us\" sharing_policy=\"SPLITDUPLEX\"/>"
    echo "  <host_link id=\"h$i\" up=\"l${i}_UP\" down=\"l${i}_DOWN\"/>"
  done
  echo '</zone>'
  echo '</platform>'
} >"$prefix.xml"
for ((i = 0; i < n; i++)); do echo "h$i"; done >"$prefix.hosts"
