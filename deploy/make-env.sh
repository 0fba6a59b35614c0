#!/bin/sh
# Write .env (or the named file) from .env.example, with a generated value for each empty secret.
set -eu
umask 077
here="$(dirname "$0")"
file="${1:-$here/../.env}"
if [ -e "$file" ]; then
    echo "$file exists already and its secrets are in use; edit it instead" >&2
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
# Unlike a move, a link never replaces an existing file.
ln "$draft" "$file"
