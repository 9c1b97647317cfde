// Values as JSON where nothing is lost by it, as text where something would be, never more than fits.

const DEEPEST = 100;
const MOST_NODES = 3000000;
const LONGEST_FILE = 1 << 26;
const MOST_FILES = 100;
const DEEPEST_FILES = 4;
const MIMES = {
  csv: "text/csv",
  gif: "image/gif",
  html: "text/html",
  jpeg: "image/jpeg",
  jpg: "image/jpeg",
  json: "application/json",
  md: "text/markdown",
  pdf: "application/pdf",
  png: "image/png",
  svg: "image/svg+xml",
  txt: "text/plain",
  webp: "image/webp",
};

// JSON would lose something, or would not end.
class Unfaithful extends Error {}

function cut(text, most) {
  if (text.length <= most) return text;
  const mark = `\n... ${text.length - most} characters left out ...\n`;
  const room = Math.max(most - mark.length, 0);
  if (room < 8) return text.slice(0, most);
  const tail = Math.floor(room / 3);
  return text.slice(0, room - tail) + mark + text.slice(text.length - tail);
}

function typeNameOf(value) {
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  try {
    const { constructor } = value;
    return typeof constructor === "function" && constructor.name ? constructor.name : "Object";
  } catch {
    return "object";
  }
}

const SHOWN = { depth: 6, maxArrayLength: 1000, maxStringLength: 1 << 20, breakLength: 100 };

function textOf(value, more) {
  try {
    const shown = util.inspect(value, { ...SHOWN, ...more });
    return typeof shown === "string" ? shown : String(shown);
  } catch (error) {
    return `<${typeNameOf(value)}: it cannot be shown: ${isError(error) ? messageOf(error) : "?"}>`;
  }
}

// A value in plain types; throws where something would be lost.
class Plain {
  constructor() {
    this.nodes = 0;
    this.open = new Set();
  }

  of(value, depth) {
    this.nodes += 1;
    if (this.nodes > MOST_NODES) throw new Unfaithful();
    switch (typeof value) {
      case "string":
      case "boolean":
        return value;
      case "number":
        if (Number.isFinite(value)) return value;
        throw new Unfaithful();
      case "object":
        return value === null ? null : this.container(value, depth);
      default:
        throw new Unfaithful();
    }
  }

  container(value, depth) {
    if (depth >= DEEPEST || this.open.has(value)) throw new Unfaithful();
    this.open.add(value);
    try {
      if (Array.isArray(value)) return this.items(value, depth);
      if (util.types.isDate(value)) return this.of(value.toJSON(), depth + 1);
      if (util.types.isSet(value)) return this.items([...value], depth);
      if (util.types.isMap(value)) return this.entries([...value], depth);
      const kind = Object.getPrototypeOf(value);
      if (kind === null || kind === Object.prototype || Object.getPrototypeOf(kind) === null) {
        return this.entries(Object.entries(value), depth);
      }
      if (typeof value.toJSON === "function" && !Buffer.isBuffer(value)) {
        return this.of(value.toJSON(), depth + 1);
      }
      throw new Unfaithful();
    } finally {
      this.open.delete(value);
    }
  }

  items(items, depth) {
    // Not map, which would leave holes.
    return Array.from(items, (item) => (item === undefined ? null : this.of(item, depth + 1)));
  }

  entries(entries, depth) {
    const plain = Object.create(null);
    for (const [key, item] of entries) {
      if (typeof key !== "string") throw new Unfaithful();
      if (item !== undefined) plain[key] = this.of(item, depth + 1);
    }
    return plain;
  }
}

function plainJson(value) {
  try {
    const plain = new Plain().of(value, 0);
    return { plain, text: toJson(plain) };
  } catch {
    return null;
  }
}

// Puts a value into the report: whole if it fits, else into a file with a preview.
function keepResult(value) {
  const room = run.reportBytes >> 1;
  run.resultType = cut(typeNameOf(value), 256);
  if (Buffer.isBuffer(value) || value instanceof Uint8Array) {
    if (value.length > 1024) {
      overflow(`${run.resultType} of length ${value.length}\n${textOf(value)}`, "bin", value);
      return;
    }
  }
  const known = plainJson(value);
  if (known !== null) {
    if (Buffer.byteLength(known.text) <= room) run.result = { json: known.plain };
    else if (typeof value === "string") overflow(previewOf(value), "txt", value);
    else overflow(previewOf(known.plain), "json", known.text);
    return;
  }
  const text = textOf(value);
  if (Buffer.byteLength(toJson(text)) <= room) run.result = { repr: text };
  else overflow(previewOf(text), "txt", text);
}

function overflow(preview, ending, content) {
  let told = cut(preview, run.reportBytes >> 3);
  try {
    const file = run.resultsFile(`result.${ending}`);
    fs.writeFileSync(file, content.length > LONGEST_FILE ? content.slice(0, LONGEST_FILE) : content);
    run.resultFile = file;
    if (content.length > LONGEST_FILE) told += `\n(the file holds its first ${LONGEST_FILE} characters)`;
  } catch (error) {
    told += `\n(not written to a file: ${messageOf(error)})`;
  }
  run.result = { preview: told };
}

function shortOf(value, most) {
  return cut(textOf(value, { depth: 3, maxArrayLength: 12, maxStringLength: most, breakLength: Infinity }), most);
}

// What is shown of a value that does not fit: its shape, its head and its tail.
function previewOf(value) {
  if (typeof value === "string") {
    const told = `string of ${value.length} characters, ${value.split("\n").length} lines`;
    if (value.length <= 1700) return `${told}\n${value}`;
    const gap = value.length - 1700;
    return `${told}\n${value.slice(0, 1200)}\n... ${gap} characters ...\n${value.slice(-500)}`;
  }
  if (Array.isArray(value)) {
    const kinds = [...new Set(value.slice(0, 1000).map(typeNameOf))].sort().slice(0, 8);
    let told = `Array of ${value.length} items (${kinds.join(", ")})`;
    const [first] = value;
    if (first && typeof first === "object" && !Array.isArray(first)) {
      told += `\neach with keys: ${Object.keys(first).slice(0, 20).join(", ")}`;
    }
    const shown = (items) => items.map((item) => shortOf(item, 300)).join("\n");
    const gap = Math.max(value.length - 5, 0);
    return `${told}\n${shown(value.slice(0, 3))}\n... ${gap} items ...\n${shown(value.slice(-2))}`;
  }
  if (value !== null && typeof value === "object") {
    const keys = Object.keys(value);
    const shown = keys.slice(0, 20).map((key) => `${cut(key, 80)}: ${shortOf(value[key], 120)}`);
    if (keys.length > 20) shown.push(`... ${keys.length - 20} more keys`);
    return `Object of ${keys.length} keys\n${shown.join("\n")}`;
  }
  return textOf(value);
}

// The report with less and less in it, until it fits.
function shortenedReport() {
  let { result, error } = run;
  if (result !== null && !("preview" in result)) {
    const kept = "json" in result ? result.json : result.repr;
    overflow(previewOf(kept), "json", toJson(kept));
    result = run.result;
  }
  for (const [artifacts, most] of [[100, 4096], [20, 1024], [5, 256], [0, 64], [0, 0]]) {
    if (error !== null) {
      error = { ...error, message: cut(error.message, most), traceback: cut(error.traceback, most) };
    }
    if (result !== null) result = most > 0 ? { preview: cut(result.preview, most) } : null;
    const report = reportText(result, error, run.artifacts.slice(0, artifacts));
    if (report.length <= run.reportBytes) return report;
  }
  return Buffer.from(toJson({ status: error === null ? "ok" : "error" }));
}

// Every regular file in the directory of results, up to a number and a depth.
function collectFiles() {
  const found = [];
  const scan = (directory, depth) => {
    let entries;
    try {
      entries = fs.readdirSync(directory, { withFileTypes: true });
    } catch {
      return;
    }
    for (const entry of entries) {
      if (found.length >= MOST_FILES) return;
      const file = path.join(directory, entry.name);
      if (entry.isDirectory() && depth < DEEPEST_FILES) scan(file, depth + 1);
      else if (entry.isFile() && file !== run.resultFile) found.push(file);
    }
  };
  scan(run.results, 0);
  for (const file of found.sort()) {
    try {
      const mime = MIMES[path.extname(file).slice(1).toLowerCase()] || "application/octet-stream";
      run.artifacts.push({ path: file, mime, bytes: fs.lstatSync(file).size });
    } catch {
      // It is gone again.
    }
  }
}
