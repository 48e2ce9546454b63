// Part 6: tools, as programs reach them: `tools.name`, `space.name`, and `name` itself where a cell mentions it.

const ours = new PWeakMap(); // functions and objects that we put on the global object
const isObject = (value) => typeof value === "function" || typeof value === "object" && value !== null;
const isOurs = (value) => isObject(value) && weakHas(ours, value);

// All names in one text, " get_order shop.buy ": a function for each would be most of a small program's image.
let catalog = " ";
let ownNames = " ";       // those of them that are Cloister's own, and do not count
let mark = "";            // the session's, in every handle of a secret
let table = create(null); // those that somebody asked for
let installed = list();   // global names that stand for something of the catalog
const builtin = { __proto__: null };

const known = () => split(slice(catalog, 1, -1), " ");
const isTool = (name) => indexOf(name, " ") < 0 && indexOf(catalog, " " + name + " ") >= 0;
const isOwn = (name) => indexOf(ownNames, " " + name + " ") >= 0;
const isSpace = (name) => name !== "" && indexOf(name, " ") < 0 && indexOf(catalog, " " + name + ".") >= 0;

const toolNamed = (name) => {
  const tool = function () { return note(name, arguments); };
  hidden(tool, "name", slice(name, indexOf(name, ".") + 1));
  weakSet(ours, tool, true);
  return freeze(tool);
};

const resolve = (name) => {
  if (table[name] === undefined) {
    if (isTool(name)) table[name] = toolNamed(name);
    else if (isSpace(name)) table[name] = room(name + ".");
  }
  return table[name];
};

const absent = (name) => function () {
  const near = closest(name, known());
  const hint = near === "" ? "see the list of tools" : "did you mean `" + near + "`?";
  const { frames, stack } = sites();
  const given = { __proto__: null, code: "UNKNOWN_TOOL", message: "there is no tool `" + name + "`", hint };
  const error = callError({ __proto__: null, name, frames, stack }, given);
  return new P((_, reject) => reject(error));
};

// Names that the language itself asks an object for: no call of a tool is meant by those.
const NOT_TOOLS = {
  __proto__: null, then: true, toJSON: true, constructor: true, toString: true, valueOf: true, length: true, name: true,
  prototype: true, caller: true, arguments: true,
};
const never = () => false;

// An object that has every name which begins with `prefix`, up to the next dot.
const room = (prefix) => {
  const find = (key) => (typeof key === "string" && key !== "" ? resolve(prefix + key) : undefined);
  const proxy = new PProxy(create(null), {
    __proto__: null,
    get: (_, key) => {
      const found = find(key);
      return found !== undefined || typeof key !== "string" || NOT_TOOLS[key] === true ? found : absent(prefix + key);
    },
    has: (_, key) => find(key) !== undefined,
    ownKeys: () => {
      const all = known(), keys = create(null);
      for (let i = 0; i < all.length; i++) {
        if (all[i] === "" || !startsWith(all[i], prefix)) continue;
        const rest = slice(all[i], prefix.length), dot = indexOf(rest, ".");
        keys[dot < 0 ? rest : slice(rest, 0, dot)] = true;
      }
      return enumerableKeys(keys);
    },
    getOwnPropertyDescriptor: (_, key) => {
      const value = find(key);
      return value === undefined ? undefined : data(value, true);
    },
    set: never, defineProperty: never, deleteProperty: never, setPrototypeOf: never,
  });
  weakSet(ours, proxy, true);
  return proxy;
};
const tools = room("");

const offer = (name) => {
  const value = name === "tools" ? undefined : resolve(name);
  if (value === undefined) return;
  // A program's own variable of that name wins; so do the language's globals.
  const found = getOwnPropertyDescriptor(G, name);
  if (found !== undefined && !(found.configurable && isOurs(found.value))) return;
  if (found === undefined || found.value !== value) hidden(G, name, value);
  installed[installed.length] = name;
};

// `secret("NAME")` gives a handle: text that stands for a value which programs never see.
const isSecretName = (name) => {
  if (typeof name !== "string" || name.length === 0 || name.length > 64) return false;
  for (let i = 0; i < name.length; i++) {
    const c = codeAt(name, i), lower = c | 32;
    if (!(lower >= 97 && lower <= 122 || c === 95 || i > 0 && c >= 48 && c <= 57)) return false;
  }
  return true;
};
const secret = function (name) {
  if (arguments.length !== 1 || !isSecretName(name)) {
    // What was given is not repeated: it may be the value itself, by mistake.
    throw new PTypeError(
      "secret() takes the name of a secret: up to 64 letters, digits and underscores, and no digit first");
  }
  return "~secret." + mark + "." + name + ".";
};
weakSet(ours, secret, true);

const stamp = (given) => {
  mark = given;
  builtin.secret = mark === "" ? undefined : secret;
  if (mark === "" && own(G, "secret") === secret) deleteProperty(G, "secret");
  // A program's own variable wins.
  if (mark !== "" && getOwnPropertyDescriptor(G, "secret") === undefined) hidden(G, "secret", secret);
};

const install = ({ names, own: cloisters, mark: given, helpers: offered }) => {
  ownNames = cloisters;
  if (given !== mark) stamp(given);
  if (offered !== helpers) equip(offered);
  if (names === catalog) return;
  const before = installed;
  catalog = names; table = create(null); installed = list();
  for (let i = 0; i < before.length; i++) {
    const name = before[i];
    if (!isOurs(own(G, name))) continue;
    if (builtin[name] !== undefined) hidden(G, name, builtin[name]);
    else deleteProperty(G, name);
    // Functions of earlier cells may mention it.
    offer(name);
  }
};
