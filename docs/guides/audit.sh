#!/bin/sh
# Audit a store with b3sum and jq alone: every manifest, every file, every reference.
# Usage: sh docs/guides/audit.sh STORE
# Prints one line for each thing that is not what its name says; exits 0 if there is none, else 1.
set -eu
cd "$1"
bad=0
found=$(mktemp)
trap 'rm -f "$found"' EXIT

complain() {
    printf '%s\n' "$*"
    bad=1
}

for manifest in manifests/*/*.json; do
    [ -e "$manifest" ] || continue
    digest=$(basename "$manifest" .json)
    tree="objects/$(printf %.2s "$digest")/$digest"
    [ "$(b3sum --no-names "$manifest")" = "$digest" ] || complain "$manifest: its digest is not its name"
    [ -d "$tree" ] || complain "$manifest: there is no $tree"

    jq -r '.entries[] | select(has("blake3")) | [.blake3, .path] | @tsv' "$manifest" |
        while IFS='	' read -r blake3 path; do
            [ "$(b3sum --no-names "$tree/$path" 2>/dev/null)" = "$blake3" ] || echo "$tree/$path"
        done >"$found"
    while read -r file; do complain "$file: not what the manifest says"; done <"$found"

    jq -r '.entries[] | select(has("object")) | [.object, .path] | @tsv' "$manifest" >"$found"
    while IFS='	' read -r object path; do
        [ -e "manifests/$(printf %.2s "$object")/$object.json" ] || complain "$manifest: $path refers to $object, which is not here"
        [ -e "$tree/$path" ] || complain "$tree/$path: leads nowhere"
    done <"$found"
done
exit "$bad"
