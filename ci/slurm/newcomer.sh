#!/usr/bin/env bash
# Runs the commands of the guide "Your first job on a cluster" (docs/cluster.md) one by one on a running Slurm, as a new user would, and prints
# each command with its output.
#
#   ci/slurm/newcomer.sh DIR [BIN_DIR]
#
# DIR is created; the nodes must share it. With BIN_DIR, a directory with the programs armature and mandelbrot, nothing is compiled, and the job
# computes a small picture.
set -euo pipefail
# shellcheck source=ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[ $# -ge 1 ] || die "usage: ci/slurm/newcomer.sh DIR [BIN_DIR]"
built=${2:+$(realpath "$2")}
mkdir "$1"
cd "$1"
script=$PWD/.block.sh
began=$(seconds)
blocks=0
edits=(-e "s#https://example.org/armature#$ROOT armature#")
if [ -n "$built" ]; then
  edits+=(-e "s#^cargo build.*#mkdir -p target/release \\&\\& cp $built/armature $built/mandelbrot target/release/#")
  # The job is asked to stop after 45 s. With these iterations, two cores that do nothing else compute for more than a minute.
  edits+=(-e "s#--size 3000x2000 --iterations 200000#--size 900x600 --iterations 150000#")
fi
# Runs each block of shell commands of the guide, line by line.
while IFS= read -r -d '' block <&3; do
  blocks=$((blocks + 1))
  printf '%s' "$block" | sed "${edits[@]}" >"$script"
  while IFS= read -r line <&4; do
    printf '\n[%3s s] $ %s\n' "$(($(seconds) - began))" "$line"
    eval "$line" || echo "(exit code $?)"
  done 4<"$script"
done 3< <(awk '/^## / { guide = /^## Your first job/ } guide && /^```sh$/ { block = 1; next } block && /^```$/ { block = 0; printf "%c", 0; next } block' \
  "$ROOT/docs/cluster.md")
[ "$blocks" -gt 0 ] || die "docs/cluster.md has no commands"
printf '\n[%3s s] end\n' "$(($(seconds) - began))"
