// What a run says of the error that ended it: type, message, and a stack of the user's own frames.

const FRAME = /^\s+at /;
const INNER = /\(?(node:|hotcell:|internal\/|\[eval)/;
const PLACE = /<code>:(\d+):(\d+)/;
const LONGEST_CHAIN = 8;
const LONGEST_ERROR_FILE = 1 << 24;

// Where a place of the text that runs is in the text that was written; both count from 1.
function placeOf(line, column) {
  let place = { line, column };
  const row = run.map && run.map[line - 1];
  if (row) {
    let known = null;
    for (const token of row) {
      if (known !== null && token[0] > column - 1) break;
      known = token;
    }
    if (known) place = { line: known[1] + 1, column: known[2] + 1 };
  }
  const { inserted } = run;
  if (inserted && place.line === inserted.line && place.column > inserted.column) {
    place.column = Math.max(place.column - inserted.length, inserted.column);
  }
  return place;
}

function cleanFrame(frame) {
  return frame.replace(/<code>:(\d+):(\d+)/g, (_, line, column) => {
    const place = placeOf(Number(line), Number(column));
    return `<code>:${place.line}:${place.column}`;
  });
}

function stackOf(error) {
  let stack;
  try {
    stack = error.stack;
  } catch {
    stack = undefined;
  }
  return typeof stack === "string" ? stack : "";
}

// The first frame in the code, and all frames but those of node and of the runner.
function framesOf(error) {
  const frames = stackOf(error).split("\n").filter((line) => FRAME.test(line));
  const kept = frames.filter((line) => !INNER.test(line)).map(cleanFrame);
  const found = kept.map((line) => PLACE.exec(line)).find((place) => place !== null);
  return { kept, line: found ? Number(found[1]) : null };
}

function isError(value) {
  return util.types.isNativeError(value) || value instanceof Error;
}

function nameOf(error) {
  try {
    const named = typeof error.name === "string" && error.name ? error.name : "Error";
    const own = error.constructor && error.constructor.name;
    return named === "Error" && typeof own === "string" && own ? own : named;
  } catch {
    return "Error";
  }
}

function messageOf(error) {
  try {
    return String(error.message);
  } catch {
    return "its message cannot be read";
  }
}

function headOf(error) {
  const message = messageOf(error);
  const hint = error instanceof ToolError && error.hint ? `\nhint: ${error.hint}` : "";
  const code = error instanceof ToolError ? ` (${error.code})` : "";
  return `${nameOf(error)}: ${message}${code}${hint}`;
}

// An import that failed has no frames: the first line that names what was imported.
function importLine(error) {
  const named = /'([^']+)'|"([^"]+)"|tools\/[\w-]+/.exec(messageOf(error));
  if (!named) return null;
  const wanted = named[1] || named[2] || named[0];
  const lines = run.source.split("\n");
  const found = lines.findIndex((text) => /\bimport\b|\bfrom\b/.test(text) && text.includes(wanted));
  return found < 0 ? null : found + 1;
}

function describeOne(error, depth, seen) {
  if (!isError(error)) return { text: `Uncaught ${textOf(error)}`, line: null };
  seen.add(error);
  const { kept, line } = framesOf(error);
  const parts = [headOf(error), ...kept];
  const inner = [];
  if ("cause" in error && error.cause !== undefined) inner.push(["caused by ", error.cause]);
  if (Array.isArray(error.errors)) {
    for (const each of error.errors.slice(0, 20)) inner.push(["one of them: ", each]);
  }
  for (const [before, other] of inner) {
    if (depth >= LONGEST_CHAIN || seen.has(other)) continue;
    parts.push(before + describeOne(other, depth + 1, seen).text);
  }
  return { text: parts.join("\n"), line };
}

function describe(error) {
  const room = run.reportBytes >> 2;
  const isOne = isError(error);
  const { text, line } = describeOne(error, 0, new Set());
  if (text.length > room >> 1) {
    try {
      fs.writeFileSync(run.resultsFile("error.txt"), text.slice(0, LONGEST_ERROR_FILE));
    } catch {
      // The beginning and the end are in the report.
    }
  }
  return {
    type: cut(isOne ? nameOf(error) : typeNameOf(error), 256),
    message: cut(isOne ? messageOf(error) : textOf(error), room >> 3),
    traceback: cut(text, room >> 1),
    line: line === null && isOne ? importLine(error) : line,
  };
}
