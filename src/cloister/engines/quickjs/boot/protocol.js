// Part 10: what the worker calls. Each function takes one text and returns one JSON text, or "".

let meta = "", wantsValue = true;

const freshCalls = () => {
  const pieces = list();
  for (let i = 0; i < fresh.length; i++) {
    // A timer that was cleared before anybody heard of it never was.
    if (fresh[i].piece !== "") pieces[pieces.length] = fresh[i].piece;
    fresh[i].piece = undefined;
  }
  fresh = list(); freshSize = 0;
  return "[" + join(pieces, ",") + "]";
};

const forget = () => {
  mapClear(pending); fresh = list(); freshSize = 0; failure = null; meta = ""; leaving = false;
};

// The program asked to end: that is a success, whatever became of it since.
const left = () => {
  const report = '{"done":null,"calls":' + freshCalls() + "}";
  forget();
  return report;
};

const nameIn = (message, tail) => {
  const at = indexOf(message, tail);
  if (at <= 0) return "";
  const name = slice(message, 0, at);
  return name[0] === "'" ? slice(name, 1, -1) : name;
};

// What programs look for here in vain, and what to do instead.
const ELSEWHERE = {
  __proto__: null,
  fetch: "the network is reached through tools only",
  require: "there are no modules: tools are global",
  process: "programs run sealed: there is no process",
  fs: "the session's files are reached through `files`: files.read(path), files.write(path, content)",
  Deno: "the session's files are reached through `files`: files.read(path), files.write(path, content)",
  Buffer: "use btoa, atob and text",
  crypto: "ask a tool for an id or a digest",
  setInterval: "use a loop with `await sleep(ms)`",
};

const hintFor = (name, message) => {
  if (name === "ReferenceError") {
    if (indexOf(message, "module") > 0) return "there are no modules here: tools are global";
    const missing = nameIn(message, " is not defined");
    if (missing === "") return "";
    const globals = ownKeys(G), names = known();
    for (let i = 0; i < globals.length; i++) if (typeof globals[i] === "string") names[names.length] = globals[i];
    const near = closest(missing, names);
    if (near !== "") return "did you mean `" + near + "`?";
    return ELSEWHERE[missing] === undefined ? "" : ELSEWHERE[missing];
  }
  if (name === "TypeError" && indexOf(message, "of undefined") > 0 && mapSize(pending) > 0) {
    return "if the value comes from a tool, add `await` in front of the call";
  }
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
  const fault = object && weakHas(toolErrors, thrown) ? weakGet(toolErrors, thrown) : null;
  if (object && weakHas(framesOf, thrown)) frames = weakGet(framesOf, thrown);
  if (object && brand(isError, thrown) && isError(thrown)) {
    name = read(thrown, "name") || "Error";
    const told = read(thrown, "message") || "";
    message = fault !== null || told === "" ? told || name : name + ": " + told;
    hint = hintFor(name, told);
  } else {
    let seen = "a value";
    try { seen = show(thrown); } catch { /* a value that cannot even be looked at */ }
    message = "Uncaught " + seen;
    hint = "throw an Error, so that its place is known";
  }
  if (fault !== null) { code = fault.code; hint = fault.hint || ""; }
  const told = '"name":' + text(cut(name)) + ',"message":' + text(cut(message)) + ',"hint":' + text(cut(hint));
  const parts = told + ',"frames":' + text(frames);
  return '{"error":{' + parts + ',"code":' + text(code) + '},"meta":' + (meta === "" ? "null" : meta) + ',"calls":';
};

const failed = (thrown) => {
  if (leaving) return left();
  const head = errorReport(thrown);
  const report = head + freshCalls() + "}";
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
    const { catalog: news, mentioned, inputs, bigs, meta: place, value, calls } = parse(given);
    forget();
    // QuickJS itself hands over a cell's result by assigning to `value`, and asks it for `then`.
    deleteProperty(ObjectProto, "value");
    deleteProperty(ObjectProto, "then");
    made = 0; toolCalls = 0; maxCalls = calls; meta = place; wantsValue = value;
    if (news !== null) install(news);
    for (let i = 0; i < mentioned.length; i++) offer(mentioned[i]);
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
    const { settled, bigs, catalog: news, calls } = parse(given);
    maxCalls = calls;
    if (news !== null) install(news);
    if (bigs) restore(settled, bigs);
    for (let i = 0; i < settled.length && !leaving; i++) {
      const answer = settled[i], record = mapGet(pending, answer.number);
      if (record === undefined) continue;
      mapDelete(pending, answer.number);
      if (record.run !== undefined) {
        try {
          apply(record.run, undefined, record.args);
        } catch (error) {
          if (failure === null) failure = { __proto__: null, error };
        }
      } else if (answer.error !== null) record.reject(callError(record, answer.error));
      else record.resolve(answer.value);
    }
    return "";
  },
  // waiting: the program has not ended; what it asks for, or that it never will end
  () => {
    if (leaving) return left();
    if (failure !== null) return failed(failure.error);
    const calls = freshCalls(), numbers = list();
    mapEach(pending, (_, number) => { numbers[numbers.length] = number; });
    if (numbers.length === 0) { forget(); return '{"deadlock":true}'; }
    return '{"wait":[' + join(numbers, ",") + '],"calls":' + calls + "}";
  },
  // finished: the program's value
  (envelope) => {
    if (leaving) return left();
    if (failure !== null) return failed(failure.error);
    let report;
    try {
      const result = getOwnPropertyDescriptor(envelope, "value");
      if (result === undefined) throw unwritable("the result was lost", "do not define `value` on Object.prototype");
      report = '{"done":' + (wantsValue ? encode(result.value) : "null") + ',"calls":';
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal === null) return failed(error);
      const why = '","message":' + text(refusal.message) + ',"hint":' + text(refusal.hint);
      report = '{"refused":{"code":"' + refusal.code + why + '},"calls":';
    }
    // What a program puts in the place of a value (toJSON) is its own code.
    if (leaving) return left();
    report += freshCalls() + "}";
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
    return "[" + join(found, ",") + "]";
  },
];
