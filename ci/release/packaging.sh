#!/usr/bin/env bash
# Checks the Spack recipe with flake8, as Spack does, and the Containerfile with hadolint. ci/release/container.sh builds the image.
set -euo pipefail
# shellcheck source=ci/release/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
python_packages lint ci/release/lint-requirements.txt
# A recipe imports all names of Spack at once.
"$ROOT/target/lint/bin/flake8" --max-line-length=99 --extend-ignore=F403,F405 packaging/spack
"$ROOT/target/lint/bin/hadolint" packaging/Containerfile
say "the Spack recipe and the Containerfile have no findings"
