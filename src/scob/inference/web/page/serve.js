// The page of `scob serve`: drop images, see what they show and where. Every text is set as text, never as HTML.

const AT_ONCE = 4;
const LABELS_SHOWN = 8;
const element = (id) => document.getElementById(id);
const say = (text) => { element("say").textContent = text; };
let about = { maps: false, limits: {} };

function make(name, text = "", kind = "") {
  const node = document.createElement(name);
  node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

async function answer(file) {
  const query = about.maps ? "?maps=true" : "";
  const reply = await fetch(`/api/predict${query}`, {
    method: "POST", headers: { "Content-Type": file.type || "application/octet-stream" }, body: file,
  });
  const content = await reply.json().catch(() => ({ error: "the server's answer cannot be read" }));
  if (!reply.ok) throw new Error(content.error || `the server answered ${reply.status}`);
  return content.predictions[0];
}

function card(file) {
  const node = make("article", "", "result");
  const picture = document.createElement("img");
  picture.src = URL.createObjectURL(file);
  picture.alt = "";
  picture.addEventListener("error", () => picture.remove());
  const below = make("div");
  const state = make("p", "Waiting…", "quiet");
  below.append(make("p", file.name, "name"), state);
  node.append(picture, below);
  return { node, picture, below, state, plain: picture.src };
}

function show(parts, found) {
  if (found.error) return fail(parts, found.error);
  const list = make("ul", "", "labels");
  found.labels.slice(0, LABELS_SHOWN).forEach((label, number) => {
    const map = found.maps?.[number];
    const button = make("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.append(make("span", label), make("span", `${Math.round(100 * found.scores[number])}%`));
    if (about.maps && !map) button.title = "No clear place in the image";
    button.disabled = !map;
    button.addEventListener("click", () => press(parts, list, button, map));
    const row = make("li");
    row.append(button);
    list.append(row);
  });
  const more = found.labels.length - LABELS_SHOWN;
  parts.state.textContent = found.labels.length ? (more > 0 ? `and ${more} more` : "") : "Nothing that it knows.";
  parts.below.insertBefore(list, parts.state);
  list.querySelector("button:not(:disabled)")?.click();
}

function press(parts, list, button, map) {
  const pressed = button.getAttribute("aria-pressed") === "true";
  for (const other of list.querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
  button.setAttribute("aria-pressed", String(!pressed));
  parts.picture.src = pressed ? parts.plain : map;
}

function fail(parts, text) {
  parts.state.textContent = text;
  parts.state.className = "wrong";
}

async function take(files) {
  const images = [...files];
  if (!images.length) return;
  const waiting = images.map((file) => ({ file, parts: card(file) }));
  element("results").prepend(...waiting.map(({ parts }) => parts.node));
  let done = 0;
  const most = (about.limits.megabytes || 64) * 1e6;
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      try {
        if (next.file.size > most) throw new Error(`It has more than ${about.limits.megabytes} megabytes.`);
        next.parts.state.textContent = "Looking…";
        show(next.parts, await answer(next.file));
      } catch (error) {
        fail(next.parts, error.message);
      }
      done += 1;
      say(`${done} of ${images.length} done`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

function listen() {
  const drop = element("drop");
  for (const name of ["dragenter", "dragover"]) {
    document.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  }
  for (const name of ["dragleave", "drop"]) document.addEventListener(name, () => drop.classList.remove("over"));
  document.addEventListener("drop", (event) => { event.preventDefault(); take(event.dataTransfer.files); });
  element("files").addEventListener("change", (event) => { take(event.target.files); });
}

listen();
try {
  about = await (await fetch("/api/model")).json();
  element("model").textContent = `${about.model.replace(/^scob /, "")} · ${about.classes.length} classes`;
  if (!about.maps) say("An ONNX file names what images show; for maps, serve the run folder it was exported from.");
} catch {
  say("The server does not answer: is it still running?");
}
