// The modules `tools` and `tools/SERVER`: tools as functions that return promises, over one socket.

// A tool call that failed: `code`, `message` and perhaps a `hint`.
class ToolError extends Error {
  constructor(code, message = "", hint = null) {
    super(message);
    this.code = code;
    this.hint = hint;
  }
}
Object.defineProperty(ToolError.prototype, "name", { value: "ToolError", configurable: true });

// One end of the socket. It keeps node alive only while somebody waits for an answer.
class Client {
  constructor() {
    this.nextId = 0;
    this.pending = new Map();
    this.closed = null;
    this.chunks = [];
    this.length = 0;
    const { Socket } = require("net");
    this.socket = new Socket({ fd: CALLS, readable: true, writable: true });
    this.socket.on("data", (chunk) => this.take(chunk));
    this.socket.on("end", () => this.close("the host takes no more calls from this run"));
    this.socket.on("error", (error) => this.close(`the host cannot be reached: ${error.message}`));
    this.socket.on("close", () => this.close("the host takes no more calls from this run"));
    this.socket.unref();
  }

  ask(message, site) {
    return new Promise((resolve, reject) => {
      const refuse = (code, text, hint) => reject(failure(code, text, hint, site));
      if (this.closed !== null) {
        refuse("unavailable", this.closed, null);
        return;
      }
      this.nextId += 1;
      const id = this.nextId;
      let text;
      try {
        text = toJson({ id, ...message });
      } catch (error) {
        const hint = "pass strings, numbers, arrays and plain objects";
        refuse("invalid_argument", `the arguments cannot be written as JSON: ${messageOf(error)}`, hint);
        return;
      }
      this.pending.set(id, { resolve, refuse });
      this.socket.ref();
      const body = Buffer.from(text, "utf8");
      const frame = Buffer.allocUnsafe(4 + body.length);
      frame.writeUInt32BE(body.length, 0);
      body.copy(frame, 4);
      this.socket.write(frame);
    });
  }

  take(chunk) {
    this.chunks.push(chunk);
    this.length += chunk.length;
    while (this.length >= 4) {
      if (this.chunks[0].length < 4) this.chunks = [Buffer.concat(this.chunks)];
      const size = this.chunks[0].readUInt32BE(0);
      if (this.length < 4 + size) return;
      const all = this.chunks.length === 1 ? this.chunks[0] : Buffer.concat(this.chunks);
      this.chunks = all.length > 4 + size ? [all.subarray(4 + size)] : [];
      this.length -= 4 + size;
      this.answer(all.subarray(4, 4 + size));
    }
  }

  answer(body) {
    let message;
    try {
      message = fromJson(body.toString("utf8"));
    } catch {
      this.close("the host sent something that is no answer");
      return;
    }
    const call = this.pending.get(message.id);
    if (call === undefined) return;
    this.pending.delete(message.id);
    if (this.pending.size === 0) this.socket.unref();
    const { error } = message;
    if (error) call.refuse(String(error.code || "internal"), String(error.message || ""), error.hint || null);
    else call.resolve(message.ok);
  }

  close(why) {
    if (this.closed !== null) return;
    this.closed = why;
    const calls = [...this.pending.values()];
    this.pending.clear();
    this.socket.unref();
    for (const call of calls) call.refuse("unavailable", why, null);
  }
}

// An error with the frames of whoever made the call: it is known long after that returned.
function failure(code, message, hint, site) {
  const error = new ToolError(code, message, hint);
  const told = [`ToolError: ${message} (${code})`];
  if (hint) told.push(`hint: ${hint}`);
  const frames = stackOf(site).split("\n").filter((line) => FRAME.test(line));
  Object.defineProperty(error, "stack", {
    value: [...told, ...frames].join("\n"),
    configurable: true,
    writable: true,
  });
  return error;
}

let theClient = null;

function client() {
  theClient ??= new Client();
  return theClient;
}

function calledFrom(inner) {
  const site = {};
  Error.captureStackTrace(site, inner);
  return site;
}

function toolOf(server, name) {
  const tool = {
    [name](given = {}, ...more) {
      if (given === null || typeof given !== "object" || Array.isArray(given) || more.length > 0) {
        throw new TypeError(
          `${name}() takes one object: write ${name}({ name: value }); its types are in /tools/${server}/${name}.d.ts`,
        );
      }
      const message = { op: "call", server, tool: name, arguments: given };
      return client().ask(message, calledFrom(tool));
    },
  }[name];
  return tool;
}

function search(query, { detail = "stub", server = null, limit = 5 } = {}) {
  return client().ask({ op: "search", query, detail, server, limit }, calledFrom(search));
}

function near(names) {
  return names.length > 0 ? `there are: ${names.sort().slice(0, 20).join(", ")}` : "there are none";
}

function missing(message) {
  const error = new Error(message);
  error.code = "ERR_MODULE_NOT_FOUND";
  return error;
}

// What a module of ours exports; nothing for other modules.
async function toolsModule(specifier) {
  if (specifier === "tools") return { ToolError, search, default: { ToolError, search } };
  const found = /^tools\/([^/]+?)(?:\/(.+?))?(?:\.[jt]s)?$/.exec(specifier);
  if (found === null) return null;
  const [, server, rest] = found;
  const names = await toolNames(server);
  if (rest !== undefined && rest !== "index" && !names.includes(rest)) {
    throw missing(`server tools/${server} has no tool ${rest}; ${near(names)}`);
  }
  const tools = {};
  for (const name of names) tools[name] = toolOf(server, name);
  return { ...tools, default: Object.freeze({ ...tools }) };
}

async function toolNames(server) {
  const site = calledFrom(toolNames);
  try {
    return (await client().ask({ op: "list", server }, site)).map(String);
  } catch (error) {
    if (!(error instanceof ToolError) || error.code !== "not_found") throw error;
  }
  const servers = (await client().ask({ op: "list", server: null }, site)).map(String);
  throw missing(`no server tools/${server}; ${near(servers)}`);
}
