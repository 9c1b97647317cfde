// The runner for JavaScript: reads an order, runs its code as a module, writes a report.
//
// The code comes without types, with its last expression exported under a name of ours, and with the
// places of its text in the text that was written. Works on Node 18 and later, no packages.

const fs = require("fs");
const path = require("path");
const util = require("util");
const vm = require("vm");
const { createRequire } = require("module");
const { pathToFileURL } = require("url");

const CODE = "<code>";
const LAST = "_hotcell_last_value_";
const CALLS = 3;
const REPORT = 4;
// What was written, the runner's own text, and what made the order.
const USED = [5, 6, 7];
const NEVER_SETTLED = 13;

// Bound here, so that code may replace what it likes.
const toJson = JSON.stringify;
const fromJson = JSON.parse;
const { writeSync, closeSync, readSync } = fs;
const exitNow = process.exit.bind(process);

const run = {
  results: "",
  reportBytes: 262144,
  source: "",
  map: null,
  inserted: null,
  result: null,
  resultType: null,
  resultFile: null,
  error: null,
  artifacts: [],
  isDone: false,

  // A path in the directory of results, which is made when it is first needed.
  resultsFile(name) {
    fs.mkdirSync(this.results, { recursive: true });
    return path.join(this.results, name);
  },
};

function readOrder(descriptor) {
  const parts = [];
  let length = 0;
  for (;;) {
    const room = Buffer.allocUnsafe(1 << 18);
    const read = readSync(descriptor, room, 0, room.length, length);
    if (read === 0) break;
    parts.push(room.subarray(0, read));
    length += read;
  }
  for (const each of new Set([descriptor, ...USED])) {
    try {
      closeSync(each);
    } catch {
      // It was not given.
    }
  }
  return fromJson(Buffer.concat(parts).toString("utf8"));
}

function prepare(order) {
  run.source = order.source;
  run.map = order.map;
  run.inserted = order.inserted;
  run.results = order.results;
  run.reportBytes = order.limits.report_bytes || run.reportBytes;
  process.env.HOTCELL_RESULTS ??= run.results;
  process.argv = [process.execPath, CODE];
  process.execArgv = [];
  Error.stackTraceLimit = 50;
  globalThis.require = createRequire(path.join(process.cwd(), "code.js"));
}

// Modules of ours need a part of node that warns when it is first used.
function withoutWarning(make) {
  const { emitWarning } = process;
  process.emitWarning = (warning, ...more) => {
    if (!String(warning).includes("VM Modules")) emitWarning.call(process, warning, ...more);
  };
  try {
    return make();
  } finally {
    process.emitWarning = emitWarning;
  }
}

function moduleOf(values, name) {
  const names = Object.keys(values);
  return new vm.SyntheticModule(
    names,
    function fill() {
      for (const each of names) this.setExport(each, values[each]);
    },
    { identifier: name },
  );
}

async function findModule(specifier, _from, given) {
  const ours = await toolsModule(specifier);
  if (ours) return moduleOf(ours, specifier);
  const attributes = given && (given.attributes || given.assert);
  const found = await importOther(specifier, attributes);
  return moduleOf(found, specifier);
}

function importOther(specifier, attributes) {
  const isPlain = !attributes || Object.keys(attributes).length === 0;
  return isPlain ? load(specifier) : load(specifier, { with: attributes, assert: attributes });
}

async function importDynamically(specifier, _from, attributes) {
  const ours = await toolsModule(specifier);
  if (!ours) return importOther(specifier, attributes);
  const module = moduleOf(ours, specifier);
  await module.link(() => undefined);
  await module.evaluate();
  return module;
}

async function execute(order) {
  const place = path.join(process.cwd(), "code.js");
  const code = withoutWarning(
    () =>
      new vm.SourceTextModule(order.code, {
        identifier: CODE,
        initializeImportMeta(meta) {
          meta.url = pathToFileURL(place).href;
          meta.dirname = process.cwd();
          meta.filename = place;
        },
        importModuleDynamically: importDynamically,
      }),
  );
  // What could be collected while its imports are under way would end node.
  run.code = code;
  await code.link(findModule);
  await code.evaluate();
  const names = code.namespace;
  if (LAST in names) return names[LAST];
  return "default" in names ? names.default : undefined;
}

function fail(error, code) {
  if (run.isDone) return;
  if (run.error === null) {
    try {
      run.error = describe(error);
    } catch {
      run.error = { type: "Error", message: "it cannot be described", traceback: "", line: null };
    }
  }
  run.result = run.resultType = null;
  exitNow(code);
}

function reportText(result, error, artifacts) {
  const report = {
    status: error === null ? "ok" : "error",
    result,
    result_type: run.resultType,
    result_file: run.resultFile,
    error,
    artifacts,
  };
  // Half of a pair of surrogates is no text to anybody else.
  const text = toJson(report).replace(/(\\\\)|\\ud[89a-f][0-9a-f]{2}/g, (_, kept) => kept || "\ufffd");
  return Buffer.from(text, "utf8");
}

function finish(code) {
  if (run.isDone) return;
  run.isDone = true;
  if (run.error === null && code !== 0) {
    const message = `the code ended with exit code ${code}`;
    run.error = { type: "ProcessExit", message, traceback: "", line: null };
    run.result = run.resultType = null;
  }
  let report;
  try {
    collectFiles();
    report = reportText(run.result, run.error, run.artifacts);
    if (report.length > run.reportBytes) report = shortenedReport();
  } catch {
    report = Buffer.from(toJson({ status: run.error === null ? "ok" : "error" }));
  }
  let written = 0;
  while (written < report.length) written += writeSync(REPORT, report, written);
}

function start() {
  process.on("exit", finish);
  const others = (event) => process.listenerCount(event) > 1;
  process.on("uncaughtException", (error) => {
    if (!others("uncaughtException")) fail(error, 1);
  });
  process.on("unhandledRejection", (error) => {
    if (!others("unhandledRejection")) fail(error, 1);
  });
  let isOver = false;
  process.on("beforeExit", () => {
    if (!isOver) fail(new Error("the code waits for a promise that nothing can settle any more"), NEVER_SETTLED);
  });
  const order = readOrder(Number(process.argv[1]));
  prepare(order);
  execute(order).then(
    (value) => {
      isOver = true;
      if (value === undefined) return;
      try {
        keepResult(value);
      } catch (error) {
        fail(error, 1);
      }
    },
    (error) => {
      isOver = true;
      fail(error, 1);
    },
  );
}

start();
