#!/bin/sh
# Writes .env (or the file that is named) from .env.example, with a fresh secret wherever one is empty.
set -eu
umask 077
here="$(dirname "$0")"
file="${1:-$here/../.env}"
if [ -e "$file" ]; then
    echo "$file is there already, and what it holds is in use; edit it instead" >&2
    exit 2
fi
draft="$(mktemp "$file.XXXXXX")"
trap 'rm -f "$draft"' EXIT

while IFS= read -r line; do
    secret=""
    case "$line" in
        LABEL_STUDIO_TOKEN=) secret="$(openssl rand -hex 20)" ;;
        OUTFOX_SECRET= | [A-Z]*_PASSWORD=) secret="$(openssl rand -hex 32)" ;;
    esac
    printf '%s%s\n' "$line" "$secret"
done < "$here/../.env.example" > "$draft"
# Unlike a move, a link never replaces what somebody else made meanwhile.
ln "$draft" "$file"
