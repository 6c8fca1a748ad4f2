// What users of ioredis do, against the server whose port is the first argument. Ends with exit code 0 when all is right.
"use strict";

const assert = require("node:assert");
const Redis = require("ioredis");

const port = Number(process.argv[2]);

async function collect(stream) {
  const found = [];
  for await (const page of stream) found.push(...page);
  return found;
}

const checks = {
  async "values of all kinds come back"(redis) {
    assert.strictEqual(await redis.set("k", "v", "EX", 100, "NX"), "OK");
    assert.strictEqual(await redis.get("k"), "v");
    await redis.hset("h", { a: 1, b: "zwei" });
    assert.deepStrictEqual(await redis.hgetall("h"), { a: "1", b: "zwei" });
    await redis.zadd("z", 1.5, "x", "-inf", "y");
    assert.deepStrictEqual(await redis.zrange("z", 0, -1, "WITHSCORES"), ["y", "-inf", "x", "1.5"]);
    assert.deepStrictEqual(await redis.getBuffer("k"), Buffer.from("v"));
  },
  async "pipelines and transactions answer in order"(redis) {
    const piped = await redis.pipeline().set("p", 1).incr("p").lpush("p", "x").get("p").exec();
    assert.deepStrictEqual(piped.map(([error, reply]) => (error ? error.message.split(" ")[0] : reply)), ["OK", 2, "WRONGTYPE", "2"]);
    const done = await redis.multi().set("m", 1).incrby("m", 4).exec();
    assert.deepStrictEqual(done, [[null, "OK"], [null, 5]]);
    await redis.watch("m");
    const other = redis.duplicate();
    await other.set("m", 9);
    assert.strictEqual(await redis.multi().set("m", 1).exec(), null);
    await other.quit();
  },
  async "commands are sent together when autopipelining"() {
    const redis = new Redis({ port, enableAutoPipelining: true });
    const replies = await Promise.all(Array.from({ length: 500 }, (_, number) => redis.set(`auto:${number}`, number)));
    assert.ok(replies.every((reply) => reply === "OK"));
    assert.strictEqual((await redis.mget("auto:0", "auto:499"))[1], "499");
    await redis.quit();
  },
  async "scripts run by their digest, and are sent when unknown"(redis) {
    redis.defineCommand("take", {
      numberOfKeys: 1,
      lua: "local left = redis.call('DECRBY', KEYS[1], ARGV[1]) if left < 0 then redis.call('INCRBY', KEYS[1], ARGV[1]) return {err = 'SOLD out'} end return left",
    });
    await redis.set("stock", 5);
    assert.strictEqual(await redis.take("stock", 3), 2);
    await redis.script("FLUSH");
    assert.strictEqual(await redis.take("stock", 1), 1);
    await assert.rejects(redis.take("stock", 2), /SOLD out/);
    assert.strictEqual(await redis.get("stock"), "1");
  },
  async "subscribers hear of channels and patterns"(redis) {
    const subscriber = redis.duplicate();
    const heard = [];
    const all = new Promise((resolve) => {
      subscriber.on("message", (channel, text) => heard.push([channel, text]));
      subscriber.on("pmessage", (pattern, channel, text) => heard.push([pattern, channel, text]) === 2 && resolve());
    });
    assert.strictEqual(await subscriber.subscribe("news"), 1);
    assert.strictEqual(await subscriber.psubscribe("n*"), 2);
    assert.strictEqual(await redis.publish("news", "hello"), 2);
    await all;
    assert.deepStrictEqual(heard, [["news", "hello"], ["n*", "news", "hello"]]);
    await subscriber.quit();
  },
  async "a blocked reader gets what comes"(redis) {
    const reader = redis.duplicate();
    const popped = reader.blpop("queue", 20);
    const read = redis.duplicate();
    const entry = read.xread("BLOCK", 20000, "STREAMS", "events", "$");
    while ((await redis.info("clients")).match(/blocked_clients:(\d+)/)[1] !== "2");
    await redis.rpush("queue", "job");
    await redis.xadd("events", "1-1", "f", "v");
    assert.deepStrictEqual(await popped, ["queue", "job"]);
    assert.deepStrictEqual(await entry, [["events", [["1-1", ["f", "v"]]]]]);
    await reader.quit();
    await read.quit();
  },
  async "scans meet everything"(redis) {
    await redis.mset(Object.fromEntries(Array.from({ length: 2000 }, (_, number) => [`scan:${number}`, number])));
    const keys = await collect(redis.scanStream({ match: "scan:*", count: 100 }));
    assert.strictEqual(new Set(keys).size, 2000);
    const fields = await collect(redis.hscanStream("h"));
    assert.strictEqual(fields.length, 4);
  },
  async "retries of a producer add one entry"(redis) {
    const first = await redis.xadd("orders", "IDMP", "svc-7", "order-1", "*", "cents", "4990");
    assert.strictEqual(await redis.xadd("orders", "IDMP", "svc-7", "order-1", "*", "cents", "4990"), first);
    assert.strictEqual(await redis.xlen("orders"), 1);
  },
};

(async () => {
  const redis = new Redis({ port });
  for (const [name, check] of Object.entries(checks)) {
    await check(redis);
    console.log(`passed: ${name}`);
  }
  await redis.quit();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
