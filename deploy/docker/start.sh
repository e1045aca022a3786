#!/bin/sh
# Runs crmsync for docker-compose.yml. It ends with 78 when its configuration cannot work: a restart would not change
# that, and Compose would restart it for ever. So the container stays, unhealthy, until somebody makes it anew.
crmsync "$@" &
daemon=$!
trap 'kill -TERM "$daemon"' TERM INT
# A signal ends the wait, not the daemon.
while wait "$daemon"; code=$?; kill -0 "$daemon" 2> /dev/null; do :; done
[ "$code" = 78 ] || exit "$code"
echo 'crmsync: not started again. Correct the above, then: docker compose up -d --force-recreate crmsync' >&2
trap - TERM INT
exec sleep infinity
