#!/bin/sh
# The service of the demo: writes its token where the daemon reads it, allows the compose network.
set -eu
crmsync sandbox --host 0.0.0.0 --port 4010 --db /data/sandbox.db --policy sliding \
  --token-file /secrets/service_token > /dev/null &
service=$!
trap 'kill "$service"' TERM INT
until crmsync sandbox allow add --db /data/sandbox.db 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16; do
  sleep 1
done
wait "$service"
