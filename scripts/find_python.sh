#!/usr/bin/env bash
# Prints the first interpreter that the package can run on; says what to install when there is none.
set -euo pipefail

for name in python3 python3.11 python3.12 python3.13; do
    if "$name" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
        >/dev/null 2>&1; then
        command -v "$name"
        exit 0
    fi
done

echo "ebrl needs Python 3.11, 3.12 or 3.13 with its venv module (Debian, Ubuntu: apt-get install" \
    "python3-venv); name another with make PYTHON=..." >&2
echo "no-python-3.11-to-3.13"
