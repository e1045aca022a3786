import { Redis, type RedisOptions } from "ioredis";

/** Replies have the shapes of RESP2: the type of ioredis' constructor asks for it. */
export type ClientOptions = RedisOptions & { replyMapping?: "legacy" };

/**
 * A client that works on the database of its URL or not at all. ioredis only reports it when Redis
 * refuses SELECT, and then works on database 0, where the data of another tenant may be.
 */
export class TenantRedis extends Redis {
  override async select(db: number | string): Promise<"OK"> {
    try {
      return await super.select(db);
    } catch (error) {
      if (isSelectRefused(error)) this.disconnect(true);
      throw error;
    }
  }

  /** BullMQ makes its own connections with this method. */
  override duplicate(options?: Partial<RedisOptions>): Redis {
    return new TenantRedis({ ...this.options, ...options } as ClientOptions);
  }
}

/** Whether Redis has no such database, or does not allow its user the command. */
export const isSelectRefused = (error: unknown): error is Error =>
  error instanceof Error &&
  error.name === "ReplyError" &&
  (error as Error & { command?: { name?: string } }).command?.name === "select";

/** The message for an error of `isSelectRefused`. @param where as `describeRedis` says it. */
export const selectRefused = (where: string, db: number, { message }: Error): string =>
  `${where} refuses database ${db}: ${message}; correct the database in REDIS_URL, or allow its user the command SELECT`;
