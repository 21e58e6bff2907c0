// BullMQ under the measures of queue_driver.py; prints one JSON object.
//   NODE_PATH=<folder>/node_modules node queue_bullmq.cjs PORT ITEMS < password
// A worker process is this file with the argument "worker"; it reports how much it did by IPC.
const fs = require('fs');
const { fork } = require('child_process');

const PICK_UPS = 100;
const IDLE_S = 6;
const sleep = (s) => new Promise((resolve) => setTimeout(resolve, s * 1000));
const nowS = () => Number(process.hrtime.bigint()) / 1e9;
const payload = (number, sentAt = 0) => ({
  number,
  sent_at: sentAt,
  session_id: `docket-${String(number % 5000).padStart(6, '0')}`,
  queue: 'authority-recompute',
  target_cu_id: `understanding-${String(number).padStart(12, '0')}`,
  trigger: { kind: 'input_cu_update', source: 'operation-0f3c1b9a7d', depth: 3 },
  trace: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  note: 'x'.repeat(30),
});

let bullmq;
try {
  bullmq = require('bullmq');
} catch (error) {
  console.log(JSON.stringify({ missing: 'bullmq' }));
  process.exit(0);
}

if (process.argv[2] === 'worker') {
  let done = 0;
  const delays = [];
  const connection = { host: '127.0.0.1', port: Number(process.argv[3]), password: process.env.QUEUE_PASSWORD };
  new bullmq.Worker('bench', async (job) => {
    done += 1;
    if (job.data.sent_at) delays.push(Date.now() - job.data.sent_at);
  }, { connection, concurrency: 100 });
  setInterval(() => process.send({ done, delays }), 5);
} else {
  measure(Number(process.argv[2]), Number(process.argv[3]), fs.readFileSync(0, 'utf8'));
}

async function measure(port, items, password) {
  const Redis = require('ioredis');
  const connection = { host: '127.0.0.1', port, password };
  const redis = new Redis(connection);
  const queue = new bullmq.Queue('bench', { connection, defaultJobOptions: { removeOnComplete: true } });
  await queue.waitUntilReady();

  const totals = async () => {
    const info = await redis.info('everything');
    let commands = 0;
    for (const [, calls] of info.matchAll(/^cmdstat_(?!info)[^:]*:calls=(\d+)/gm)) commands += Number(calls);
    return { commands, requests: Number(/total_reads_processed:(\d+)/.exec(info)[1]) };
  };
  const enqueue = async (count, way) => {
    const startedS = nowS();
    let next = 0;
    if (way === 'bulk') {
      for (; next < count; next += 100) {
        const batch = Array.from({ length: 100 }, (_, k) => ({ name: 'no_op', data: payload(next + k) }));
        await queue.addBulk(batch);
      }
    } else {
      const lane = async () => { while (next < count) { next += 1; await queue.add('no_op', payload(next)); } };
      await Promise.all(Array.from({ length: way === 'concurrent' ? 100 : 1 }, lane));
    }
    return count / (nowS() - startedS);
  };
  const start = (count) => Array.from({ length: count }, () => {
    const child = fork(__filename, ['worker', String(port)], { env: { ...process.env, QUEUE_PASSWORD: password } });
    const worker = { child, done: 0, delays: [] };
    child.on('message', (message) => Object.assign(worker, message));
    return worker;
  });
  const stop = (workers) => Promise.all(workers.map(({ child }) => new Promise((resolve) => {
    child.on('exit', resolve);
    child.kill('SIGKILL');
  })));
  const drain = async (count, workerCount) => {
    await redis.flushall();
    const before = (await totals()).commands;
    await enqueue(count, 'bulk');
    const workers = start(workerCount);
    const done = () => workers.reduce((sum, worker) => sum + worker.done, 0);
    let startedS = 0;
    let atStart = 0;
    while (done() < count) {
      if (!startedS && workers.every((worker) => worker.done)) { startedS = nowS(); atStart = done(); }
      await sleep(0.002);
    }
    const rate = (count - atStart) / (nowS() - startedS);
    const commands = ((await totals()).commands - before) / count;
    await stop(workers);
    return { rate, commands };
  };

  const found = {};
  for (const way of ['single', 'concurrent', 'bulk']) {
    await redis.flushall();
    found[`enqueue_${way}`] = await enqueue(Math.floor(items / 4), way);
  }
  const one = await drain(items, 1);
  found.drain_1 = one.rate;
  found.commands_per_item = one.commands;
  found.drain_2 = (await drain(items * 2, 2)).rate;

  await redis.flushall();
  const workers = start(1);
  await sleep(2);
  for (let number = 0; number < PICK_UPS; number += 1) {
    await queue.add('no_op', payload(number, Date.now()));
    await sleep(0.03);
  }
  await sleep(1.5);
  const before = (await totals()).requests;
  await sleep(IDLE_S);
  found.idle_requests_per_s = ((await totals()).requests - before - 1) / IDLE_S;
  const delays = workers[0].delays.sort((a, b) => a - b);
  found.pick_up_ms = delays[delays.length >> 1];
  found.pick_up_p99_ms = delays[Math.floor(delays.length * 0.99) - 1];
  await stop(workers);
  await redis.flushall();
  await queue.close();
  redis.disconnect();
  console.log(JSON.stringify(found));
}
