// What users of BullMQ do, against the server whose port is the first argument. Ends with exit code 0 when all is right.
"use strict";

const assert = require("node:assert");
const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");

const connection = { port: Number(process.argv[2]), maxRetriesPerRequest: null };
const open = [];
require("node:events").defaultMaxListeners = 100;

function opened(one) {
  open.push(one);
  return one;
}

function ended(worker, count) {
  return new Promise((resolve) => {
    const names = [];
    worker.on("completed", (job) => names.push(job.name) === count && resolve(names));
  });
}

const checks = {
  async "jobs are done, with their results"() {
    const queue = opened(new Queue("plain", { connection }));
    const events = opened(new QueueEvents("plain", { connection }));
    await events.waitUntilReady();
    opened(new Worker("plain", async (job) => job.data.a + job.data.b, { connection }));
    const job = await queue.add("sum", { a: 2, b: 3 });
    assert.strictEqual(await job.waitUntilFinished(events, 20000), 5);
    assert.strictEqual((await queue.getJobCounts()).completed, 1);
    const many = await queue.addBulk(Array.from({ length: 200 }, (_, b) => ({ name: "sum", data: { a: 1, b } })));
    const sums = await Promise.all(many.map((one) => one.waitUntilFinished(events, 20000)));
    assert.deepStrictEqual(sums, many.map((_, b) => b + 1));
  },
  async "a job that fails is tried again, later"() {
    const queue = opened(new Queue("retries", { connection }));
    const events = opened(new QueueEvents("retries", { connection }));
    await events.waitUntilReady();
    const worker = async (job) => {
      if (job.attemptsMade < 2) throw new Error("not yet");
      return job.attemptsMade;
    };
    opened(new Worker("retries", worker, { connection }));
    const job = await queue.add("hard", {}, { attempts: 3, backoff: { type: "exponential", delay: 10 } });
    assert.strictEqual(await job.waitUntilFinished(events, 20000), 2);
    const lost = await queue.add("lost", {}, { attempts: 1 });
    await assert.rejects(lost.waitUntilFinished(events, 20000), /not yet/);
    assert.strictEqual(await lost.getState(), "failed");
    await lost.remove();
    assert.strictEqual((await queue.getJobCounts()).failed, 0);
  },
  async "delayed jobs and priorities have their order"() {
    const queue = opened(new Queue("order", { connection }));
    const later = await queue.add("later", {}, { delay: 100000 });
    await queue.add("low", {}, { priority: 10 });
    await queue.add("high", {}, { priority: 1 });
    await queue.add("first", {});
    const { delayed, prioritized, waiting } = await queue.getJobCounts();
    assert.deepStrictEqual([delayed, prioritized, waiting], [1, 2, 1]);
    const worker = opened(new Worker("order", async () => null, { connection, concurrency: 1 }));
    assert.deepStrictEqual(await ended(worker, 3), ["first", "high", "low"]);
    const last = ended(worker, 1);
    await later.promote();
    assert.deepStrictEqual(await last, ["later"]);
  },
  async "a parent waits for its children"() {
    const flows = opened(new FlowProducer({ connection }));
    const events = opened(new QueueEvents("flow", { connection }));
    await events.waitUntilReady();
    opened(new Worker("parts", async (job) => job.data.n * 10, { connection }));
    opened(new Worker("flow", async (job) => Object.values(await job.getChildrenValues()).reduce((a, b) => a + b), { connection }));
    const flow = await flows.add({
      name: "sum",
      queueName: "flow",
      children: [1, 2, 3].map((n) => ({ name: "part", queueName: "parts", data: { n } })),
    });
    assert.strictEqual(await flow.job.waitUntilFinished(events, 20000), 60);
  },
  async "a schedule makes jobs, each once"() {
    const queue = opened(new Queue("schedule", { connection }));
    await queue.upsertJobScheduler("often", { every: 50 }, { name: "tick" });
    const worker = opened(new Worker("schedule", async () => null, { connection }));
    assert.deepStrictEqual(await ended(worker, 3), ["tick", "tick", "tick"]);
    assert.strictEqual(await queue.removeJobScheduler("often"), true);
  },
  async "a queue can be paused, limited, drained and removed"() {
    const queue = opened(new Queue("limits", { connection }));
    await queue.addBulk(Array.from({ length: 4 }, () => ({ name: "x", data: {} })));
    await queue.pause();
    assert.strictEqual(await queue.isPaused(), true);
    await queue.resume();
    const worker = opened(new Worker("limits", async () => null, { connection, limiter: { max: 2, duration: 100 } }));
    assert.strictEqual((await ended(worker, 4)).length, 4);
    await queue.add("left", {}, { delay: 100000, deduplication: { id: "one" } });
    await queue.add("left", {}, { delay: 100000, deduplication: { id: "one" } });
    assert.strictEqual((await queue.getJobCounts()).delayed, 1);
    await queue.drain(true);
    assert.strictEqual((await queue.getJobCounts()).delayed, 0);
    await queue.obliterate({ force: true });
    assert.deepStrictEqual(await (await queue.client).keys("bull:limits:*").then((keys) => keys.filter((key) => /:\d+$/.test(key))), []);
  },
};

(async () => {
  for (const [name, check] of Object.entries(checks)) {
    await check();
    console.log(`passed: ${name}`);
  }
  await Promise.all(open.map((one) => one.close()));
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
