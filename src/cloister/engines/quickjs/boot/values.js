// Part 3: values that cross. Out: one JSON text or a refusal, within bounds, whatever the program built. In: exact.

const MAX_DEPTH = 128, MAX_NODES = 200000, MAX_SIZE = 4 << 20, SAFE = 9007199254740991, WORTH_SEEING = 100;
const refusals = new PWeakMap();
const refuse = (code, message, hint) => {
  const refusal = { __proto__: null };
  weakSet(refusals, refusal, { __proto__: null, code, message, hint });
  return refusal;
};
const tooLarge = (message) => refuse("RESULT_TOO_LARGE", message, "make it smaller: a summary, or a part at a time");
const unwritable = (message, hint) => refuse("RESULT_NOT_SERIALIZABLE", message, hint);
const refusalOf = (thrown) => {
  const found = typeof thrown === "object" && thrown !== null ? weakGet(refusals, thrown) : undefined;
  return found === undefined ? null : found;
};

const text = (value) => stringify(wellFormed(value) ? value : toWellFormed(value));

// What an object is that is neither plain nor an array: by its prototypes first, then by what its methods accept.
const kinds = new PWeakMap();
const brands = {
  __proto__: null, Date: getTime, Map: mapSize, Set: setSize, Number: numberOf, String: stringOf, Boolean: booleanOf,
};
const builtIn = {
  __proto__: null, Date, Map, Set, Promise, Error, Number, String, Boolean, RegExp,
  "weak reference": WeakRef, "weak map": WeakMap, "weak set": WeakSet,
};
for (const kind in builtIn) weakSet(kinds, builtIn[kind].prototype, kind);
weakSet(kinds, ArrayBuffer.prototype, "bytes");
weakSet(kinds, SharedArrayBuffer.prototype, "bytes");
weakSet(kinds, DataView.prototype, "bytes");
weakSet(kinds, getPrototypeOf(Uint8Array.prototype), "bytes");

const kindOf = (value, proto) => {
  for (let object = proto, hops = 0; object !== null && hops < 20; object = getPrototypeOf(object), hops++) {
    const kind = weakGet(kinds, object);
    if (kind === undefined) continue;
    return brands[kind] === undefined || brand(brands[kind], value) ? kind : "object";
  }
  return "object";
};
const isError = (value) => {
  for (let object = value, hops = 0; object !== null && hops < 20; object = getPrototypeOf(object), hops++) {
    if (object === ErrorProto) return true;
  }
  return false;
};

const numberText = (value) => {
  if (value === 0) return 1 / value < 0 ? "-0.0" : "0";
  if (value - value !== 0) {
    throw unwritable(value + " is not a JSON number", "replace it by null or by text before it leaves the cell");
  }
  // Past what a number holds exactly its digits are rounded ones: it leaves as a float, never as a wrong integer.
  return (value > SAFE || value < -SAFE) && value < 1e21 && value > -1e21 ? value + ".0" : "" + value;
};

const bigIntText = (value) => {
  if (value > BIGGEST || value < SMALLEST) throw tooLarge("an integer of more than 14000 bits is over the bound");
  return bigText(value);
};

// How many parts a value has once written out, each object looked at once however often it is shared: sixty lists that
// each hold the next one twice are too many, and that must not take as long as writing them.
const measure = (root) => {
  const sizes = new PWeakMap();
  const owners = list(), names = list(), places = list(), sums = list();
  let depth = 0, opened = 0;
  const open = (value) => {
    owners[depth] = value; names[depth] = isArray(value) ? null : enumerableKeys(value);
    places[depth] = 0; sums[depth] = 1;
    depth++; opened++;
  };
  open(root);
  while (depth > 0) {
    const top = depth - 1, owner = owners[top], keys = names[top];
    const place = places[top]++;
    if (place >= (keys === null ? owner.length : keys.length)) {
      weakSet(sizes, owner, sums[top]);
      depth--;
      if (depth > 0) sums[depth - 1] += sums[top];
    } else {
      const found = getOwnPropertyDescriptor(owner, keys === null ? place : keys[place]);
      const item = found === undefined ? undefined : found.value;
      const size = typeof item === "object" && item !== null ? weakGet(sizes, item) : 1;
      if (size !== undefined) sums[top] += size;
      else if (depth < MAX_DEPTH && opened < MAX_NODES) open(item);
      else sums[top]++;
    }
    if (sums[max(0, depth - 1)] > MAX_NODES) return MAX_NODES + 1;
  }
  return sums[0];
};

// One JSON text for a value, or a refusal. Iterative, because the guest's stack is the program's to fill.
const encode = (root, most = MAX_SIZE) => {
  const out = list();
  const owners = list(), names = list(), places = list(), first = list(), begun = list();
  const labels = create(null); // keys as they are written: rows of a table have the same ones
  const seen = new PWeakMap();
  let measured = false;
  let size = 0, nodes = 0, depth = 0;

  const where = () => {
    let path = "";
    for (let i = 0; i < depth; i++) {
      const at = places[i] - 1;
      path += names[i] === null ? "[" + at + "]" : at < 0 ? "" : "." + names[i][at];
    }
    return path === "" ? "the value" : "value" + slice(path, 0, 200);
  };
  const put = (piece) => {
    size += piece.length;
    if (size > most) throw tooLarge("the value takes more than " + most + " bytes once written out");
    out[out.length] = piece;
  };
  const tooMany = () => tooLarge("the value has more than " + MAX_NODES + " parts once written out");
  const enter = (value, keys, prefix) => {
    if (depth >= MAX_DEPTH) {
      // A circle is as deep as one likes, and nothing else needs to be searched for one.
      for (let i = 0; i < depth; i++) {
        if (owners[i] !== value) continue;
        throw unwritable("the value contains itself", "JSON has no way to write a circular value");
      }
      throw tooLarge("the value is nested deeper than " + MAX_DEPTH + " levels");
    }
    if (nodes + (keys === null ? value.length : keys.length) > MAX_NODES) throw tooMany();
    if (!measured && nodes > WORTH_SEEING && weakHas(seen, value)) {
      measured = true;
      if (measure(root) > MAX_NODES) throw tooMany();
    }
    owners[depth] = value; names[depth] = keys; places[depth] = 0; first[depth] = true; begun[depth] = nodes;
    depth++;
    put(prefix + (keys === null ? "[" : "{"));
  };
  const emit = (value, prefix) => {
    if (++nodes > MAX_NODES) throw tooMany();
    if (typeof value === "number" && value >= 1 && value <= SAFE) return put(prefix + value);
    for (let converted = false; ; converted = true) {
      switch (typeof value) {
        case "string":
          if (value.length > most) throw tooLarge("a text of " + value.length + " characters is over the bound");
          return put(prefix + text(value));
        case "number": return put(prefix + numberText(value));
        case "boolean": return put(prefix + (value ? "true" : "false"));
        case "undefined": return put(prefix + "null");
        case "bigint": return put(prefix + bigIntText(value));
        case "function":
          throw unwritable(where() + " is a function, which cannot be written in JSON", "return data, not a function");
        case "symbol":
          throw unwritable(where() + " is a symbol, which cannot be written in JSON", "use text instead");
      }
      if (value === null) return put(prefix + "null");
      const proto = getPrototypeOf(value);
      const array = isArray(value);
      if (!array && proto !== ObjectProto && proto !== null) {
        const kind = kindOf(value, proto);
        switch (kind) {
          case "Date": {
            const time = getTime(value);
            if (time === time) return put(prefix + text(toISO(value)));
            throw unwritable(where() + " is an invalid Date", "check the text that it was made from");
          }
          case "Promise": throw unwritable(where() + " is a Promise", "add `await` in front of the call that made it");
          case "Map": throw unwritable(where() + " is a Map", "use Object.fromEntries(map)");
          case "bytes": throw unwritable(where() + " holds raw bytes", "use Array.from(bytes), or encode it as text");
          case "RegExp": case "weak reference": case "weak map": case "weak set":
            throw unwritable(where() + " is a " + kind, "return plain data");
          case "Number": value = numberOf(value); continue;
          case "String": value = stringOf(value); continue;
          case "Boolean": value = booleanOf(value); continue;
          case "Set": {
            if (setSize(value) > MAX_NODES) throw tooMany();
            const items = [];
            setEach(value, (item) => { defineProperty(items, items.length, data(item, true)); });
            return enter(items, null, prefix);
          }
          case "Error": {
            value = { __proto__: null, name: "" + value.name, message: "" + value.message };
            return enter(value, enumerableKeys(value), prefix);
          }
        }
      }
      if (!converted) {
        const convert = value.toJSON;
        if (typeof convert === "function") { value = apply(convert, value, [""]); continue; }
      }
      return enter(value, array ? null : enumerableKeys(value), prefix);
    }
  };

  emit(root, "");
  while (depth > 0) {
    const top = depth - 1, owner = owners[top], keys = names[top];
    const place = places[top]++;
    if (place >= (keys === null ? owner.length : keys.length)) {
      put(keys === null ? "]" : "}");
      depth--;
      // Only what is large is worth remembering: small parts that are shared do not add up to a flood by themselves.
      if (!measured && nodes - begun[top] > WORTH_SEEING) weakSet(seen, owner, true);
      continue;
    }
    if (keys === null) { emit(owner[place], place === 0 ? "" : ","); continue; }
    const key = keys[place], item = owner[key];
    if (item === undefined) continue;
    let label = labels[key];
    if (label === undefined) label = labels[key] = text(key) + ":";
    emit(item, first[top] ? label : "," + label);
    first[top] = false;
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
    defineProperty(object, path[path.length - 1], data(PBigInt(bigs[i][1]), true));
  }
};
