import { GenericContainer, getContainerRuntimeClient } from "testcontainers";

const PORT = 6379;

/** Publishes the port on loopback only: Docker would use every interface, and there is no password. */
class LoopbackContainer extends GenericContainer {
  protected override async beforeContainerCreated(): Promise<void> {
    this.hostConfig.PortBindings = { [`${PORT}/tcp`]: [{ HostIp: "127.0.0.1", HostPort: "0" }] };
  }
}

/** A Redis with production settings in a container; rejects if no Docker engine answers. */
export async function startRedisContainer(): Promise<{ url: string; stop(): Promise<void> }> {
  await getContainerRuntimeClient().catch((cause: unknown) => {
    throw new Error("A Redis in a container needs a Docker engine, but none answers.", { cause });
  });
  const container = await new LoopbackContainer("redis:7")
    .withExposedPorts(PORT)
    .withCommand(["redis-server", "--appendonly", "yes", "--maxmemory-policy", "noeviction"])
    .start();
  return {
    url: `redis://127.0.0.1:${container.getMappedPort(PORT)}`,
    async stop() {
      await container.stop();
    },
  };
}
