// The review page. Names are always shown through textContent. Decisions go to the server one by one, in order, and are
// kept in this browser until the server has written them to disk.

const $ = (id) => document.getElementById(id);
const SESSION = Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, "0")).join("");
const PAST = { accept: "accepted", reject: "rejected", skip: "skipped" };
const SIGN = { accept: "✓", reject: "✕", skip: "–" };
const KEPT = "scob-review-kept:";
const percent = (share) => share === null ? "hidden until you answer" : `${(100 * share).toFixed(share > 0.995 && share < 1 ? 1 : 0)}%`;

let queue = null; // all suggestions in columns, as the server sent them
let view = []; // the numbers of those that matched the filters when they were last set
let current = -1; // the number of the suggestion being shown
let seen = 0; // lines of the log this page has read
let moves = 0; // grows with every decision, so that the answer of an older poll is ignored
let byOthers = new Set(); // numbers last decided by another tab or person
let evidence = new Map(); // number -> promise of its details
let rows = new Map(); // number -> its entry in the list
let pictureTries = 0;
let conflicts = new Map(); // number -> [answer given here, answer given in another tab]
let answered = new Map(); // number -> the answer given in this tab, if it still stands here
let lastMade = 0; // time of the last decision on this page, by its own clock

// ---- Storage: of this browser (decisions not sent yet) and of this tab (undo, filters) ---------------------------

const memory = new Map();
const box = (storage) => ({
  get(key) { try { return storage().getItem(key); } catch { return memory.get(key) ?? null; } },
  set(key, value) { try { storage().setItem(key, value); } catch { memory.set(key, value); } },
  drop(key) { try { storage().removeItem(key); } catch { /* nothing kept there */ } memory.delete(key); },
  keys(prefix) {
    let found = [];
    try { found = Object.keys(storage()); } catch { /* none */ }
    return [...new Set([...found, ...memory.keys()])].filter((key) => key.startsWith(prefix));
  },
});
const browser = box(() => localStorage);
const tab = box(() => sessionStorage);
const parsed = (text, otherwise) => { try { return JSON.parse(text) ?? otherwise; } catch { return otherwise; } };
const ended = parsed(tab.get("scob-review-ended"), []); // sessions of this tab before it was reloaded
const mine = (session) => session === SESSION || ended.includes(session);
const historyKey = () => `scob-review-history:${queue.home}`; // the same tab may review another run later
const history = () => parsed(tab.get(historyKey()), []);
const keepHistory = (past) => tab.set(historyKey(), JSON.stringify(past.slice(-1000)));
const keptKey = (number) => `${KEPT}${queue.home}:${JSON.stringify([nameOf(number), classOf(number)])}`;
const keptKeys = () => browser.keys(`${KEPT}${queue.home}:`);

const classOf = (number) => queue.classes[queue.class[number]];
const nameOf = (number) => queue.images[queue.image[number]];

function numberOf(image, label) {
  return queue.numbers.get(JSON.stringify([image, label])) ?? -1;
}

// ---- Talking to the server --------------------------------------------------------------------------------------

async function ask(address, options) {
  const response = await fetch(address, { cache: "no-store", ...options });
  if (response.ok) return response.json();
  const body = await response.json().catch(() => ({}));
  throw Object.assign(new Error(body.error || `the server answered ${response.status}`), { status: response.status });
}

let sending = null;
let trouble = null;

/** Send what is kept, oldest first, one at a time, so that the log has the order of the decisions. */
function send() {
  sending ??= sendAll().finally(() => { sending = null; showSaved(); });
  return sending;
}

async function sendAll() {
  for (;;) {
    const waiting = keptKeys().map((key) => [key, parsed(browser.get(key), null)]).filter(([, kept]) => kept);
    if (!waiting.length) {
      if (trouble?.status) reachable(); // the server could not write; now there is nothing left to write
      return;
    }
    waiting.sort(([, a], [, b]) => a.made - b.made);
    const [key, kept] = waiting[0];
    const age = Math.max(0, Date.now() - kept.made) / 1000;
    let answer;
    try {
      answer = await ask("/api/decisions", {
        method: "POST", keepalive: true, headers: { "Content-Type": "application/json" },
        body: JSON.stringify({
          image: kept.image, class: kept.class, decision: kept.decision, session: kept.session, order: kept.made, age,
        }),
      });
    } catch (error) {
      if (error.status === 404 || error.status === 422) { // do not try again: the suggestion is gone
        browser.drop(key);
        say(`“${kept.class}” in ${kept.image} is no longer in the queue.`);
        continue;
      }
      return unreachable(error);
    }
    reachable();
    if (parsed(browser.get(key), {}).made === kept.made) browser.drop(key);
    settle(kept, answer);
  }
}

/** Show the server's answer to a decision: another tab may have decided the same pair. */
function settle(kept, answer) {
  const number = numberOf(kept.image, kept.class);
  if (number < 0 || browser.get(keptKey(number))) return;
  moves += 1;
  if (queue.blind) { // now that there is an answer, what the model thinks may be seen
    queue.confidence[number] = answer.decision ? answer.confidence : null;
    evidence.delete(number);
  }
  showAudit();
  const other = answer.previous_session && !mine(answer.previous_session);
  if (!answer.applied) {
    if (other) byOthers.add(number);
    if (other && answer.decision !== kept.decision) conflicts.set(number, [kept.decision, answer.decision]);
    mark(number, answer.decision);
    showConflicts();
    if (other) say(`Another tab decided “${kept.class}” in ${kept.image} later: ${PAST[answer.decision] ?? "undecided"}.`);
  } else if (other && mine(kept.session) && answer.previous && answer.previous !== answer.decision && answer.previous !== kept.before) {
    conflicts.set(number, [answer.decision, answer.previous]);
    say(`This replaces “${PAST[answer.previous]}” from another tab.`);
    showConflicts();
  }
}

/** The precision so far, where suggestions are reviewed at random (scob review --order audit). */
async function showAudit() {
  const rows = await ask("/api/audit").catch(() => []);
  $("audit").hidden = !rows.length;
  $("audit-rows").replaceChildren(...rows.map((row) => {
    const line = document.createElement("li");
    line.textContent = `${row.class}: ${row.right} of ${row.reviewed} right, ${percent(row.low)} to ${percent(row.high)}`;
    return line;
  }));
}

function unreachable(error) {
  trouble = error;
  const kept = keptKeys().length;
  const some = kept ? ` ${kept} decision${kept > 1 ? "s are" : " is"} kept in this browser and will be sent when the server is back.` : "";
  $("banner").textContent = error.status
    ? `Not saved: ${error.message}.${some}`
    : `The review server is not reachable: start scob review again.${some}`;
  $("banner").hidden = false;
  showSaved();
}

function reachable() {
  if (!trouble) return;
  trouble = null;
  $("banner").hidden = true;
  pictureTries += 1; // load pictures that failed meanwhile again
  evidence.clear();
  rows.clear();
  if (current >= 0) show(current);
}

async function poll() {
  if (!queue) return load();
  const before = moves;
  try {
    const news = await ask(`/api/changes?since=${seen}`);
    if (!trouble?.status) reachable();
    if (news.queue !== queue.queue || news.reset) return load();
    await send();
    if (before !== moves) return; // it may be older than a decision made here meanwhile; wait for the next poll
    seen = news.seen;
    const latest = new Map(news.changes.map((change) => [change[0], change])); // an older answer is of no interest now
    for (const [number, decision, session] of latest.values()) hear(number, decision === "undo" ? null : decision, session);
    for (const [image, label, decision, session] of news.added) hearAdded(image, label, decision === "accept", session);
  } catch (error) {
    unreachable(error);
  }
}

/** A decision from the log. */
function hear(number, decision, session) {
  if (mine(session)) { byOthers.delete(number); } else { byOthers.add(number); compare(number, decision); }
  if (number === current) showBadge();
  if (browser.get(keptKey(number)) || queue.decision[number] === decision) return;
  mark(number, decision);
  if (mine(session)) return;
  const what = decision ? PAST[decision] : "undecided again";
  say(`In another tab: “${classOf(number)}” in ${nameOf(number)} is ${what}.`);
}

/** Another tab has answered a suggestion that was answered here: the same, or a conflict that both tabs show. */
function compare(number, theirs) {
  const own = answered.get(number);
  if (own && theirs && own !== theirs) { conflicts.set(number, [own, theirs]); } else { conflicts.delete(number); }
  showConflicts();
}

/** A label that was added, or taken back, in some tab. */
function hearAdded(image, label, there, session) {
  const labels = addedTo(image);
  if (labels.has(label) === there) return;
  if (there) { labels.add(label); } else { labels.delete(label); }
  if (current >= 0 && queue.image[current] === image) showLabels(current);
  showProgress();
  if (!mine(session)) say(`In another tab: “${queue.all_classes[label]}” was ${there ? "added to" : "taken from"} ${queue.images[image]}.`);
}

async function keepPolling() {
  await poll();
  setTimeout(keepPolling, document.hidden ? 8000 : 1200);
}

async function load() {
  try {
    const fresh = await ask("/api/queue");
    fresh.numbers = new Map(fresh.class.map((c, n) => [JSON.stringify([fresh.images[fresh.image[n]], fresh.classes[c]]), n]));
    const again = queue !== null;
    const held = again && current >= 0 ? [nameOf(current), classOf(current)] : null;
    queue = fresh;
    $("order").hidden = $("order-name").hidden = asAsked();
    showWords();
    showAudit();
    seen = fresh.seen;
    queue.place = places();
    queue.labels = new Map();
    for (const [image, label] of fresh.added) addedTo(image).add(label);
    if (!again) { conflicts = new Map(); answered = new Map(); }
    byOthers = new Set();
    evidence = new Map();
    rows = new Map();
    for (const key of keptKeys()) { // decisions that the server does not have yet
      const kept = parsed(browser.get(key), null);
      const number = kept ? numberOf(kept.image, kept.class) : -1;
      if (number >= 0) queue.decision[number] = kept.decision === "undo" ? null : kept.decision;
    }
    $("run").textContent = queue.folder;
    document.title = `Scob review · ${queue.folder}`;
    fillClasses();
    current = held ? numberOf(...held) : -1;
    showSaved();
    filter();
    if (again) say("The suggestions have been reloaded.");
    if (!trouble?.status) reachable();
    send();
  } catch (error) {
    unreachable(error);
    if (!queue) $("count").textContent = "Not loaded";
  }
}

/** The place of each suggestion if the classes take turns: the best of every class first, then the second best. */
function places() {
  const rank = new Array(queue.classes.length).fill(0);
  const turn = queue.class.map((c) => { rank[c] += 1; return rank[c]; });
  const order = [...turn.keys()].sort((a, b) => turn[a] - turn[b] || a - b);
  const place = new Array(order.length);
  order.forEach((number, at) => { place[number] = at; });
  return place;
}

/** The labels, by their numbers, that were added to an image by hand. */
function addedTo(image) {
  if (!queue.labels.has(image)) queue.labels.set(image, new Set());
  return queue.labels.get(image);
}

// ---- Deciding ---------------------------------------------------------------------------------------------------

function decide(decision) {
  if (current < 0) return;
  const number = current;
  const before = queue.decision[number];
  keepHistory([...history(), [nameOf(number), classOf(number), before]]);
  write(number, decision, before);
  say(`${PAST[decision][0].toUpperCase()}${PAST[decision].slice(1)}: “${classOf(number)}” in ${nameOf(number)}.`, 1600);
  advance(number);
}

function undo() {
  if (!queue) return;
  const past = history();
  const last = past.pop();
  if (!last) return say("Nothing to undo in this tab.");
  keepHistory(past);
  const [image, label, before] = last;
  const number = numberOf(image, label);
  if (number < 0) return undo();
  write(number, before ?? "undo", queue.decision[number]);
  say(`Undone: “${label}” in ${image} is ${before ? `${PAST[before]} again` : "undecided again"}.`);
  show(number);
}

/** Add a label that was not suggested to the image on show, or take it back. A suggested one is accepted instead. */
async function setLabel(label, there) {
  const image = queue.image[current];
  const name = queue.all_classes[label];
  const suggested = numberOf(queue.images[image], name);
  if (suggested >= 0) {
    keepHistory([...history(), [queue.images[image], name, queue.decision[suggested]]]);
    write(suggested, there ? "accept" : "undo", queue.decision[suggested]);
    return showLabels(current);
  }
  lastMade = Math.max(Date.now(), lastMade + 1);
  try {
    await ask("/api/decisions", {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        image: queue.images[image], class: name, decision: there ? "accept" : "undo", session: SESSION, order: lastMade, age: 0,
      }),
    });
  } catch (error) {
    return unreachable(error);
  }
  hearAdded(image, label, there, SESSION);
  return say(`${there ? "Added" : "Taken back"}: “${name}” in ${queue.images[image]}.`);
}

function write(number, decision, before) {
  moves += 1;
  byOthers.delete(number);
  conflicts.delete(number);
  if (decision === "undo") { answered.delete(number); } else { answered.set(number, decision); }
  lastMade = Math.max(Date.now(), lastMade + 1); // two decisions in the same millisecond keep their order
  const kept = { image: nameOf(number), class: classOf(number), decision, before, session: SESSION, made: lastMade };
  browser.set(keptKey(number), JSON.stringify(kept));
  mark(number, decision === "undo" ? null : decision);
  showConflicts();
  showSaved();
  send();
}

function mark(number, decision) {
  queue.decision[number] = decision;
  showProgress();
  if (rows.has(number)) dress(rows.get(number), number);
  if (number === current) showBadge();
  if (current >= 0 && queue.image[number] === queue.image[current]) showLabels(current);
}

/** Go to the next undecided suggestion; after the last one, start from the top. */
function advance(from) {
  const start = view.indexOf(from) + 1;
  const status = $("status").value;
  if (status !== "open" && status !== "skip") return show(view[start] ?? from);
  const waits = (number) => number !== from && (status === "open"
    ? !queue.decision[number]
    : queue.decision[number] === "skip" && !justSkipped.has(number));
  return show(view.slice(start).find(waits) ?? view.slice(0, start).find(waits) ?? -1);
}
const justSkipped = new Set(); // skipped again while going through the skipped ones

function step(by) {
  if (!view.length) return;
  const at = view.indexOf(current);
  const to = at < 0 ? (by > 0 ? 0 : view.length - 1) : Math.min(view.length - 1, Math.max(0, at + by));
  show(view[to]);
}

// ---- Filters and the list ---------------------------------------------------------------------------------------

function fillClasses() {
  const chosen = $("class").value || parsed(tab.get("scob-review-filters"), {}).class || "";
  const options = queue.classes.map((name) => {
    const option = document.createElement("option");
    option.value = name;
    option.textContent = name;
    return option;
  });
  $("class").replaceChildren($("class").options[0], ...options);
  $("class").value = queue.classes.includes(chosen) ? chosen : "";
}

function filter() {
  const label = $("class").value;
  const status = $("status").value;
  const least = $("least").valueAsNumber / 100;
  $("least-shown").textContent = percent(least);
  const order = $("order").value;
  tab.set("scob-review-filters", JSON.stringify({ class: label, status, least: $("least").value, order }));
  justSkipped.clear();
  const wanted = label ? queue.classes.indexOf(label) : -1;
  matches = (number) => {
    const decision = queue.decision[number];
    if (wanted >= 0 && queue.class[number] !== wanted) return false;
    if (queue.confidence[number] < least) return false;
    if (status === "conflict") return conflicts.has(number);
    return status === "all" || (status === "open" ? !decision : decision === status);
  };
  view = [...queue.class.keys()].filter(matches).sort(inOrder);
  showProgress();
  show(view.includes(current) ? current : view[0] ?? -1);
}

const filters = parsed(tab.get("scob-review-filters"), {}); // as they were before the page was loaded again

/** Labels that somebody gave are doubted, not suggested; a blind review has no confidence to filter by. */
function showWords() {
  const measure = queue.given ? "Doubt" : "Confidence";
  $("confidence-name").textContent = measure;
  $("least-name").textContent = `${measure} at least`;
  $("asked").textContent = queue.given ? "This label was given. Does this image show" : "Does this image show";
  $("order").options[1].textContent = queue.given ? "Most doubtful first" : "Most confident first";
  $("least").hidden = $("least-row").hidden = queue.blind;
  if (queue.given && !filters.order) $("order").value = "confident";
}

let matches = () => false; // whether a suggestion fits the filters now
const asAsked = () => queue.order !== "confident"; // scob review --order: the order of the file is the one asked for
const inOrder = (a, b) => (!asAsked() && $("order").value === "balanced" ? queue.place[a] - queue.place[b] : a - b);

function showList() {
  const at = Math.max(0, view.indexOf(current));
  const start = Math.max(0, Math.min(at - 3, view.length - 40));
  const hadFocus = $("list").contains(document.activeElement);
  const numbers = view.slice(start, start + 40);
  for (const number of [...rows.keys()]) if (!numbers.includes(number)) rows.delete(number);
  $("list").replaceChildren(...numbers.map((number) => {
    if (!rows.has(number)) rows.set(number, entry(number));
    dress(rows.get(number), number);
    return rows.get(number);
  }));
  const row = rows.get(current);
  if (!row) return;
  const list = $("list");
  list.scrollTo({ top: row.offsetTop - list.offsetTop - 60, left: row.offsetLeft - list.offsetLeft - 90 });
  if (hadFocus) row.firstChild.focus({ preventScroll: true });
}

function entry(number) {
  const row = document.createElement("li");
  const button = row.appendChild(document.createElement("button"));
  button.type = "button";
  const image = button.appendChild(new Image(44, 44));
  image.alt = "";
  image.loading = "lazy";
  image.src = picture("thumbnail", queue.image[number]);
  const what = button.appendChild(document.createElement("span"));
  what.className = "what";
  what.textContent = classOf(number);
  what.appendChild(document.createElement("small")).textContent = queue.confidence[number] === null ? "" : percent(queue.confidence[number]);
  button.appendChild(document.createElement("span")).className = "mark";
  button.addEventListener("click", () => show(number));
  return row;
}

function dress(row, number) {
  const [button] = row.children;
  const badge = button.lastChild;
  const decision = queue.decision[number];
  button.setAttribute("aria-current", String(number === current));
  button.setAttribute("aria-label", `${classOf(number)}, ${percent(queue.confidence[number])}, ${nameOf(number)}, ${PAST[decision] ?? "undecided"}`);
  badge.dataset.decision = decision ?? "";
  badge.textContent = conflicts.has(number) ? "!" : SIGN[decision] ?? "";
}

// ---- One suggestion ---------------------------------------------------------------------------------------------

const picture = (kind, number) => `/api/${kind}/${number}?v=${queue.queue}${pictureTries ? `-${pictureTries}` : ""}`;

function details(number) {
  if (!evidence.has(number)) {
    if (evidence.size > 200) evidence.delete(evidence.keys().next().value);
    evidence.set(number, ask(`/api/suggestions/${number}`));
  }
  return evidence.get(number);
}

function show(number) {
  current = number;
  const some = number >= 0;
  $("card").hidden = !some;
  $("empty").hidden = some;
  for (const id of ["accept", "reject", "skip"]) $(id).disabled = !some;
  if (!some) { showEmpty(); showList(); return; }
  if (!view.includes(number)) {
    view.push(number);
    view.sort(inOrder);
  }
  $("class-name").textContent = classOf(number);
  $("image-name").textContent = nameOf(number);
  $("confidence").textContent = percent(queue.confidence[number]);
  $("meter").style.width = queue.confidence[number] === null ? "0%" : percent(queue.confidence[number]);
  $("frame").setAttribute("aria-label", `Image ${nameOf(number)}: show where the model sees ${classOf(number)}`);
  const source = picture("image", queue.image[number]);
  if ($("image").getAttribute("src") !== source) {
    $("image").classList.add("loading"); // never show the last image under the next name
    $("image").src = source;
    $("frame").hidden = false;
    $("broken").hidden = true;
  }
  $("mask").hidden = $("nowhere").hidden = true;
  $("boxes").replaceChildren();
  showBadge();
  showList();
  showEvidence(number);
}

async function showEvidence(number) {
  let one;
  try {
    one = await details(number);
  } catch (error) {
    evidence.delete(number);
    if (error.status !== 404) unreachable(error);
    one = { observed: [], nearest: [], estimate: null, mask: false, boxes: null };
  }
  if (number !== current) return;
  $("estimate-row").hidden = one.estimate === null;
  $("score").textContent = one.estimate === null ? "" : percent(one.score);
  $("estimate").textContent = one.estimate === null ? "" : percent(one.estimate);
  showLabels(number, one.observed);
  $("nearest-part").hidden = !one.nearest.length;
  $("nearest-title").textContent = `Closest confirmed images of ${classOf(number)}`;
  $("nearest").replaceChildren(...one.nearest.slice(0, 8).map((near) => {
    const item = document.createElement("li");
    const image = item.appendChild(new Image());
    image.src = picture("thumbnail", near.number);
    image.alt = near.image;
    item.title = near.image;
    item.appendChild(document.createElement("small")).textContent = near.score.toFixed(2);
    return item;
  }));
  if (one.boxes && !one.mask) { // the mask's outline is better
    $("boxes").replaceChildren(...one.boxes.map(([left, top, right, bottom]) => {
      const box = document.createElement("span");
      box.className = "overlay box";
      Object.assign(box.style, {
        left: percent(left), top: percent(top), width: percent(right - left), height: percent(bottom - top),
      });
      return box;
    }));
  }
  $("nowhere").hidden = !(one.boxes && !one.boxes.length);
  $("where").disabled = !(one.mask || one.boxes?.length);
  if (!$("nowhere").hidden) $("frame").setAttribute("aria-label", `Image ${nameOf(number)}: no clear place of ${classOf(number)}`);
  $("mask").dataset.of = one.mask ? String(number) : "";
  showMask();
  for (const next of view.slice(view.indexOf(number) + 1, view.indexOf(number) + 3)) {
    details(next).catch(() => evidence.delete(next));
    new Image().src = picture("image", queue.image[next]);
  }
}

let observed = []; // the labels of the image on show that were known before

/** The labels of the image: known, accepted here, added by hand; and the classes that can still be added. */
function showLabels(number, known = observed) {
  observed = known;
  const image = queue.image[number];
  const chip = (name, kind) => {
    const made = document.createElement("span");
    made.textContent = name;
    made.className = kind;
    return made;
  };
  const accepted = [...queue.class.keys()].filter((n) => queue.image[n] === image && queue.decision[n] === "accept").map(classOf);
  const added = [...addedTo(image)];
  const chips = [
    ...known.map((name) => chip(name, "")),
    ...accepted.filter((name) => !known.includes(name)).map((name) => chip(name, "accepted")),
    ...added.map((label) => {
      const made = chip(queue.all_classes[label], "added");
      const back = made.appendChild(document.createElement("button"));
      back.type = "button";
      back.textContent = "×";
      back.setAttribute("aria-label", `Take back ${queue.all_classes[label]}`);
      back.addEventListener("click", () => setLabel(label, false));
      return made;
    }),
  ];
  const none = queue.confidence[number] === null ? percent(null) : "none";
  $("observed").replaceChildren(...(chips.length ? chips : [chip(none, "")]));
  const taken = new Set([...known, ...accepted, ...added.map((label) => queue.all_classes[label])]);
  const options = queue.all_classes.flatMap((name, label) => {
    if (taken.has(name) || name === classOf(number)) return [];
    const option = document.createElement("option");
    option.value = String(label);
    option.textContent = name;
    return [option];
  });
  $("add").replaceChildren($("add").options[0], ...options);
  $("add").value = "";
  $("add").hidden = !options.length;
}

/** Called when the image has loaded and when the evidence has arrived: the mask needs both. */
function showMask() {
  const image = $("image");
  if (!image.complete || !image.naturalWidth) return;
  image.classList.remove("loading");
  const ratio = image.naturalWidth / image.naturalHeight;
  $("frame").style.setProperty("--ratio", ratio);
  if ($("mask").dataset.of !== String(current)) return;
  $("mask").src = `/api/mask/${current}?ratio=${ratio.toFixed(3)}&v=${queue.queue}`;
  $("mask").hidden = false;
}

function showBadge() {
  const decision = queue.decision[current];
  const other = byOthers.has(current);
  $("badge").hidden = !decision;
  $("badge").dataset.decision = decision ?? "";
  const [own, theirs] = conflicts.get(current) ?? [];
  $("conflict").hidden = !own;
  $("conflict").textContent = own
    ? `Conflict: ${PAST[own]} in this tab, ${PAST[theirs]} in another. “${decision ? PAST[decision] : "undecided"}” counts; answer again to settle it.`
    : "";
  $("badge").textContent = decision ? `${SIGN[decision]} ${PAST[decision]}${other ? " in another tab" : ""}` : "";
}

function showConflicts() {
  $("conflicts").hidden = !conflicts.size;
  $("conflicts").textContent = `${conflicts.size} conflict${conflicts.size > 1 ? "s" : ""}`;
  for (const [number, row] of rows) dress(row, number);
  if (current >= 0) showBadge();
}

function showEmpty() {
  const skipped = queue.decision.filter((d) => d === "skip").length;
  const left = queue.decision.filter((d) => !d).length;
  const filtered = $("class").value || $("least").valueAsNumber > 0 || $("status").value !== "open";
  const [title, text] = !queue.class.length
    ? ["Nothing to review", "The list is empty."]
    : !left
      ? ["All decided", summary()]
      : ["Nothing left here", `No suggestions match these filters. Undecided in total: ${left}.`];
  $("next").hidden = Boolean(left) || !queue.class.length;
  $("command").textContent = queue.command;
  $("empty-title").textContent = title;
  $("empty-text").textContent = text;
  $("show-skipped").hidden = !skipped || $("status").value === "skip";
  $("show-skipped").textContent = `Show the ${skipped} skipped`;
  $("clear").hidden = !filtered;
}

/** What was done, in one sentence. */
function summary() {
  const count = (decision) => queue.decision.filter((d) => d === decision).length;
  const added = [...queue.labels.values()].reduce((sum, labels) => sum + labels.size, 0);
  const more = added ? ` and added ${added} label${added > 1 ? "s" : ""}` : "";
  return `You accepted ${count("accept")}, rejected ${count("reject")} and skipped ${count("skip")} of ${queue.class.length} ${queue.given ? "given labels" : "suggestions"}${more}. Every answer is saved in reviewed.csv.`;
}

/** How much of each class is decided; a click shows that class. */
function showClasses() {
  const all = new Array(queue.classes.length).fill(0);
  const done = new Array(queue.classes.length).fill(0);
  queue.class.forEach((c, number) => {
    all[c] += 1;
    if (queue.decision[number] && queue.decision[number] !== "skip") done[c] += 1;
  });
  queue.classes.forEach((name, c) => { $("class").options[c + 1].textContent = `${name} (${all[c] - done[c]} of ${all[c]} left)`; });
  if (!$("classes").open) return;
  $("per-class").replaceChildren(...queue.classes.map((name, c) => {
    const item = document.createElement("li");
    const button = item.appendChild(document.createElement("button"));
    button.type = "button";
    button.appendChild(document.createElement("span")).textContent = name;
    button.appendChild(document.createElement("small")).textContent = `${done[c]} of ${all[c]}`;
    const bar = button.appendChild(document.createElement("progress"));
    [bar.max, bar.value] = [all[c], done[c]];
    button.addEventListener("click", () => { $("class").value = name; filter(); });
    return item;
  }));
}

function showProgress() {
  const counts = { accept: 0, reject: 0, skip: 0 };
  for (const decision of queue.decision) if (decision) counts[decision] += 1;
  const done = counts.accept + counts.reject;
  const all = queue.decision.length;
  $("bar").max = Math.max(1, all);
  $("bar").value = done;
  $("count").textContent = `${done} of ${all} decided`;
  $("matching").textContent = `${[...queue.class.keys()].filter(matches).length} shown`;
  showClasses();
  $("tally").replaceChildren(...Object.keys(counts).map((decision) => {
    const part = document.createElement("span");
    part.textContent = `${counts[decision]} ${PAST[decision]}`;
    return part;
  }));
}

function showSaved() {
  const kept = queue ? keptKeys().length : 0;
  const state = !kept ? "saved" : trouble ? "kept" : "saving";
  $("saved").dataset.state = state;
  $("saved").textContent = { saved: "All saved", saving: "Saving…", kept: `${kept} not saved` }[state];
}

let silence = 0;
function say(text, time = 4000) {
  $("said").textContent = text;
  $("said").dataset.shown = "true";
  clearTimeout(silence);
  silence = setTimeout(() => { $("said").dataset.shown = "false"; }, time);
}

// ---- Mouse, keys and the rest -----------------------------------------------------------------------------------

const skip = () => { justSkipped.add(current); decide("skip"); };
const pin = () => {
  const pressed = String($("frame").getAttribute("aria-pressed") !== "true");
  for (const id of ["frame", "where"]) $(id).setAttribute("aria-pressed", pressed);
};
$("accept").addEventListener("click", () => decide("accept"));
$("reject").addEventListener("click", () => decide("reject"));
$("skip").addEventListener("click", skip);
$("undo").addEventListener("click", undo);
$("frame").addEventListener("click", pin);
$("where").addEventListener("click", pin);
$("add").addEventListener("change", () => { if ($("add").value) setLabel(Number($("add").value), true); });
$("conflicts").addEventListener("click", () => { $("status").value = "conflict"; filter(); });
$("classes").addEventListener("toggle", () => queue && showClasses());
$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(queue.command);
    say("Copied.");
  } catch {
    getSelection().selectAllChildren($("command")); // no clipboard without https: select it instead
  }
});
$("image").addEventListener("load", showMask);
$("image").addEventListener("error", () => { $("frame").hidden = true; $("broken").hidden = false; });
$("mask").addEventListener("error", () => { $("mask").hidden = true; });
$("filter").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["class", "status", "least", "order"]) $(id).addEventListener("input", () => queue && filter());
$("show-skipped").addEventListener("click", () => { $("status").value = "skip"; filter(); });
$("clear").addEventListener("click", () => {
  $("class").value = "";
  $("status").value = "open";
  $("least").value = 0;
  filter();
});

document.addEventListener("keydown", (event) => {
  if (!queue || event.altKey) return;
  const key = event.key.toLowerCase();
  const where = event.target.tagName;
  if (event.ctrlKey || event.metaKey) {
    if (key !== "z" || event.shiftKey) return;
    event.preventDefault();
    return undo();
  }
  if (where === "SELECT" || (where === "INPUT" && key.startsWith("arrow"))) return;
  const once = { a: () => decide("accept"), r: () => decide("reject"), s: skip, u: undo, m: pin };
  const again = { arrowright: () => step(1), arrowdown: () => step(1), arrowleft: () => step(-1), arrowup: () => step(-1) };
  const act = again[key] ?? (event.repeat ? null : once[key]); // a key that is held down decides once
  if (!act) return;
  event.preventDefault();
  act();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
addEventListener("storage", showSaved);
addEventListener("pagehide", () => tab.set("scob-review-ended", JSON.stringify([...ended, SESSION].slice(-100))));

if (filters.status) $("status").value = filters.status;
if (filters.order) $("order").value = filters.order;
if (filters.least) $("least").value = filters.least;
if (matchMedia("(max-width: 820px)").matches) $("filters").open = false;
keepPolling();
