// Part 2: errors. Where they were thrown, kept out of the program's reach; and what was meant by a misspelt name.

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
    if (CallSite.native(site)) { text += "\n    at " + name + " (native)"; continue; }
    const file = CallSite.file(site), line = CallSite.line(site), column = CallSite.column(site);
    if (file !== "eval_script") continue; // ours: the boot source is evaluated like the text given to eval()
    text += "\n    at " + name + " (cell:" + (line - 1) + ":" + column + ")";
    frames += name + "\t" + line + "\t" + column + "\n";
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
const constant = (value) => ({ __proto__: null, value, writable: false, enumerable: false, configurable: false });
defineProperty(PError, "prepareStackTrace", constant(undefined));
defineProperty(PError, "stackTraceLimit", constant(20));

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
    const longer = other.length - name.length;
    if (other === name || name.length > 60 || other.length > 60 || longer >= least || -longer >= least) continue;
    const far = distance(name, other);
    if (far < least) { best = other; least = far; }
  }
  return best;
};
