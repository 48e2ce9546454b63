// Part 5: calls. A call is noted here and settled from outside; until then it is a promise in this image.

const MAX_CALLS = 10000, MAX_CALL_SIZE = 8 << 20;
const pending = new PMap(); // number -> {resolve, reject, name, frames} or {run} for a timer
let made = 0, fresh = list(), freshSize = 0;
let toolCalls = 0, maxCalls = 0; // of the whole cell: one call too many ends it
let failure = null;         // what a timer's callback threw

const announce = (record, piece) => {
  if (fresh.length >= MAX_CALLS) throw new PRangeError("more than " + MAX_CALLS + " calls at once: await some of them first");
  record.number = ++made;
  record.piece = '{"number":' + made + "," + piece + "}";
  freshSize += record.piece.length;
  fresh[fresh.length] = record;
  mapSet(pending, made, record);
};

const sites = () => {
  // Where in this cell the call stands, for the error that may come of it.
  const probe = new PError();
  return { frames: weakGet(framesOf, probe), stack: probe.stack };
};

const argumentsText = (args) => {
  let count = args.length;
  while (count > 0 && args[count - 1] === undefined) count--;
  if (count === 0) return '"args":[]';
  const pieces = list();
  for (let i = 0; i < count; i++) pieces[i] = encode(args[i]);
  if (count === 1 && pieces[0][0] === "{") return '"kwargs":' + pieces[0];
  return '"args":[' + join(pieces, ",") + "]";
};

const note = (name, args) => {
  if (++toolCalls > maxCalls) overspend();
  const { frames, stack } = sites();
  let piece = '"name":' + text(name) + ",";
  try {
    const given = argumentsText(args);
    if (given.length + freshSize > MAX_CALL_SIZE) throw tooLarge("the arguments of the calls made at once are too large");
    piece += '"size":' + given.length + "," + given;
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === null) throw error;
    piece += '"refused":{"message":' + text(refusal.message) + ',"hint":' + text(refusal.hint) + "}";
  }
  return new P((resolve, reject) => announce({ __proto__: null, resolve, reject, name, frames, stack }, piece));
};

const seconds = (ms) => {
  const given = +ms;
  return numberText(given > 0 && given - given === 0 ? given / 1000 : 0);
};
const timer = (record, ms) => announce(record, '"name":"sleep","kind":"timer","args":[' + seconds(ms) + "]");

const callError = (record, given) => {
  const error = new PError(given.message);
  hidden(error, "name", "ToolError");
  hidden(error, "code", given.code);
  hidden(error, "tool", record.name);
  hidden(error, "hint", given.hint);
  const at = typeof record.stack === "string" ? indexOf(record.stack, "\n") : -1;
  hidden(error, "stack", ("ToolError: " + given.message) + (at < 0 ? "" : slice(record.stack, at)));
  if (record.frames !== undefined) weakSet(framesOf, error, record.frames);
  weakSet(toolErrors, error, { __proto__: null, code: given.code, hint: given.hint });
  return error;
};

// -- tools as globals -------------------------------------------------------------------------------------------------

const ours = new PWeakMap();      // functions and objects that we put on the global object
const isOurs = (value) => (typeof value === "function" || typeof value === "object" && value !== null) && weakHas(ours, value);
let catalogKey = "";
let known = list();               // all names of the catalog
let table = create(null);         // what `tools` answers with
let installed = list();           // global names that stand for something of the catalog
const builtin = { __proto__: null };

const toolNamed = (name, shortName) => {
  const tool = function () { return note(name, arguments); };
  hidden(tool, "name", shortName);
  weakSet(ours, tool, true);
  return freeze(tool);
};

const absent = (name) => function () {
  const near = closest(name, known);
  const hint = near === "" ? "see the list of tools" : "did you mean `" + near + "`?";
  const { frames, stack } = sites();
  const error = callError({ __proto__: null, name, frames, stack }, { __proto__: null, code: "UNKNOWN_TOOL", message: "there is no tool `" + name + "`", hint });
  return new P((_, reject) => reject(error));
};

// Names that the language itself asks an object for: no call of a tool is meant by those.
const NOT_TOOLS = { __proto__: null, then: true, toJSON: true, constructor: true, toString: true, valueOf: true, length: true, name: true, prototype: true, caller: true, arguments: true };
const frozen = () => false;
const tools = new PProxy(create(null), {
  __proto__: null,
  get: (_, key) => (typeof key !== "string" ? undefined : table[key] !== undefined ? table[key] : NOT_TOOLS[key] === true ? undefined : absent(key)),
  has: (_, key) => typeof key === "string" && table[key] !== undefined,
  ownKeys: () => enumerableKeys(table),
  getOwnPropertyDescriptor: (_, key) => (typeof key === "string" && table[key] !== undefined ? { value: table[key], writable: true, enumerable: true, configurable: true } : undefined),
  set: frozen, defineProperty: frozen, deleteProperty: frozen, setPrototypeOf: frozen,
});
weakSet(ours, tools, true);

const offer = (name, value) => {
  // A program's own variable of that name wins; so do the language's globals.
  const found = getOwnPropertyDescriptor(G, name);
  if (found !== undefined && !(found.configurable && isOurs(found.value))) return;
  hidden(G, name, value);
  installed[installed.length] = name;
};

const install = (names) => {
  const key = join(names, " ");
  if (key === catalogKey) return;
  catalogKey = key;
  for (let i = 0; i < installed.length; i++) {
    const name = installed[i];
    if (!isOurs(own(G, name))) continue;
    if (builtin[name] !== undefined) hidden(G, name, builtin[name]);
    else deleteProperty(G, name);
  }
  known = list(); table = create(null); installed = list();
  const spaces = create(null);
  for (let i = 0; i < names.length; i++) {
    const name = names[i], dot = indexOf(name, ".");
    known[known.length] = name;
    if (dot < 0) { table[name] = toolNamed(name, name); continue; }
    const space = slice(name, 0, dot), shortName = slice(name, dot + 1);
    if (spaces[space] === undefined) { spaces[space] = create(null); weakSet(ours, spaces[space], true); }
    spaces[space][shortName] = toolNamed(name, shortName);
  }
  const flat = enumerableKeys(table);
  for (let i = 0; i < flat.length; i++) if (flat[i] !== "tools") offer(flat[i], table[flat[i]]);
  const grouped = enumerableKeys(spaces);
  for (let i = 0; i < grouped.length; i++) {
    const space = grouped[i];
    freeze(spaces[space]);
    if (table[space] === undefined) table[space] = spaces[space];
    if (space !== "tools") offer(space, spaces[space]);
  }
};
