"use strict";
// Shows openapi.json, and sends requests from this page. Everything is put in as text, never as markup.

function make(name, text, ...children) {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}

function resolved(document_, schema) {
  let found = schema;
  while (found && found.$ref) found = document_.components.schemas[found.$ref.split("/").pop()];
  return found || {};
}

function fields(operation) {
  return (operation.parameters || []).map((parameter) => {
    const input = make("input");
    input.placeholder = (parameter.schema && parameter.schema.type) || "";
    return { parameter, input };
  });
}

async function send(method, path, inputs, body, out) {
  let address = path;
  const query = new URLSearchParams();
  const headers = {};
  for (const { parameter, input } of inputs) {
    if (!input.value) continue;
    const value = input.value;
    if (parameter.in === "path") {
      const parts = parameter.name === "path" ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
      address = address.replace("{" + parameter.name + "}", parts);
    } else if (parameter.in === "query") query.set(parameter.name, value);
    else headers[parameter.name] = value;
  }
  const token = document.getElementById("token").value;
  if (token) headers.Authorization = "Bearer " + token;
  if (body && body.value.trim()) headers["Content-Type"] = "application/json";
  if ([...query].length) address += "?" + query;
  out.textContent = "…";
  try {
    const answer = await fetch(address, { method, headers, body: headers["Content-Type"] ? body.value : undefined });
    const stream = (answer.headers.get("content-type") || "").startsWith("text/event-stream");
    out.textContent = answer.status + " " + answer.statusText + "\n\n";
    if (!stream) {
      const text = await answer.text();
      try { out.textContent += JSON.stringify(JSON.parse(text), null, 2); } catch { out.textContent += text; }
      return;
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      out.textContent += value;
    }
  } catch (error) {
    out.textContent = String(error);
  }
}

function operationOf(document_, path, method, operation) {
  const inputs = fields(operation);
  const rows = inputs.map(({ parameter, input }) =>
    make("tr", "", make("td", parameter.name + (parameter.required ? " *" : "")), make("td", "", input), make("td", parameter.description || parameter.in)));
  const content = operation.requestBody && operation.requestBody.content["application/json"];
  let body = null;
  const parts = [make("p", operation.description || "")];
  if (rows.length) parts.push(make("table", "", ...rows));
  if (content) {
    const options = [content.schema, ...(content.schema.anyOf || [])].map((one) => resolved(document_, one));
    const schema = options.find((one) => one.properties) || options[0];
    body = make("textarea");
    const example = schema.examples && schema.examples[0];
    body.value = example ? JSON.stringify(example, null, 2) : "";
    parts.push(body, make("details", "", make("summary", "Schema"), make("pre", JSON.stringify(schema, null, 2))));
  }
  const out = make("pre");
  const button = make("button", "Send");
  button.addEventListener("click", () => send(method.toUpperCase(), path, inputs, body, out));
  const statuses = Object.entries(operation.responses).map(([status, said]) => make("tr", "", make("td", status), make("td", said.description)));
  parts.push(button, out, make("details", "", make("summary", "Answers"), make("table", "", ...statuses)));
  return make("details", "", make("summary", "", make("b", method.toUpperCase()), path), ...parts);
}

async function show() {
  const document_ = await (await fetch("/openapi.json")).json();
  document.getElementById("about").textContent = document_.info.description;
  const nouns = new Map();
  for (const [path, methods] of Object.entries(document_.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const noun = (operation.tags || ["other"])[0];
      if (!nouns.has(noun)) nouns.set(noun, []);
      nouns.get(noun).push(operationOf(document_, path, method, operation));
    }
  const main = document.getElementById("paths");
  main.replaceChildren();
  for (const [noun, operations] of nouns) main.append(make("h2", noun), ...operations);
}

show().catch((error) => { document.getElementById("paths").textContent = String(error); });
