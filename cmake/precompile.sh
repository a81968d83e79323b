#!/bin/bash
# The launcher of the compiler for a set of precompiled headers: precompile.sh SOURCE-FOLDER COMPILER ARGUMENT…
# Writes beside the result, in FILE.pch.sum, a checksum of what it was made of. ccache takes that for the file's own
# (pch_external_checksum), which holds absolute paths: two checkouts with the same headers share what they compiled.
# Without the checksum ccache looks at the file itself.
set -euo pipefail
folder=$1
shift
result='' depends='' last=''
for word in "$@"; do
  case $last in -o) result=$word ;; -MF) depends=$word ;; esac
  last=$word
done
case $result in *.pch) ;; *) exec "$@" ;; esac

# Every line of a file of dependencies names one or two headers; a name with a space in it is not found.
headers() {
  sed -e 's/^[^:]*: *//' -e 's/\\$//' "$depends" | tr -s ' ' '\n' | grep .
}

rm -f "$result.sum"
begin=$(mktemp)
trap 'rm -f "$begin"' EXIT
"$@"
if sum=$({ printf '%s\n' "$@" && headers | xargs cat; } | sed "s|$folder||g" | sha256sum) &&
  changed=$(headers | xargs sh -c 'find "$@" -newer "$0"' "$begin") && [ -z "$changed" ]; then
  echo "${sum%% *}" >"$result.sum"
else
  echo "precompile.sh: no checksum for $result: what is compiled with it is not shared between checkouts" >&2
fi
