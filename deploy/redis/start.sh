#!/bin/sh
# Starts Redis with one user, whose password is the content of a file: start.sh CONFIGURATION PASSWORD_FILE
# The user may do what the service needs and nothing else, on keys of its own. Redis gets the SHA-256 of the password on
# standard input, so that neither the list of processes nor an environment shows the password.
set -eu
password=$(cat "$2")
[ -n "$password" ] || { echo "start.sh: the file $2 is empty: write the password of Redis into it" >&2; exit 2; }
digest=$(printf '%s' "$password" | sha256sum | cut -d ' ' -f 1)
exec "${REDIS_SERVER:-redis-server}" - <<CONFIGURATION
$(cat "$1")
user privacy_bounds on #$digest ~privacy_bounds:* -@all +@read +@write +@connection +@transaction +@scripting -@dangerous +info +time
CONFIGURATION
