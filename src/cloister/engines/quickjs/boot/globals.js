// Part 9: the globals that programs expect: console, timers, chance.

const out = function () { print("o", arguments); };
const err = function () { print("e", arguments); };
const quiet = () => undefined;
const console = {
  log: out, info: out, debug: out, dir: (value) => print("o", [value]), table: (value) => print("o", [value]),
  warn: err, error: err, trace: err,
  assert: function (holds, why) {
    if (!holds) print("e", arguments.length > 1 ? ["Assertion failed:", why] : ["Assertion failed"]);
  },
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
const provide = (name, value) => {
  hidden(G, name, value);
  builtin[name] = value;
  weakSet(ours, value, true);
};
hidden(G, "console", console);
hidden(G, "setTimeout", setTimeout);
hidden(G, "clearTimeout", clearTimeout);
provide("print", out);
provide("sleep", sleep);
hidden(G, "tools", tools);
hidden(Math, "random", random);
hidden(G, "performance", freeze({ __proto__: null, now: () => now(), timeOrigin: 0 }));
