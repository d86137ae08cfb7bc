#!/usr/bin/env node
// A brain for one command: it waits for an executor, has the command run there, prints the result as one JSON line,
// sends the executor home and ends. Written from protocol/PROTOCOL.md alone.
//
//   BRAIN_TOKEN=a-secret-of-16-characters-or-more node brain.js --port 8080 'echo hello'
import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { parseArgs } from 'node:util';
import { WebSocketServer } from 'ws';

const { values: flags, positionals: [command = 'uname -a'] } =
  parseArgs({ options: { port: { type: 'string', default: '0' } }, allowPositionals: true });
const fail = (why) => { console.error(why); process.exit(1); };
const token = process.env.BRAIN_TOKEN || fail('set BRAIN_TOKEN to the token that executors have to present');

// ---- The work. It lasts longer than any connection.
const session = { session_id: `ses_${randomUUID()}` };
const call = { ...session, tool_call_id: `call_${randomUUID()}` };
const results = new Map(); // session and call → the params of tool.result
const deferred = () => { const d = {}; d.promise = new Promise((resolve) => (d.resolve = resolve)); return d; };
const told = { 'session.ready': deferred(), [call.tool_call_id]: deferred(), 'session.ended': deferred() }; // by the executor
let executorID, capabilities, current, drained = false; // the one executor of this brain, and its newest connection

// Requests whose answer was not seen are sent again on the next connection: every method used here may be repeated.
const unanswered = new Map(); // id → {message, tries, resolve, reject}

function request(method, params) {
  return new Promise((resolve, reject) => {
    const message = { jsonrpc: '2.0', id: randomUUID(), method, params };
    unanswered.set(message.id, { message, tries: 20, resolve, reject });
    send(current, message);
  });
}

function tell(what, params) {
  if (params.session_id === session.session_id) told[what]?.resolve(params); // again has no effect
  return { accepted: true };
}

async function work() {
  await request('session.assign', { ...session, work_id: 'work_1', lease: { token: randomUUID(), fencing_token: 1 } });
  await told['session.ready'].promise; // before that no call is taken
  const tools = (capabilities.tools ?? []).map((tool) => tool.name);
  const tool = tools.includes('bash') ? 'bash' : tools[0];
  // The answer says only that the call was taken. How it went comes as tool.result.
  await request('tool.call', { ...call, tool, input: tool === 'bash' ? { command } : JSON.parse(command) });
  console.log(JSON.stringify(await told[call.tool_call_id].promise));
  await request('session.stop', { ...session, reason: 'the work is done' });
  await told['session.ended'].promise;
  drained = true; // first: the executor may be gone before its answer to this is read
  await request('executor.drain', { reason: 'no more work', deadline_ms: 5000 });
}

// ---- What the executor asks.
const refusal = (code, reason, message) => ({ code, message, data: { reason, retryable: false } });

const handlers = {
  'executor.register'(conn, { resume, capabilities: offered }) {
    if (conn.id) throw refusal(-32004, 'conflict', 'this connection is registered already');
    const first = executorID === undefined;
    if (!first && resume?.executor_id !== executorID) throw refusal(-32002, 'forbidden', 'there is work for one executor only');
    executorID ??= resume?.executor_id ?? `exe_${randomUUID()}`; // an executor keeps the id it was given once
    capabilities = offered ?? {};
    conn.id = `con_${randomUUID()}`;
    current?.close(4004, 'replaced by a newer connection');
    current = conn;
    setImmediate(() => { // nothing is requested before the answer to this has gone out
      for (const { message } of unanswered.values()) send(conn, message);
      if (first) work().catch((err) => fail(err.message));
    });
    return {
      connection_id: conn.id, executor_id: executorID, protocol: 'executor.v1', server_time: new Date().toISOString(),
      heartbeat_interval_ms: 10_000, lease_ttl_ms: 30_000, max_control_frame_bytes: 1 << 20, max_mcp_frame_bytes: 4 << 20,
      sessions: [session.session_id], // all others, of a run before, the executor ends
    };
  },
  'executor.heartbeat'(conn, { connection_id }) {
    if (connection_id !== conn.id) throw refusal(-32004, 'conflict', 'that is another connection');
    return { lease_ttl_ms: 30_000, drain: drained };
  },
  'session.ready': (conn, params) => tell('session.ready', params),
  'session.ended': (conn, params) => tell('session.ended', params),
  'tool.result'(conn, params) {
    // Stored first, then acknowledged: after that the executor may forget it. It sends a result again until it has seen
    // the acknowledgement, so the first one is kept. A brain that is to survive its own end stores it on a disk.
    const key = JSON.stringify([params.session_id, params.tool_call_id]);
    if (!results.has(key)) results.set(key, params);
    return tell(params.tool_call_id, results.get(key));
  },
};

// ---- Messages.
function send(conn, message) {
  if (conn?.readyState === 1) conn.send(JSON.stringify({ jsonrpc: '2.0', ...message }));
}

function receive(conn, data, isBinary) {
  let m;
  try {
    if (isBinary) throw new Error('register was answered without binary_frames');
    m = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(data));
  } catch {
    return send(conn, { id: null, error: refusal(-32700, 'parse_error', 'parse error') });
  }
  const asks = typeof m?.method === 'string' && m.method !== '';
  const answers = m?.method === undefined && !m?.result !== !m?.error;
  const idFits = typeof m?.id === 'string' || Number.isInteger(m?.id) || (asks ? m.id === undefined : m?.id === null);
  const fits = m?.jsonrpc === '2.0' && (asks || answers) && idFits;
  if (!fits) return send(conn, { id: null, error: refusal(-32600, 'invalid_request', 'not a JSON-RPC 2.0 object') });
  if (answers) {
    const waiting = unanswered.get(m.id);
    if (!waiting) return;
    // Our acknowledgement of session.ready may have been lost. The executor then sends session.ready again; until we have
    // acknowledged that, the session is not active for it.
    const later = m.error?.data?.retryable || m.error?.data?.reason === 'session_not_active';
    if (later && waiting.tries-- > 0) return setTimeout(() => send(current, waiting.message), 500);
    unanswered.delete(m.id);
    return m.error ? waiting.reject(new Error(`${waiting.message.method}: ${m.error.message}`)) : waiting.resolve(m.result);
  }
  if (m.id === undefined) return; // notifications: session.status and others that nothing has to be done about
  try {
    if (!conn.id && m.method !== 'executor.register') throw refusal(-32600, 'invalid_request', 'executor.register comes first');
    if (!Object.hasOwn(handlers, m.method)) throw refusal(-32601, 'method_not_found', `there is no method ${m.method}`);
    const params = m.params ?? {};
    if (typeof params !== 'object' || Array.isArray(params)) throw refusal(-32602, 'invalid_params', 'params: want an object');
    send(conn, { id: m.id, result: handlers[m.method](conn, params) });
  } catch (error) {
    send(conn, { id: m.id, error: error.code ? error : refusal(-32603, 'internal_error', 'internal error') });
  }
}

// ---- Connections.
const digest = (text) => createHash('sha256').update(text ?? '').digest(); // of equal length, as the comparison wants it
const server = new WebSocketServer({
  host: '127.0.0.1', port: Number(flags.port), maxPayload: 1 << 20,
  skipUTF8Validation: true, // or a text that is not UTF-8 would end the connection; receive answers it
  verifyClient: ({ req }) => timingSafeEqual(digest(req.headers.authorization), digest(`Bearer ${token}`)), // else: 401
  handleProtocols: (offered) => offered.has('executor.v1') && 'executor.v1',
});
server.on('listening', () => console.error(`ws://127.0.0.1:${server.address().port}/executor`));
server.on('connection', (conn, req) => {
  conn.on('error', () => {}); // the close that follows says it too
  const query = new URL(req.url, 'ws://brain').searchParams;
  if (!conn.protocol) return conn.close(4002, 'this brain speaks executor.v1');
  if (query.get('probe') === '1') return conn.close(1000, 'probe ok');
  if ((query.get('channel') ?? 'control') !== 'control') return conn.close(1008, 'control connections only');
  let heard = Date.now();
  const pings = setInterval(() => (Date.now() - heard > 25_000 ? conn.terminate() : conn.ping()), 10_000);
  for (const event of ['message', 'ping', 'pong']) conn.on(event, () => (heard = Date.now()));
  conn.on('message', (data, isBinary) => receive(conn, data, isBinary));
  conn.on('close', () => {
    clearInterval(pings);
    if (drained && conn === current) process.exit(0); // else nothing: the executor dials again and sends what it owes
  });
});
