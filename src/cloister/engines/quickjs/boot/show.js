// Part 4: values as people read them, much as Node prints them, within bounds.

const SHOWN_DEPTH = 3, SHOWN_ITEMS = 100, SHOWN_TEXT = 10000, SHOWN_SIZE = 200000, LINE = 72;

const show = (root) => {
  let budget = SHOWN_SIZE;
  const parents = list();

  const quoted = (value) => {
    const cut = value.length > SHOWN_TEXT ? slice(value, 0, SHOWN_TEXT) : value;
    const more = cut === value ? "" : "... " + (value.length - SHOWN_TEXT) + " more characters";
    const plain = text(cut);
    return (indexOf(cut, "'") < 0 && indexOf(plain, "\\") < 0 ? "'" + cut + "'" : plain) + more;
  };
  const keyText = (key) => {
    if (typeof key === "symbol") return "[" + describeSymbol(key) + "]";
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
    if (line.length <= LINE && indexOf(line, "\n") < 0) return open + " " + line + " " + close;
    const pad = repeat(" ", indent + 2);
    return open + "\n" + pad + join(parts, ",\n" + pad) + "\n" + repeat(" ", indent) + close;
  };
  const leaf = (value) => {
    switch (typeof value) {
      case "string": return quoted(value);
      case "number": return value === 0 && 1 / value < 0 ? "-0" : "" + value;
      case "bigint": return value > BIGGEST || value < SMALLEST ? "[BigInt]" : bigText(value) + "n";
      case "symbol": return describeSymbol(value);
      case "function": {
        const name = own(value, "name");
        const label = typeof name === "string" && name !== "" ? ": " + name : " (anonymous)";
        return startsWith(sourceOf(value), "class") ? "[class" + label + "]" : "[Function" + label + "]";
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
      case "Number": return "[Number: " + numberOf(value) + "]";
      case "String": return "[String: " + quoted(stringOf(value)) + "]";
      case "Boolean": return "[Boolean: " + booleanOf(value) + "]";
      case "Promise": return "Promise { <pending or settled> }";
      case "bytes": label = "bytes "; break;
      case "Error": {
        const stack = own(value, "stack");
        return typeof stack === "string" && stack !== "" ? stack : dataName(value) + ": " + own(value, "message");
      }
    }
    if (proto !== null && proto !== ObjectProto && !array && label === "" && kind === "object") {
      const maker = own(proto, "constructor");
      const name = typeof maker === "function" ? own(maker, "name") : undefined;
      if (typeof name === "string" && name !== "") label = name + " ";
    } else if (proto === null) label = "[Object: null prototype] ";
    if (depth >= SHOWN_DEPTH || budget <= 0) {
      const short = label !== "" ? slice(label, 0, -1) : kind === "object" ? "Object" : kind;
      return array ? "[Array]" : "[" + short + "]";
    }
    parents[depth] = value;
    const parts = list();
    let total = 0;
    const add = (part) => { if (parts.length < SHOWN_ITEMS && budget > 0) parts[parts.length] = part(); };
    if (kind === "Map") {
      label = "Map(" + (total = mapSize(value)) + ") ";
      const inner = (part) => walk(part, depth + 1, indent + 2);
      mapEach(value, (item, key) => add(() => inner(key) + " => " + inner(item)));
    } else if (kind === "Set") {
      label = "Set(" + (total = setSize(value)) + ") ";
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
        const accessor = found.get !== undefined || found.set !== undefined;
        const part = accessor ? "[Getter/Setter]" : walk(found.value, depth + 1, indent + 2);
        add(() => keyText(keys[i]) + ": " + part);
        budget -= keys[i].length;
      }
    }
    parents[depth] = null;
    if (total > parts.length) parts[parts.length] = "... " + (total - parts.length) + " more items";
    return array ? block("[", parts, "]", indent) : block(label + "{", parts, "}", indent);
  };
  return walk(root, 0, 0);
};

const shown = (value) => (typeof value === "string" ? value : show(value));

const numeral = (value, whole) => {
  if (typeof value === "bigint") return bigIntText(value) + "n";
  return whole ? trunc(+value) : +value;
};

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
      else if (indexOf("dif", mark) >= 0) line += numeral(value, mark === "i") + rest;
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
const bounded = (line) => {
  const over = line.length - LONGEST_LINE;
  return over <= 0 ? line : slice(line, 0, LONGEST_LINE) + "... " + over + " more characters";
};
const print = (stream, args) => {
  let line;
  try {
    line = format(args);
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === null) throw error;
    line = "[" + refusal.message + "]";
  }
  line = bounded(line);
  send(stream + (wellFormed(line) ? line : toWellFormed(line)) + "\n");
};
