// What every TypeScript session starts from: the guest's half of the protocol, evaluated once into the boot image.
//
// Programs share this realm and may rewrite every global and every prototype in it. So nothing below looks anything
// up on a global or a prototype after boot: primordials are captured first, lists have no prototype, and there is no
// spread, no `for of`, no array destructuring and no regular expression (each of them reads a prototype).
// All traffic is text: the worker calls one of the six functions at the end, each returns one JSON text or "".
((send, overflow) => {
"use strict";

// -- primordials ------------------------------------------------------------------------------------------------------

const G = globalThis;
const { apply, defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { keys: enumerableKeys, freeze, create, setPrototypeOf } = Object;
const { isArray } = Array;
const { parse, stringify } = JSON;
const { isView } = ArrayBuffer;
const { max, min, floor, trunc } = Math;
const { isInteger } = Number;
const P = Promise, PError = Error, PTypeError = TypeError, PRangeError = RangeError, PBigInt = BigInt, PString = String;
const PProxy = Proxy, PMap = Map, PWeakMap = WeakMap, PNumber = Number;
const ObjectProto = Object.prototype, ArrayProto = Array.prototype, FunctionProto = Function.prototype;
const ErrorProto = Error.prototype, InternalErrorProto = InternalError.prototype, PromiseProto = Promise.prototype;

const method = (f) => (self, a, b, c) => apply(f, self, [a, b, c]);
const getter = (proto, name) => {
  const get = getOwnPropertyDescriptor(proto, name).get;
  return (self) => apply(get, self, []);
};
const mapGet = method(Map.prototype.get), mapSet = method(Map.prototype.set), mapHas = method(Map.prototype.has);
const mapDelete = method(Map.prototype.delete), mapEach = method(Map.prototype.forEach), mapClear = method(Map.prototype.clear);
const mapSize = getter(Map.prototype, "size"), setSize = getter(Set.prototype, "size");
const setEach = method(Set.prototype.forEach);
const weakGet = method(WeakMap.prototype.get), weakSet = method(WeakMap.prototype.set), weakHas = method(WeakMap.prototype.has);
const bufferSize = getter(ArrayBuffer.prototype, "byteLength");
const join = method(Array.prototype.join), indexOf = method(String.prototype.indexOf), slice = method(String.prototype.slice);
const wellFormed = method(String.prototype.isWellFormed), toWellFormed = method(String.prototype.toWellFormed);
const startsWith = method(String.prototype.startsWith), codeAt = method(String.prototype.charCodeAt);
const split = (text, mark) => {
  const parts = list();
  for (let from = 0, at = 0; at >= 0; from = at + mark.length) {
    at = indexOf(text, mark, from);
    parts[parts.length] = at < 0 ? slice(text, from) : slice(text, from, at);
  }
  return parts;
};
const repeat = method(String.prototype.repeat), sourceOf = method(FunctionProto.toString);
const getTime = method(Date.prototype.getTime), toISO = method(Date.prototype.toISOString);
const bigText = method(BigInt.prototype.toString), regExpText = method(RegExp.prototype.toString);
const numberOf = method(Number.prototype.valueOf), stringOf = method(String.prototype.valueOf);
const booleanOf = method(Boolean.prototype.valueOf), describeSymbol = method(Symbol.prototype.toString);
const BIGGEST = 2n ** 14000n, SMALLEST = -BIGGEST;

// A list without a prototype: an index that a program defined on Array.prototype is not seen by it.
const list = () => setPrototypeOf([], null);
const hidden = (owner, name, value) => defineProperty(owner, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
const brand = (read, value) => { try { read(value); return true; } catch { return false; } };
const own = (object, name) => {
  const found = getOwnPropertyDescriptor(object, name);
  return found === undefined ? undefined : found.value;
};

// -- errors and their frames ------------------------------------------------------------------------------------------

const framesOf = new PWeakMap();   // error -> "name\tline\tcolumn\n..." of the frames that lie in cells
const toolErrors = new PWeakMap(); // error made by a refused call -> {code, tool, hint}

const dataName = (error) => {
  // The name that toString would show, found without running a getter.
  for (let object = error, hops = 0; object !== null && hops < 20; object = getPrototypeOf(object), hops++) {
    const found = getOwnPropertyDescriptor(object, "name");
    if (found !== undefined) return typeof found.value === "string" ? found.value : "Error";
  }
  return "Error";
};

const CallSite = (() => {
  let site = null;
  PError.prepareStackTrace = (error, sites) => { site = sites[0]; return ""; };
  new PError().stack;
  const proto = getPrototypeOf(site);
  return {
    file: method(proto.getFileName), line: method(proto.getLineNumber), column: method(proto.getColumnNumber),
    name: method(proto.getFunctionName), native: method(proto.isNative),
  };
})();

const onTrace = (error, sites) => {
  let text = "", frames = "";
  for (let i = 0; i < sites.length; i++) {
    const site = sites[i];
    const name = CallSite.name(site) || "<anonymous>";
    if (CallSite.native(site)) { text += `\n    at ${name} (native)`; continue; }
    const file = CallSite.file(site), line = CallSite.line(site), column = CallSite.column(site);
    if (file !== "eval_script") continue; // ours: the boot source is evaluated like the text given to eval()
    text += `\n    at ${name} (cell:${line - 1}:${column})`;
    frames += `${name}\t${line}\t${column}\n`;
  }
  let head = "";
  try {
    const message = own(error, "message");
    if (message === "out of memory" && getPrototypeOf(error) === InternalErrorProto) overflow();
    if (frames !== "") weakSet(framesOf, error, frames);
    head = dataName(error) + (typeof message === "string" && message !== "" ? ": " + message : "");
  } catch { /* captureStackTrace on a hostile proxy: its stack has no head */ }
  return head + text;
};
PError.prepareStackTrace = onTrace;
PError.stackTraceLimit = 20;
// The engine keeps its own reference; what programs see is a constant.
defineProperty(PError, "prepareStackTrace", { __proto__: null, value: undefined, writable: false, enumerable: false, configurable: false });
defineProperty(PError, "stackTraceLimit", { __proto__: null, value: 20, writable: false, enumerable: false, configurable: false });

// -- did you mean -----------------------------------------------------------------------------------------------------

const distance = (a, b) => {
  let row = list();
  for (let j = 0; j <= b.length; j++) row[j] = j;
  for (let i = 1; i <= a.length; i++) {
    const next = list();
    next[0] = i;
    for (let j = 1; j <= b.length; j++) {
      const swap = row[j - 1] + (codeAt(a, i - 1) === codeAt(b, j - 1) ? 0 : 1);
      next[j] = min(swap, row[j] + 1, next[j - 1] + 1);
    }
    row = next;
  }
  return row[b.length];
};

const closest = (name, known) => {
  let best = "", least = max(1, floor(name.length * 0.4)) + 1;
  for (let i = 0; i < known.length && i < 2000; i++) {
    const other = known[i];
    if (other === name || name.length > 60 || other.length > 60 || other.length - name.length >= least || name.length - other.length >= least) continue;
    const far = distance(name, other);
    if (far < least) { best = other; least = far; }
  }
  return best;
};

// -- values on their way out ------------------------------------------------------------------------------------------

const MAX_DEPTH = 128, MAX_NODES = 200000, MAX_SIZE = 4 << 20;
const refusals = new PWeakMap();
const refuse = (code, message, hint) => {
  const refusal = { __proto__: null };
  weakSet(refusals, refusal, { __proto__: null, code, message, hint });
  return refusal;
};
const tooLarge = (message) => refuse("RESULT_TOO_LARGE", message, "return a summary, or write the data to a file");
const unwritable = (message, hint) => refuse("RESULT_NOT_SERIALIZABLE", message, hint);
const refusalOf = (thrown) => (typeof thrown === "object" && thrown !== null && weakHas(refusals, thrown) ? weakGet(refusals, thrown) : null);

const text = (value) => stringify(wellFormed(value) ? value : toWellFormed(value));

const kindOf = (value, proto) => {
  // What an object that is neither plain nor an array is, by what its methods accept.
  if (brand(getTime, value)) return "Date";
  if (proto === PromiseProto || proto !== null && getPrototypeOf(proto) === PromiseProto) return "Promise";
  if (brand(mapSize, value)) return "Map";
  if (brand(setSize, value)) return "Set";
  if (isView(value) || brand(bufferSize, value)) return "bytes";
  if (isError(value)) return "Error";
  if (brand(numberOf, value)) return "Number";
  if (brand(stringOf, value)) return "String";
  if (brand(booleanOf, value)) return "Boolean";
  if (proto === RegExp_prototype) return "RegExp";
  if (proto === WeakMap_prototype || proto === WeakSet_prototype || proto === WeakRef_prototype) return "weak reference";
  return "object";
};
const RegExp_prototype = RegExp.prototype, WeakMap_prototype = WeakMap.prototype;
const WeakSet_prototype = WeakSet.prototype, WeakRef_prototype = WeakRef.prototype;
const isError = (value) => {
  for (let object = value, hops = 0; object !== null && hops < 20; object = getPrototypeOf(object), hops++) {
    if (object === ErrorProto) return true;
  }
  return false;
};

const numberText = (value) => {
  if (value === 0) return 1 / value < 0 ? "-0.0" : "0";
  if (value - value !== 0) throw unwritable(`${value} is not a JSON number`, "replace it by null or by text before it leaves the cell");
  return "" + value;
};

const bigIntText = (value) => {
  if (value > BIGGEST || value < SMALLEST) throw tooLarge("an integer of more than 14000 bits is over the bound");
  return bigText(value);
};

// One JSON text for a value, or a refusal. Iterative, because the guest's stack is the program's to fill.
const encode = (root) => {
  const out = list();
  const owners = list(), names = list(), places = list();
  let size = 0, nodes = 0, depth = 0;

  const where = () => {
    let path = "";
    for (let i = 0; i < depth; i++) {
      const at = places[i] - 1;
      path += names[i] === null ? `[${at}]` : at < 0 ? "" : `.${names[i][at]}`;
    }
    return path === "" ? "the value" : "value" + slice(path, 0, 200);
  };
  const put = (piece) => {
    size += piece.length;
    if (size > MAX_SIZE) throw tooLarge(`the value takes more than ${MAX_SIZE} bytes once written out`);
    out[out.length] = piece;
  };
  const enter = (value, keys) => {
    for (let i = 0; i < depth; i++) {
      if (owners[i] === value) throw unwritable("the value contains itself", "JSON has no way to write a circular value");
    }
    if (depth >= MAX_DEPTH) throw tooLarge(`the value is nested deeper than ${MAX_DEPTH} levels`);
    if (nodes + (keys === null ? value.length : keys.length) > MAX_NODES) throw tooLarge(`the value has more than ${MAX_NODES} parts once written out`);
    owners[depth] = value; names[depth] = keys; places[depth] = 0;
    depth++;
    put(keys === null ? "[" : "{");
  };
  const emit = (value, prefix) => {
    if (++nodes > MAX_NODES) throw tooLarge(`the value has more than ${MAX_NODES} parts once written out`);
    for (let converted = false; ; converted = true) {
      switch (typeof value) {
        case "string":
          if (value.length > MAX_SIZE) throw tooLarge(`a text of ${value.length} characters is over the bound of ${MAX_SIZE} bytes`);
          return put(prefix + text(value));
        case "number": return put(prefix + numberText(value));
        case "boolean": return put(prefix + (value ? "true" : "false"));
        case "undefined": return put(prefix + "null");
        case "bigint": return put(prefix + bigIntText(value));
        case "function": throw unwritable(`${where()} is a function, which cannot be written in JSON`, "return data, not a function");
        case "symbol": throw unwritable(`${where()} is a symbol, which cannot be written in JSON`, "use text instead");
      }
      if (value === null) return put(prefix + "null");
      const proto = getPrototypeOf(value);
      const array = proto === ArrayProto || isArray(value);
      if (!array && proto !== ObjectProto && proto !== null) {
        const kind = kindOf(value, proto);
        switch (kind) {
          case "Date": {
            const time = getTime(value);
            if (time !== time) throw unwritable(`${where()} is an invalid Date`, "check the text that it was made from");
            return put(prefix + text(toISO(value)));
          }
          case "Promise": throw unwritable(`${where()} is a Promise`, "add `await` in front of the call that made it");
          case "Map": throw unwritable(`${where()} is a Map`, "use Object.fromEntries(map)");
          case "bytes": throw unwritable(`${where()} holds raw bytes`, "use Array.from(bytes), or encode it as text");
          case "RegExp": case "weak reference": throw unwritable(`${where()} is a ${kind}`, "return plain data");
          case "Number": value = numberOf(value); continue;
          case "String": value = stringOf(value); continue;
          case "Boolean": value = booleanOf(value); continue;
          case "Set": {
            if (setSize(value) > MAX_NODES) throw tooLarge(`the value has more than ${MAX_NODES} parts once written out`);
            const items = [];
            setEach(value, (item) => { defineProperty(items, items.length, { __proto__: null, value: item, writable: true, enumerable: true, configurable: true }); });
            put(prefix);
            return enter(items, null);
          }
          case "Error": {
            value = { __proto__: null, name: `${value.name}`, message: `${value.message}` };
            put(prefix);
            return enter(value, enumerableKeys(value));
          }
        }
      }
      if (!converted) {
        const convert = value.toJSON;
        if (typeof convert === "function") { value = apply(convert, value, [""]); continue; }
      }
      put(prefix);
      return enter(value, array ? null : enumerableKeys(value));
    }
  };

  emit(root, "");
  while (depth > 0) {
    const top = depth - 1, owner = owners[top], keys = names[top];
    const place = places[top]++;
    if (place >= (keys === null ? owner.length : keys.length)) {
      put(keys === null ? "]" : "}");
      depth--;
      continue;
    }
    const last = out[out.length - 1];
    const comma = last === "[" || last === "{" ? "" : ",";
    if (keys === null) { emit(owner[place], comma); continue; }
    const item = owner[keys[place]];
    if (item !== undefined) emit(item, comma + text(keys[place]) + ":");
  }
  return join(out, "");
};

// -- values on their way in -------------------------------------------------------------------------------------------

// `bigs` are [path, decimal] of the integers that a number cannot hold; JSON.parse has rounded those.
const restore = (holder, bigs) => {
  for (let i = 0; i < bigs.length; i++) {
    const path = bigs[i][0];
    let object = holder;
    for (let j = 0; j < path.length - 1; j++) object = object[path[j]];
    defineProperty(object, path[path.length - 1], { __proto__: null, value: PBigInt(bigs[i][1]), writable: true, enumerable: true, configurable: true });
  }
};

// -- text for people --------------------------------------------------------------------------------------------------

const SHOWN_DEPTH = 3, SHOWN_ITEMS = 100, SHOWN_TEXT = 10000, SHOWN_SIZE = 200000, LINE = 72;

const show = (root) => {
  let budget = SHOWN_SIZE;
  const parents = list();

  const quoted = (value) => {
    const cut = value.length > SHOWN_TEXT ? slice(value, 0, SHOWN_TEXT) : value;
    const more = cut === value ? "" : `... ${value.length - SHOWN_TEXT} more characters`;
    const plain = text(cut);
    return (indexOf(cut, "'") < 0 && indexOf(plain, "\\") < 0 ? `'${cut}'` : plain) + more;
  };
  const keyText = (key) => {
    if (typeof key === "symbol") return `[${describeSymbol(key)}]`;
    for (let i = 0; i < key.length; i++) {
      const c = codeAt(key, i);
      const letter = c >= 97 && c <= 122 || c >= 65 && c <= 90 || c === 95 || c === 36 || c > 127;
      if (!letter && !(i > 0 && c >= 48 && c <= 57)) return quoted(key);
    }
    return key === "" ? "''" : key;
  };
  const block = (open, parts, close, indent) => {
    if (parts.length === 0) return open + close;
    const line = join(parts, ", ");
    if (line.length <= LINE && indexOf(line, "\n") < 0) return `${open} ${line} ${close}`;
    const pad = repeat(" ", indent + 2);
    return `${open}\n${pad}${join(parts, ",\n" + pad)}\n${repeat(" ", indent)}${close}`;
  };
  const leaf = (value) => {
    switch (typeof value) {
      case "string": return quoted(value);
      case "number": return value === 0 && 1 / value < 0 ? "-0" : "" + value;
      case "bigint": return value > BIGGEST || value < SMALLEST ? "[BigInt]" : bigText(value) + "n";
      case "symbol": return describeSymbol(value);
      case "function": {
        const name = own(value, "name");
        const label = typeof name === "string" && name !== "" ? `: ${name}` : " (anonymous)";
        return startsWith(sourceOf(value), "class") ? `[class${label}]` : `[Function${label}]`;
      }
      default: return "" + value;
    }
  };
  const walk = (value, depth, indent) => {
    if (typeof value !== "object" || value === null) {
      const shown = leaf(value);
      budget -= shown.length;
      return shown;
    }
    for (let i = 0; i < depth; i++) if (parents[i] === value) return "[Circular *]";
    const proto = getPrototypeOf(value);
    const array = isArray(value);
    const kind = array || proto === ObjectProto || proto === null ? "object" : kindOf(value, proto);
    let label = "";
    switch (kind) {
      case "Date": { const time = getTime(value); return time === time ? toISO(value) : "Invalid Date"; }
      case "RegExp": return regExpText(value);
      case "Number": return `[Number: ${numberOf(value)}]`;
      case "String": return `[String: ${quoted(stringOf(value))}]`;
      case "Boolean": return `[Boolean: ${booleanOf(value)}]`;
      case "Promise": return "Promise { <pending or settled> }";
      case "bytes": label = "bytes "; break;
      case "Error": {
        const stack = own(value, "stack");
        return typeof stack === "string" && stack !== "" ? stack : `${dataName(value)}: ${own(value, "message")}`;
      }
    }
    if (proto !== null && proto !== ObjectProto && !array && label === "" && kind === "object") {
      const maker = own(proto, "constructor");
      const name = typeof maker === "function" ? own(maker, "name") : undefined;
      if (typeof name === "string" && name !== "") label = name + " ";
    } else if (proto === null) label = "[Object: null prototype] ";
    if (depth >= SHOWN_DEPTH || budget <= 0) return array ? "[Array]" : `[${label === "" ? kind === "object" ? "Object" : kind : slice(label, 0, -1)}]`;
    parents[depth] = value;
    const parts = list();
    let total = 0;
    const add = (part) => { if (parts.length < SHOWN_ITEMS && budget > 0) parts[parts.length] = part(); };
    if (kind === "Map") {
      label = `Map(${total = mapSize(value)}) `;
      mapEach(value, (item, key) => add(() => `${walk(key, depth + 1, indent + 2)} => ${walk(item, depth + 1, indent + 2)}`));
    } else if (kind === "Set") {
      label = `Set(${total = setSize(value)}) `;
      setEach(value, (item) => add(() => walk(item, depth + 1, indent + 2)));
    } else if (array) {
      total = value.length;
      for (let i = 0; i < total && i < SHOWN_ITEMS && budget > 0; i++) add(() => walk(value[i], depth + 1, indent + 2));
    } else {
      const keys = enumerableKeys(value);
      total = keys.length;
      for (let i = 0; i < total && i < SHOWN_ITEMS && budget > 0; i++) {
        const found = getOwnPropertyDescriptor(value, keys[i]);
        if (found === undefined) continue;
        const part = found.get !== undefined || found.set !== undefined ? "[Getter/Setter]" : walk(found.value, depth + 1, indent + 2);
        add(() => `${keyText(keys[i])}: ${part}`);
        budget -= keys[i].length;
      }
    }
    parents[depth] = null;
    if (total > parts.length) parts[parts.length] = `... ${total - parts.length} more items`;
    return array ? block("[", parts, "]", indent) : block(label + "{", parts, "}", indent);
  };
  return walk(root, 0, 0);
};

const shown = (value) => (typeof value === "string" ? value : show(value));

const format = (args) => {
  let line = "", next = 0;
  if (args.length > 1 && typeof args[0] === "string" && indexOf(args[0], "%") >= 0) {
    const pieces = split(args[0], "%");
    next = 1;
    line = pieces[0];
    for (let i = 1; i < pieces.length; i++) {
      const piece = pieces[i], mark = piece === "" ? "" : piece[0];
      if (piece === "" && i + 1 < pieces.length) { line += "%" + pieces[++i]; continue; }
      if (next >= args.length || indexOf("sdifjoOc", mark) < 0 || mark === "") { line += "%" + piece; continue; }
      const value = args[next++], rest = slice(piece, 1);
      if (mark === "s") line += shown(value) + rest;
      else if (mark === "d" || mark === "i" || mark === "f") line += (typeof value === "bigint" ? `${bigIntText(value)}n` : mark === "i" ? trunc(+value) : +value) + rest;
      else if (mark === "j") line += encode(value) + rest;
      else if (mark === "c") line += rest;
      else line += show(value) + rest;
    }
    if (next < args.length) line += " ";
  }
  for (let i = next; i < args.length; i++) line += (i > next ? " " : "") + shown(args[i]);
  return line;
};

const LONGEST_LINE = 1 << 20;
const print = (stream, args) => {
  let line;
  try {
    line = format(args);
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === null) throw error;
    line = `[${refusal.message}]`;
  }
  if (line.length > LONGEST_LINE) line = slice(line, 0, LONGEST_LINE) + `... ${line.length - LONGEST_LINE} more characters`;
  send(stream, (wellFormed(line) ? line : toWellFormed(line)) + "\n");
};

// -- calls ------------------------------------------------------------------------------------------------------------

const MAX_CALLS = 10000, MAX_CALL_SIZE = 8 << 20;
const pending = new PMap(); // number -> {resolve, reject, name, frames} or {run} for a timer
let made = 0, fresh = list(), freshSize = 0, inNames = false;
let failure = null;         // what a timer's callback threw

const announce = (record, piece) => {
  if (fresh.length >= MAX_CALLS) throw new PRangeError(`more than ${MAX_CALLS} calls at once: await some of them first`);
  record.number = ++made;
  record.piece = `{"number":${made},${piece}}`;
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
  if (count === 1 && pieces[0][0] === "{") return `"kwargs":${pieces[0]}`;
  return `"args":[${join(pieces, ",")}]`;
};

const note = (name, args) => {
  const { frames, stack } = sites();
  let piece = `"name":${text(name)},`;
  try {
    const given = argumentsText(args);
    if (given.length + freshSize > MAX_CALL_SIZE) throw tooLarge("the arguments of the calls made at once are too large");
    piece += given;
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === null) throw error;
    piece += `"refused":{"message":${text(refusal.message)},"hint":${text(refusal.hint)}}`;
  }
  return new P((resolve, reject) => announce({ __proto__: null, resolve, reject, name, frames, stack }, piece));
};

const seconds = (ms) => {
  const given = +ms;
  return numberText(given > 0 && given - given === 0 ? given / 1000 : 0);
};
const timer = (record, ms) => announce(record, `"name":"sleep","kind":"timer","args":[${seconds(ms)}]`);

const callError = (record, given) => {
  const error = new PError(given.message);
  hidden(error, "name", "ToolError");
  hidden(error, "code", given.code);
  hidden(error, "tool", record.name);
  hidden(error, "hint", given.hint);
  const at = typeof record.stack === "string" ? indexOf(record.stack, "\n") : -1;
  hidden(error, "stack", `ToolError: ${given.message}` + (at < 0 ? "" : slice(record.stack, at)));
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
  const hint = near === "" ? "see the list of tools" : `did you mean \`${near}\`?`;
  const { frames, stack } = sites();
  const error = callError({ __proto__: null, name, frames, stack }, { __proto__: null, code: "UNKNOWN_TOOL", message: `there is no tool \`${name}\``, hint });
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

// -- globals that programs expect ---------------------------------------------------------------------------------------

const out = function () { print("stdout", arguments); };
const err = function () { print("stderr", arguments); };
const quiet = () => undefined;
const console = {
  log: out, info: out, debug: out, dir: (value) => print("stdout", [value]), table: (value) => print("stdout", [value]),
  warn: err, error: err, trace: err,
  assert: function (holds) { if (!holds) print("stderr", arguments.length > 1 ? ["Assertion failed:", arguments[1]] : ["Assertion failed"]); },
  group: out, groupEnd: quiet, time: quiet, timeEnd: quiet, timeLog: quiet, count: quiet,
};
const setTimeout = function (run, ms) {
  if (typeof run !== "function") throw new PTypeError("setTimeout needs a function");
  const args = list();
  for (let i = 2; i < arguments.length; i++) args[i - 2] = arguments[i];
  const record = { __proto__: null, run, args };
  timer(record, ms);
  return record.number;
};
const clearTimeout = (number) => {
  const record = mapGet(pending, number);
  if (record === undefined || record.run === undefined) return;
  mapDelete(pending, number);
  record.piece = "";
};
const sleep = (ms) => new P((resolve) => timer({ __proto__: null, resolve }, ms));

// sfc32: small, fast, and its whole state is four words of the image.
let a = 0, b = 0, c = 0, d = 1;
const word = () => {
  const t = (a + b | 0) + d | 0;
  d = d + 1 | 0;
  a = b ^ b >>> 9;
  b = c + (c << 3) | 0;
  c = (c << 21 | c >>> 11) + t | 0;
  return t >>> 0;
};
const random = () => ((word() >>> 5) * 67108864 + (word() >>> 6)) / 9007199254740992;

const { now } = Date;
const provide = (name, value) => { hidden(G, name, value); builtin[name] = value; if (typeof value === "function") weakSet(ours, value, true); };
hidden(G, "console", console);
hidden(G, "setTimeout", setTimeout);
hidden(G, "clearTimeout", clearTimeout);
provide("print", out);
provide("sleep", sleep);
hidden(G, "tools", tools);
hidden(Math, "random", random);
hidden(G, "performance", freeze({ __proto__: null, now: () => now(), timeOrigin: 0 }));

// -- the protocol -----------------------------------------------------------------------------------------------------

let meta = "", wantsValue = true;

const fresh_calls = () => {
  const pieces = list();
  for (let i = 0; i < fresh.length; i++) {
    // A timer that was cleared before anybody heard of it never was.
    if (fresh[i].piece !== "") pieces[pieces.length] = fresh[i].piece;
    fresh[i].piece = undefined;
  }
  fresh = list(); freshSize = 0;
  return `[${join(pieces, ",")}]`;
};

const forget = () => { mapClear(pending); fresh = list(); freshSize = 0; failure = null; meta = ""; };

const nameIn = (message, tail) => {
  const at = indexOf(message, tail);
  if (at <= 0) return "";
  const name = slice(message, 0, at);
  return name[0] === "'" ? slice(name, 1, -1) : name;
};

const hintFor = (name, message) => {
  if (name === "ReferenceError") {
    if (indexOf(message, "module") > 0) return "there are no modules here: tools are global";
    const missing = nameIn(message, " is not defined");
    if (missing === "") return "";
    const globals = ownKeys(G), names = list();
    for (let i = 0; i < known.length; i++) names[names.length] = known[i];
    for (let i = 0; i < globals.length; i++) if (typeof globals[i] === "string") names[names.length] = globals[i];
    const near = closest(missing, names);
    if (near !== "") return `did you mean \`${near}\`?`;
    const absentApi = { __proto__: null, fetch: "the network is reached through tools only", require: "there are no modules: tools are global", process: "programs run sealed: there is no process", Buffer: "use btoa, atob and text", crypto: "ask a tool for an id or a digest", setInterval: "use a loop with `await sleep(ms)`" };
    return absentApi[missing] === undefined ? "" : absentApi[missing];
  }
  if (name === "TypeError" && indexOf(message, "of undefined") > 0) return "if the value comes from a tool, add `await` in front of the call";
  return "";
};

const read = (object, name) => {
  try {
    const value = object[name];
    return typeof value === "string" ? value : undefined;
  } catch { return undefined; }
};

const MESSAGE = 4000;
const cut = (message) => (message.length > MESSAGE ? slice(message, 0, MESSAGE) + "..." : message);

const errorReport = (thrown) => {
  let message, frames = "", code = "", hint = "", name = "";
  const object = typeof thrown === "object" && thrown !== null || typeof thrown === "function";
  const known_failure = object && weakHas(toolErrors, thrown) ? weakGet(toolErrors, thrown) : null;
  if (object && weakHas(framesOf, thrown)) frames = weakGet(framesOf, thrown);
  if (object && brand(isError, thrown) && isError(thrown)) {
    name = read(thrown, "name") || "Error";
    const told = read(thrown, "message") || "";
    message = known_failure !== null || told === "" ? told || name : `${name}: ${told}`;
    hint = hintFor(name, told);
  } else {
    let seen = "a value";
    try { seen = show(thrown); } catch { /* a value that cannot even be looked at */ }
    message = `Uncaught ${seen}`;
    hint = "throw an Error, so that its place is known";
  }
  if (known_failure !== null) { code = known_failure.code; hint = known_failure.hint || ""; }
  const parts = `"name":${text(cut(name))},"message":${text(cut(message))},"frames":${text(frames)},"hint":${text(cut(hint))}`;
  return `{"error":{${parts},"code":${text(code)}},"meta":${meta === "" ? "null" : meta},"calls":`;
};

const failed = (thrown) => {
  const head = errorReport(thrown);
  const report = head + fresh_calls() + "}";
  forget();
  return report;
};

return [
  // seed: two words, once per session
  (given) => {
    const words = parse(given);
    a = words[0] | 0; b = words[1] | 0; c = 0x9e3779b9 | 0; d = 1;
    for (let i = 0; i < 12; i++) word();
    return "";
  },
  // begin: a cell is about to run
  (given) => {
    const { names, inputs, bigs, meta: place, value } = parse(given);
    forget();
    made = 0; meta = stringify(place); wantsValue = value;
    if (names) install(names);
    if (bigs) restore(inputs, bigs);
    const keys = enumerableKeys(inputs);
    for (let i = 0; i < keys.length; i++) {
      const item = { __proto__: null, value: inputs[keys[i]], writable: true, enumerable: true, configurable: true };
      // A `var` of an earlier cell cannot be redefined, only assigned.
      if (!defineProperty(G, keys[i], item)) defineProperty(G, keys[i], { __proto__: null, value: item.value });
    }
    return "";
  },
  // settle: answers to pending calls, in the order in which they came
  (given) => {
    const { settled, bigs, names } = parse(given);
    if (names) install(names);
    if (bigs) restore(settled, bigs);
    for (let i = 0; i < settled.length; i++) {
      const answer = settled[i], record = mapGet(pending, answer.number);
      if (record === undefined) continue;
      mapDelete(pending, answer.number);
      if (record.run !== undefined) {
        try { apply(record.run, undefined, record.args); } catch (error) { if (failure === null) failure = { __proto__: null, error }; }
      } else if (answer.error !== null) record.reject(callError(record, answer.error));
      else record.resolve(answer.value);
    }
    return "";
  },
  // waiting: the program has not ended; what it asks for, or that it never will end
  () => {
    if (failure !== null) return failed(failure.error);
    const calls = fresh_calls(), numbers = list();
    mapEach(pending, (_, number) => { numbers[numbers.length] = number; });
    if (numbers.length === 0) { forget(); return '{"deadlock":true}'; }
    return `{"wait":[${join(numbers, ",")}],"calls":${calls}}`;
  },
  // finished: the program's value
  (envelope) => {
    if (failure !== null) return failed(failure.error);
    let report;
    try {
      report = `{"done":${wantsValue ? encode(envelope.value) : "null"},"calls":`;
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal === null) return failed(error);
      report = `{"refused":{"code":"${refusal.code}","message":${text(refusal.message)},"hint":${text(refusal.hint)}},"calls":`;
    }
    report += fresh_calls() + "}";
    forget();
    return report;
  },
  // failed: what the program did not catch
  failed,
  // standing: how names stand on the global object: 0 absent, 1 put there by us, 2 the language's or the program's
  (given) => {
    const names = parse(given), found = list();
    for (let i = 0; i < names.length; i++) {
      const at = getOwnPropertyDescriptor(G, names[i]);
      found[i] = at === undefined ? "0" : isOurs(at.value) ? "1" : "2";
    }
    return `[${join(found, ",")}]`;
  },
];
})
