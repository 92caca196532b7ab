#!/usr/bin/env bash
# Writes the locks anew from the .in files: exact versions with hashes, no registry's address.
# Run it to update dependencies, then tell planning what the new timm and torchgeo offer:
#     envs/run python -m permafrost.plan.installed > installed.json && mv installed.json workflow/permafrost/plan/
# Run the tests, commit the locks and that file.
set -euo pipefail
cd "$(dirname "$0")"
for input in *.in; do
    environment=${input%.in}
    # these are parts of others
    case $environment in requirements | workflow | development | backbone-stages) continue ;; esac
    uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-header \
        --no-annotate --no-emit-index-url "$environment.in" --output-file "$environment.lock" "$@"
done
