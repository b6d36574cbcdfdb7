# syntax=docker/dockerfile:1
# hermes gateway in a container (docs/install.md#as-a-container). The first stage makes the package, the second one installs it.
ARG NODE=node:24.21.0-bookworm-slim

FROM ${NODE} AS package
WORKDIR /source
COPY package.json package-lock.json .npmrc ./
RUN --mount=type=cache,target=/root/.npm npm install --ignore-scripts
COPY . .
RUN mkdir /package && npm pack --pack-destination /package

FROM ${NODE}
# bubblewrap: the sandbox; git: /undo. Debian removes old versions of packages, so these are not pinned.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends bubblewrap ca-certificates git \
  && rm -rf /var/lib/apt/lists/*
# The image has the right Node already, so the one that comes with the package is removed in the same layer.
RUN --mount=type=bind,from=package,source=/package,target=/package --mount=type=cache,target=/root/.npm \
  npm install -g /package/hermes-ts-*.tgz \
  && rm -r "$(npm root -g)"/hermes-ts/node_modules/node-linux-* \
  && install -d -o node -g node -m 700 /data /workspace
USER 1000
WORKDIR /workspace
ENV HERMES_HOME=/data API_SERVER_HOST=0.0.0.0 NODE_ENV=production
VOLUME ["/data", "/workspace"]
EXPOSE 8642
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --start-interval=1s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.API_SERVER_PORT || 8642) + '/health').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["hermes"]
CMD ["gateway"]
