#!/bin/sh
# Makes the secrets of docker-compose.yml at the first start, each in a volume of its own: make-secrets.sh FOLDER
# FOLDER/seal-key/seal_key: read by user 10001 (the service) alone.
# FOLDER/redis-password/redis_password: read by user 10001 and by group 999 (Redis) alone.
# SEAL_KEY and REDIS_PASSWORD in the environment take the place of random values, and of the values of an earlier start.
set -eu
folder=$1
umask 077

# write FILE OWNER MODE GIVEN
write() {
  if [ -n "$4" ]; then
    value=$4
  elif [ -e "$1" ]; then
    return 0
  else
    value=$(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n')
  fi
  rm -f "$1.new"
  printf '%s' "$value" > "$1.new"
  chmod "$3" "$1.new"
  chown "$2" "$1.new"
  mv -f "$1.new" "$1"
}

write "$folder/seal-key/seal_key" "${OWNER:-10001:10001}" 0400 "${SEAL_KEY:-}"
write "$folder/redis-password/redis_password" "${REDIS_OWNER:-10001:999}" 0440 "${REDIS_PASSWORD:-}"
