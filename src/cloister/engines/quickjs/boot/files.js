// Part 7: files. An object `files` whose functions ask the host within a step and return plain values at once.

const MOST_BYTES = 16 << 20, LONGEST_PATH = 4096, SHOWN_PATH = 200;
const PUint8Array = Uint8Array, { fromBase64 } = Uint8Array;
const TypedArrayProto = getPrototypeOf(Uint8Array.prototype);
const arrayKind = getter(TypedArrayProto, Symbol.toStringTag), byteCount = getter(TypedArrayProto, "length");
const toBase64 = bare(Uint8Array.prototype.toBase64);
const isBytes = (value) => typeof value === "object" && value !== null && arrayKind(value) === "Uint8Array";

const fileError = (code, message) => {
  const error = new PError(message);
  const stack = own(error, "stack"), at = typeof stack === "string" ? indexOf(stack, "\n") : -1;
  hidden(error, "name", "FileError");
  hidden(error, "code", code);
  hidden(error, "stack", "FileError: " + message + (at < 0 ? "" : slice(stack, at)));
  return error;
};
const askHost = (name, given) => {
  // Looking at the arguments may have run the program's own code.
  if (leaving) throw LEFT;
  return parse(consult('{"name":"files.' + name + '","args":[' + given + "]}")).answer;
};
const ask = (name, given) => {
  const { value, refused, code } = askHost(name, given);
  if (refused !== null) throw fileError(code, refused);
  return value;
};

const wrong = (name, what) => new PTypeError("files." + name + ": " + what);
const typeName = (value) => (value === null ? "null" : isArray(value) ? "a list" : typeof value);
const shortened = (path) => {
  const cut = path.length > SHOWN_PATH ? slice(path, 0, SHOWN_PATH) + "..." : path;
  return "'" + toWellFormed(cut) + "'";
};
const pathText = (name, path) => {
  if (typeof path !== "string") throw wrong(name, "a path is text, not " + typeName(path));
  if (path.length > LONGEST_PATH) throw fileError("FILE_INVALID_PATH", "the path is too long: " + shortened(path));
  if (!wellFormed(path)) {
    throw fileError("FILE_INVALID_PATH", "the path has half a surrogate pair in it: " + shortened(path));
  }
  return stringify(path);
};
const contentText = (name, path, content) => {
  const bytes = isBytes(content);
  if (!bytes && typeof content !== "string") {
    throw wrong(name, "the content is text or a Uint8Array, not " + typeName(content));
  }
  const size = bytes ? byteCount(content) : content.length;
  if (size > MOST_BYTES) {
    const most = " and at most " + (MOST_BYTES >> 20) + " MiB at once";
    throw fileError("FILE_TOO_LARGE", "too large for " + shortened(path) + ": " + size + " bytes," + most);
  }
  if (bytes) return '"' + toBase64(content) + '","base64"';
  if (!wellFormed(content)) {
    const why = "the text for " + shortened(path) + " has half a surrogate pair in it: give bytes";
    throw fileError("FILE_INVALID", why);
  }
  return stringify(content) + ',"text"';
};

// What `known` names, as JSON; anything else among the options is refused.
const optionsText = (name, given, known) => {
  const found = create(null), names = enumerableKeys(known);
  if (given === undefined) return found;
  if (typeof given !== "object" || given === null || isArray(given)) throw wrong(name, "the options are an object");
  const keys = enumerableKeys(given);
  for (let i = 0; i < keys.length; i++) {
    const kind = known[keys[i]], value = given[keys[i]];
    if (kind === undefined) throw wrong(name, "there is no option `" + slice(keys[i], 0, 60) + "`: " + join(names, ", "));
    if (value === undefined) continue;
    const fits = kind === "path" ? typeof value === "string" : kind === "count" ? value > 0 && value <= SAFE
      && trunc(value) === value && typeof value === "number" : typeof value === kind;
    if (!fits) throw wrong(name, "the option `" + keys[i] + "` is " + OPTION_KINDS[kind]);
    found[keys[i]] = kind === "path" ? pathText(name, value) : kind === "string" ? text(value) : "" + value;
  }
  return found;
};
const OPTION_KINDS = {
  __proto__: null, string: "text", path: "text", boolean: "true or false", count: "a whole number above zero",
};
const given = (found, name, otherwise) => (found[name] === undefined ? otherwise : found[name]);

const files = create(null);
const file = (name, least, most, takes, run) => {
  const call = function (a, b, c) {
    if (leaving) throw LEFT;
    if (arguments.length < least || arguments.length > most) throw wrong(name, "takes " + takes);
    return run(a, b, c);
  };
  hidden(call, "name", name);
  files[name] = freeze(call);
};
const writer = (name, mode) => file(name, 2, 2, "a path and the content", (path, content) => {
  const where = pathText(name, path);
  return ask("write", where + "," + contentText(name, path, content) + ',"' + mode + '"');
});
const carrier = (name) => file(name, 2, 2, "two paths", (source, target) => {
  ask(name, pathText(name, source) + "," + pathText(name, target));
});

file("read", 1, 1, "a path", (path) => ask("read", pathText("read", path) + ',"text"'));
file("read_bytes", 1, 1, "a path", (path) => {
  return apply(fromBase64, PUint8Array, [ask("read", pathText("read_bytes", path) + ',"base64"')]);
});
writer("write", "w");
writer("append", "a");
file("write_if_match", 3, 3, "a path, the content, and the hash of what is there or null", (path, content, hash) => {
  const name = "write_if_match", where = pathText(name, path) + "," + contentText(name, path, content) + ",";
  if (hash !== null && typeof hash !== "string") throw wrong(name, "the hash is text, or null if nothing is there");
  return ask(name, where + (hash === null ? "null" : text(slice(hash, 0, 1000))));
});
file("delete", 1, 2, "a path and {recursive}", (path, options) => {
  const found = optionsText("delete", options, { __proto__: null, recursive: "boolean" });
  return ask("delete", pathText("delete", path) + "," + given(found, "recursive", "false"));
});
file("list", 0, 1, "a path", (path) => ask("list", path === undefined ? '"."' : pathText("list", path)));
file("stat", 1, 1, "a path", (path) => ask("stat", pathText("stat", path)));
file("exists", 1, 1, "a path", (path) => {
  const { refused, code } = askHost("stat", pathText("exists", path));
  if (refused === null) return true;
  if (code === "FILE_NOT_FOUND" || code === "FILE_NOT_DIRECTORY") return false;
  throw fileError(code, refused);
});
file("mkdir", 1, 2, "a path and {parents, exist_ok}", (path, options) => {
  const found = optionsText("mkdir", options, { __proto__: null, parents: "boolean", exist_ok: "boolean" });
  const flags = given(found, "parents", "false") + "," + given(found, "exist_ok", "false");
  ask("mkdir", pathText("mkdir", path) + "," + flags);
});
carrier("move");
carrier("copy");
file("grep", 1, 2, "a pattern and {glob, literal, path, limit}", (pattern, options) => {
  if (typeof pattern !== "string") throw wrong("grep", "the pattern is text, like \"a+b\", not " + typeName(pattern));
  const known = { __proto__: null, glob: "string", literal: "boolean", path: "path", limit: "count" };
  const found = optionsText("grep", options, known), keys = enumerableKeys(found), pieces = list();
  for (let i = 0; i < keys.length; i++) pieces[i] = text(keys[i]) + ":" + found[keys[i]];
  return ask("grep", text(slice(pattern, 0, LONGEST_PATH + 1)) + ",{" + join(pieces, ",") + "}");
});
weakSet(ours, freeze(files), true);
