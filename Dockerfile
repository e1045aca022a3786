# Contains Node, the compiled code and its packages only: no npm, no compiler, no sources.

# Removes TypeScript, an optional peer of an indirect dependency: nothing compiles at run time.
FROM node:26-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts \
 && find node_modules -type f \( -name '*.map' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.md' \) ! -iname '*licen[cs]e*' -delete \
 && find node_modules -type d -name test -prune -exec rm -r {} + \
 && rm -r node_modules/typescript node_modules/@typescript node_modules/libphonenumber-js/bundle

FROM node:26-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json tsconfig.types.json ./
COPY src src
COPY workers workers
COPY deploy/copy-assets.ts deploy/
RUN npm run build && find dist -name '*.map' -delete

# Node's binary needs libatomic. Nothing in the image installs or interprets: no apt, no perl, no setuid programs.
FROM debian:bookworm-slim AS system
RUN apt-get update \
 && apt-get install -y --no-install-recommends libatomic1 \
 && dpkg --purge --force-remove-essential --force-remove-protected --force-depends apt debconf perl-base \
 && rm -rf /var/lib/apt /var/cache/* /var/log/* /etc/apt \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && install -d -o 1000 -g 1000 /data /secrets

# One layer, which lacks what was removed.
FROM scratch
ARG VERSION=unreleased REVISION=unknown SOURCE=unknown
LABEL org.opencontainers.image.title=crmsync \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.source=$SOURCE \
      org.opencontainers.image.licenses=MIT
COPY --from=system / /
COPY --from=packages /usr/local/bin/node /usr/local/bin/node
WORKDIR /app
COPY --from=packages /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json ./
COPY mappings mappings
COPY docs/*.md docs/
COPY deploy/docker/health.mjs deploy/docker/start.sh ./
RUN ln -s /app/dist/src/cli/main.js /usr/local/bin/crmsync
# The settings of malloc give freed memory back to the machine.
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    NODE_ENV=production HTTP_HOST=0.0.0.0 DATA_DIR=/data \
    MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=131072
USER 1000:1000
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s CMD ["node", "/app/health.mjs"]
ENTRYPOINT ["crmsync"]
CMD ["start"]
