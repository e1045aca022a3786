#!/bin/sh
# Writes the digest of each image behind its version, as redis:7@sha256:…, into docker-compose.yml and the
# Dockerfile. Needs docker with buildx, and the registry. Run it again for newer builds.
set -eu
cd "$(dirname "$0")/.."

sed -nE 's/^(    image:|FROM) ([^@ ]+:[^@ ]+).*/\2/p' docker-compose.yml Dockerfile | sort -u |
  grep -v '^crmsync:' |
  while read -r image; do
    digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
    case $digest in
      sha256:*) ;;
      *) echo "no digest for $image: $digest" >&2; exit 1 ;;
    esac
    sed -i -E "s#^(    image:|FROM) $image(@sha256:[0-9a-f]+)?( |\$)#\\1 $image@$digest\\3#" docker-compose.yml Dockerfile
    echo "$image@$digest"
  done
