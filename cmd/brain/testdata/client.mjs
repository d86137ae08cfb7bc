// An MCP client of the TypeScript SDK that calls every tool of the gateway, and prints
// what it got as one JSON object.
//
//   node client.mjs stdio COMMAND ARG...
//   node client.mjs http URL TOKEN
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [kind, where, ...rest] = process.argv.slice(2);
const transport =
  kind === "http"
    ? new StreamableHTTPClientTransport(new URL(where), { requestInit: { headers: { Authorization: "Bearer " + rest[0] } } })
    : new StdioClientTransport({ command: where, args: rest });
const client = new Client({ name: "typescript", version: "1" });
await client.connect(transport);
const report = { server: client.getServerVersion(), called: [], failed: [], progress: [] };
const { tools } = await client.listTools();
report.tools = tools.map((t) => t.name);

async function call(name, args, options) {
  const r = await client.callTool({ name, arguments: args }, undefined, options);
  report.called.push(name);
  if (r.isError) report.failed.push(name + ": " + JSON.stringify(r.content));
  return r;
}

await call("mkdir", { path: "d" });
await call("write", { path: "d/a.txt", content: "one\ntwo\n" });
await call("read", { path: "d/a.txt" });
await call("edit", { path: "d/a.txt", old_string: "two", new_string: "2" });
await call("multi_edit", { edits: [{ path: "d/a.txt", old_string: "one", new_string: "1" }] });
await call("copy", { from: "d/a.txt", to: "d/b.txt" });
await call("move", { from: "d/b.txt", to: "d/c.txt" });
await call("set_executable", { path: "d/c.txt", executable: true });
await call("stat", { path: "d/c.txt" });
await call("list_files", { path: "d" });
await call("glob", { pattern: "**/*.txt" });
await call("grep", { pattern: "^2$" });
await call("diff", { path_a: "d/a.txt", content_b: "1\n" });
await call("delete", { path: "d/c.txt" });
await call("bash", { command: "git init -q . 2>&1; echo é" });
await call("git", { subcommand: "status" });
await call("run_shell", { command: "cd d && pwd" });
const task = await call("run_shell", { command: "sleep 300", run_in_background: true });
const task_id = task.structuredContent.task_id;
await call("shell_task_list", {});
await call("shell_task_output", { task_id });
await call("shell_task_kill", { task_id });

await call("bash", { command: "for i in 1 2 3; do echo line $i; sleep 0.2; done" }, { onprogress: (p) => report.progress.push(p) });

// A call that is cancelled ends its processes.
const abort = new AbortController();
const hanging = client.callTool({ name: "bash", arguments: { command: "echo $$ > pid; sleep 300" } }, undefined, { signal: abort.signal });
hanging.catch(() => {});
await call("bash", { command: "until test -s pid; do sleep 0.02; done" });
abort.abort("enough");
report.cancelled = await hanging.then(() => "no", () => "yes");
await call("bash", { command: "i=0; while kill -0 $(cat pid) 2>/dev/null; do i=$((i+1)); test $i -lt 200 || exit 1; sleep 0.05; done" });

const wrong = await client.callTool({ name: "read", arguments: { path: 7 } });
report.wrong = wrong.isError ? wrong.content[0].text : "no error";
report.unknown = await client.callTool({ name: "no_such" }).then(() => "no error", (e) => String(e));
const resources = await client.listResources();
report.resources = resources.resources.map((r) => r.name);
report.templates = (await client.listResourceTemplates()).resourceTemplates.map((r) => r.uriTemplate);
report.read = (await client.readResource({ uri: resources.resources.find((r) => r.name === "pid").uri })).contents[0].text;
if (kind === "http") await transport.terminateSession();
await client.close();
console.log(JSON.stringify(report));
