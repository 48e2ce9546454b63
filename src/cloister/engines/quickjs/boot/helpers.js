// Part 8: helpers. What a program says to its host within a step; `consult` returns with the answer.

const IMAGE_SIZE = (8 << 20) - 1024; // of one frame
const helper = (count, takes) => ({ __proto__: null, count, takes });
const HELPERS = {
  __proto__: null,
  text: helper(1, "value"), image: helper(1, "source"), notify: helper(1, "message"), store: helper(2, "key and value"),
  load: helper(1, "key"), yield_control: helper(0, "nothing"), exit: helper(0, "nothing"),
};

// A value as text: what is text already as it is, what JSON can say as JSON, the rest as it is printed.
const said = (value) => {
  switch (typeof value) {
    case "string": return value;
    case "number": case "boolean": case "undefined": return "" + value;
    case "function": case "symbol": return show(value);
  }
  if (brand(isError, value) && isError(value)) {
    const name = read(value, "name") || "Error", told = read(value, "message") || "";
    return told === "" ? name : name + ": " + told;
  }
  try {
    const written = encode(value);
    return written[0] === '"' ? parse(written) : written;
  } catch (error) {
    if (refusalOf(error) === null) throw error;
    return show(value);
  }
};

const plainly = (name, value, most) => {
  try {
    if (value === undefined) throw unwritable("undefined cannot be written in JSON", "use null");
    return encode(value, most);
  } catch (error) {
    const refusal = refusalOf(error);
    throw refusal === null ? error : new PTypeError(name + ": " + refusal.message);
  }
};

const keyText = (name, key) => {
  if (typeof key !== "string") throw new PTypeError(name + ": the key is text, not " + typeof key);
  return text(key);
};

const pieces = (name, args) => {
  switch (name) {
    case "text": case "notify": return text(bounded(said(args[0])));
    case "image": return plainly(name, args[0], IMAGE_SIZE);
    case "store": return keyText(name, args[0]) + "," + plainly(name, args[1], MAX_SIZE);
    case "load": return keyText(name, args[0]);
    default: return "";
  }
};

const help = (name, args) => {
  if (leaving) throw LEFT;
  const { count, takes } = HELPERS[name];
  if (args.length !== count) throw new PTypeError(name + "() takes " + takes);
  if (name === "exit") { leaving = true; throw LEFT; }
  const given = pieces(name, args);
  // Looking at the arguments may have run the program's own code.
  if (leaving) throw LEFT;
  const { answer, bigs } = parse(consult('{"name":"' + name + '","args":[' + given + "]}"));
  if (answer.refused !== null) throw new PTypeError(answer.refused);
  if (bigs) restore(answer, bigs);
  return name === "load" ? answer.value : undefined;
};

const helperNames = enumerableKeys(HELPERS);
const offered = create(null); // what stands on the global object for each of them, and `files`
for (let i = 0; i < helperNames.length; i++) {
  const name = helperNames[i];
  const call = function () { return help(name, arguments); };
  hidden(call, "name", name);
  weakSet(ours, call, true);
  offered[name] = freeze(call);
}
offered.files = files;

let helpers = " ";
const equip = (given) => {
  helpers = given;
  const names = enumerableKeys(offered);
  for (let i = 0; i < names.length; i++) {
    const name = names[i], value = offered[name];
    const has = indexOf(helpers, " " + name + " ") >= 0;
    builtin[name] = has ? value : undefined;
    if (!has && own(G, name) === value) deleteProperty(G, name);
    // A program's own variable wins.
    if (has && getOwnPropertyDescriptor(G, name) === undefined) hidden(G, name, value);
  }
};
// Most sessions have all of them: here they cost nothing, and no byte of any image.
equip(" exit files image load notify store text yield_control ");
