#!/bin/sh
# The main job of dis from beginning to end, in a store that this script makes and removes.
# Usage: make demo (or: sh configs/demo.sh, with `dis` on PATH, in the root of the checkout)
set -eu

DIS_STORE=$(mktemp -d "${TMPDIR:-/tmp}/dis-demo.XXXXXX")
export DIS_STORE
trap 'chmod -R u+w "$DIS_STORE"; rm -rf "$DIS_STORE"' EXIT

say() { printf '\n# %s\n' "$1"; }
show() { printf '$ %s\n' "$*"; "$@"; }

say 'Realise the quickstart run: model, prompts and engine become one bundle'
show dis realize configs/quickstart.json --name run-a

say 'Ask again: nothing is left to do'
show dis realize configs/quickstart.json

say 'Build the generation again, and compare it bit for bit'
show dis realize configs/quickstart.json --rebuild

say 'Change one setting: shorter answers'
show dis realize configs/quickstart.json --set inference.request_template.sampling.max_tokens=12 --name run-b

say 'What the model said'
show dis show run-a

say 'What differs, where it begins, and why (exit code 1: the runs differ)'
printf '$ dis diff run-a run-b\n'
if dis diff run-a run-b; then
    echo 'the two runs should differ' >&2
    exit 1
else
    code=$?
    [ "$code" -eq 1 ] || exit "$code"
fi

say 'Free what no root keeps'
show dis gc
