#!/usr/bin/env bash
# Builds the image of packaging/Containerfile with buildah and runs it, without a registry of images: the base image is the Debian system in
# target/debian. Needs root, the packages buildah and debootstrap, and 10 GB in target/buildah. Took five minutes when the Debian system was there.
set -euo pipefail
# shellcheck source=ci/release/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
command -v buildah >/dev/null || die "buildah is missing; run: apt-get install --no-install-recommends buildah"
debian_system
export BUILDAH_ISOLATION=chroot
storage=(--root "$ROOT/target/buildah" --runroot "$ROOT/target/buildah-run")
base=localhost/debian:bookworm-slim
container=$(buildah "${storage[@]}" from scratch)
buildah "${storage[@]}" add --quiet "$container" "$DEBIAN_SYSTEM" /
# The certificates of this machine, for networks that have an authority of their own.
buildah "${storage[@]}" copy --quiet "$container" /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates/host.crt
buildah "${storage[@]}" commit --quiet --rm "$container" "$base"
buildah "${storage[@]}" build --pull-never --network=host --build-arg="DEBIAN=$base" --file=packaging/Containerfile \
  --tag=localhost/armature .
container=$(buildah "${storage[@]}" from --pull-never localhost/armature)
trap 'buildah "${storage[@]}" rm "$container" >/dev/null' EXIT
buildah "${storage[@]}" run "$container" armature --version
buildah "${storage[@]}" run "$container" armature run -n 2 armature-probe
say "the image localhost/armature starts ranks"
