// What every TypeScript session starts from, part 1: the language as it was before any program touched it.
//
// Programs share this realm and may rewrite every global and every prototype in it. So nothing in these files looks
// anything up on a global or a prototype after boot: primordials are captured here, lists have no prototype, and there
// is no spread, no `for of`, no array destructuring, no regular expression and no template text (each of them reads a
// prototype; QuickJS makes `${a}` a call of String.prototype.concat).
// The parts are joined, in the order that engine.py lists, into one function of `send`, `overflow`, `overspend`
// and `consult`.

const G = globalThis;
const { apply, defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { keys: enumerableKeys, freeze, create, setPrototypeOf } = Object;
const { isArray } = Array;
const { parse, stringify } = JSON;
const { max, min, floor, trunc } = Math;
const P = Promise, PError = Error, PTypeError = TypeError, PRangeError = RangeError, PBigInt = BigInt;
const PProxy = Proxy, PMap = Map, PWeakMap = WeakMap;
const ObjectProto = Object.prototype, FunctionProto = Function.prototype;
const ErrorProto = Error.prototype, InternalErrorProto = InternalError.prototype, PromiseProto = Promise.prototype;

const NOTHING = setPrototypeOf([], null);
const method = (f) => (self, a, b, c) => apply(f, self, [a, b, c]);
const bare = (f) => (self) => apply(f, self, NOTHING);
const getter = (proto, name) => bare(getOwnPropertyDescriptor(proto, name).get);
const mapGet = method(Map.prototype.get), mapSet = method(Map.prototype.set);
const mapDelete = method(Map.prototype.delete), mapEach = method(Map.prototype.forEach);
const mapClear = bare(Map.prototype.clear);
const mapSize = getter(Map.prototype, "size"), setSize = getter(Set.prototype, "size");
const setEach = method(Set.prototype.forEach);
const weakGet = method(WeakMap.prototype.get), weakSet = method(WeakMap.prototype.set);
const weakHas = method(WeakMap.prototype.has), join = method(Array.prototype.join);
const indexOf = method(String.prototype.indexOf), slice = method(String.prototype.slice);
const wellFormed = bare(String.prototype.isWellFormed), toWellFormed = bare(String.prototype.toWellFormed);
const startsWith = method(String.prototype.startsWith), codeAt = method(String.prototype.charCodeAt);
const split = (text, mark) => {
  const parts = list();
  for (let from = 0, at = 0; at >= 0; from = at + mark.length) {
    at = indexOf(text, mark, from);
    parts[parts.length] = at < 0 ? slice(text, from) : slice(text, from, at);
  }
  return parts;
};
const repeat = method(String.prototype.repeat), sourceOf = bare(FunctionProto.toString);
const getTime = bare(Date.prototype.getTime), toISO = bare(Date.prototype.toISOString);
const bigText = bare(BigInt.prototype.toString), regExpText = bare(RegExp.prototype.toString);
const numberOf = bare(Number.prototype.valueOf), stringOf = bare(String.prototype.valueOf);
const booleanOf = bare(Boolean.prototype.valueOf), describeSymbol = bare(Symbol.prototype.toString);
const BIGGEST = 2n ** 14000n, SMALLEST = -BIGGEST;

// A list without a prototype: an index that a program defined on Array.prototype is not seen by it.
const list = () => setPrototypeOf([], null);
const data = (value, enumerable) => ({ __proto__: null, value, writable: true, enumerable, configurable: true });
const hidden = (owner, name, value) => defineProperty(owner, name, data(value, false));
const brand = (read, value) => { try { read(value); return true; } catch { return false; } };
const own = (object, name) => {
  const found = getOwnPropertyDescriptor(object, name);
  return found === undefined ? undefined : found.value;
};
