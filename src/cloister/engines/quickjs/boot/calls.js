// Part 5: calls. A call is noted here and settled from outside; until then it is a promise in this image.

const MAX_CALLS = 10000, MAX_CALL_SIZE = 8 << 20;
const pending = new PMap(); // number -> {resolve, reject, name, frames} or {run} for a timer
let made = 0, fresh = list(), freshSize = 0;
let toolCalls = 0, maxCalls = 0; // of the whole cell: one call too many ends it
let failure = null;         // what a timer's callback threw
let leaving = false;        // the program called exit(): from here on all that it may do is end
const LEFT = freeze(create(null)); // what exit() throws

const announce = (record, piece) => {
  if (fresh.length >= MAX_CALLS) {
    throw new PRangeError("more than " + MAX_CALLS + " calls at once: await some of them first");
  }
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
  if (leaving) throw LEFT;
  if (!isOwn(name) && ++toolCalls > maxCalls) overspend();
  const { frames, stack } = sites();
  let piece = '"name":' + text(name) + ",";
  try {
    const given = argumentsText(args);
    if (given.length + freshSize > MAX_CALL_SIZE) throw tooLarge("the arguments of calls made at once are too large");
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
