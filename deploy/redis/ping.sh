#!/bin/sh
# Exits with 0 when Redis answers the user of the service: ping.sh PASSWORD_FILE
set -eu
REDISCLI_AUTH=$(cat "$1")
export REDISCLI_AUTH
redis-cli --user privacy_bounds ping | grep -q PONG
