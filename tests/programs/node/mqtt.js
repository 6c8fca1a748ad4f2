// What users of MQTT.js do, against the gateway whose port is the first argument; the second one is the version.
"use strict";

const assert = require("node:assert");
const mqtt = require("mqtt");

const [port, protocolVersion] = process.argv.slice(2).map(Number);
const top = `js${protocolVersion}`;

async function connect(options = {}) {
  const client = await mqtt.connectAsync(`mqtt://127.0.0.1:${port}`, { protocolVersion, ...options });
  client.found = [];
  client.on("message", (topic, payload, packet) => {
    client.found.push([topic.split("/")[1], payload.toString(), packet.retain]);
    client.emit("found");
  });
  return client;
}

async function receive(client, count) {
  while (client.found.length < count) await new Promise((done) => client.once("found", done));
  return client.found.splice(0, count);
}

const checks = {
  async "QoS, retained messages and a will"() {
    const publisher = await connect({ will: { topic: `${top}/will`, payload: "gone", qos: 1 }, reconnectPeriod: 0 });
    await publisher.publishAsync(`${top}/kept`, "kept", { qos: 1, retain: true });
    const reader = await connect();
    await reader.subscribeAsync(`${top}/#`, { qos: 2 });
    assert.deepStrictEqual(await receive(reader, 1), [["kept", "kept", true]]);
    for (const qos of [0, 1, 2]) {
      await publisher.publishAsync(`${top}/${qos}`, String(qos), { qos });
      assert.deepStrictEqual(await receive(reader, 1), [[String(qos), String(qos), false]]);
    }
    publisher.stream.destroy();
    assert.deepStrictEqual(await receive(reader, 1), [["will", "gone", false]]);
    await reader.endAsync();
  },
  async "a session that lasts"() {
    const lasting = { clientId: `${top}-device`, clean: false };
    if (protocolVersion === 5) lasting.properties = { sessionExpiryInterval: 1000 };
    const device = await connect(lasting);
    await device.subscribeAsync(`${top}-back/#`, { qos: 2 });
    await device.endAsync();
    const other = await connect();
    for (let number = 0; number < 20; number++) await other.publishAsync(`${top}-back/a`, String(number), { qos: 2 });
    await other.endAsync();
    const again = mqtt.connect(`mqtt://127.0.0.1:${port}`, { protocolVersion, ...lasting });
    again.found = [];
    again.on("message", (topic, payload) => {
      again.found.push(Number(payload.toString()));
      again.emit("found");
    });
    assert.deepStrictEqual(await receive(again, 20), [...Array(20).keys()]);
    await again.endAsync();
  },
};

async function main() {
  for (const [name, check] of Object.entries(checks)) {
    await check();
    console.log(`passed: ${name}`);
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
