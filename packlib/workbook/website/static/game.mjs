// Pack by hand: against SPFHP, LPFHP and the fewest packs that are possible. One module for the site and for notebooks.

export const LEVELS = [
  { name: "Eight sequences", slots: 10, lengths: [9, 7, 6, 5, 4, 3, 2, 2], says: "Fill as few packs of ten as you can." },
  { name: "Four threes", slots: 10, lengths: [3, 3, 3, 3], says: "SPFHP moves all copies of a length at once." },
  { name: "The longest pack first", slots: 10, lengths: [6, 5, 3, 2, 2, 2], says: "One of the two rules is led astray." },
  { name: "Nobody looks ahead", slots: 10, lengths: [5, 4, 4, 3, 2, 2], says: "Both rules need a pack too many." },
  { name: "Tokens are not everything", slots: 10, lengths: [7, 7, 5, 2, 2, 2, 2, 2], says: "29 tokens, packs of ten." },
  { name: "Twelve for four", slots: 20, lengths: [10, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 5], says: "The best packs have no empty slot." },
  {
    name: "Fifteen for five", slots: 30, lengths: [17, 16, 14, 14, 13, 9, 8, 8, 8, 8, 8, 8, 8, 6, 5],
    says: "Again no slot stays empty in the best packs.",
  },
];
export const MOST = 20; // sequences in a puzzle: the search for the fewest packs ends for these at once

const fallingly = (lengths) => [...lengths].sort((a, b) => b - a);
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

// From long to short, each sequence goes into the pack with the least space that is enough.
export function lpfhp(lengths, slots) {
  const packs = [];
  for (const length of fallingly(lengths)) {
    const able = packs.filter((pack) => sum(pack) + length <= slots);
    if (able.length) able.reduce((best, pack) => (sum(pack) > sum(best) ? pack : best)).push(length);
    else packs.push([length]);
  }
  return packs;
}

// All copies of a length go where most space is; each copy that finds none opens a pack, which takes no other copy.
export function spfhp(lengths, slots) {
  const packs = [];
  const rest = fallingly(lengths);
  while (rest.length) {
    const opened = [];
    for (const copies = rest[0]; rest[0] === copies; rest.shift()) {
      const able = packs.filter((pack) => sum(pack) + copies <= slots);
      if (able.length) able.reduce((best, pack) => (sum(pack) < sum(best) ? pack : best)).push(copies);
      else opened.push([copies]);
    }
    packs.push(...opened);
  }
  return packs;
}

// Every set of sequences that fits into a pack and to which no other can be added, as copies of each length.
function fullPatterns(values, copies, slots) {
  const found = [];
  const extend = (at, left, pattern) => {
    if (at === values.length) {
      if (values.every((value, i) => value > left || pattern[i] === copies[i])) found.push([...pattern]);
      return;
    }
    for (let n = Math.min(copies[at], Math.floor(left / values[at])); n >= 0; n--) {
      pattern[at] = n;
      extend(at + 1, left - n * values[at], pattern);
    }
    pattern[at] = 0;
  };
  extend(0, slots, values.map(() => 0));
  return found;
}

// The prices of the lengths, as shares of a pack: no pack is worth more than 1, and all sequences together are worth
// the most (the dual of the linear program over the patterns). No packing has fewer packs than they are worth.
export function prices(lengths, slots) {
  const values = [...new Set(fallingly(lengths))];
  const copies = values.map((value) => lengths.filter((length) => length === value).length);
  const rows = fullPatterns(values, copies, slots).map((pattern) => [...pattern, 1]);
  const goal = [...copies.map((n) => -n), 0];
  const basis = rows.map((_, i) => values.length + i);
  const columns = values.map((_, j) => j); // which variable stands in a column of the tableau
  for (;;) {
    const j = columns.reduce((best, name, at) => (goal[at] < -1e-9 && (best < 0 || name < columns[best]) ? at : best), -1);
    if (j < 0) break;
    let i = -1; // the row that limits it most; of equal ones the one of the first variable, so that it ends (Bland)
    rows.forEach((row, at) => {
      if (row[j] <= 1e-9) return;
      const less = i < 0 ? -1 : row.at(-1) / row[j] - rows[i].at(-1) / rows[i][j];
      if (less < -1e-12 || (less < 1e-12 && basis[at] < basis[i])) i = at;
    });
    const pivot = rows[i][j];
    rows[i] = rows[i].map((x, k) => (k === j ? 1 : x) / pivot);
    for (const row of [...rows.filter((_, at) => at !== i), goal]) {
      const factor = row[j];
      row[j] = 0;
      rows[i].forEach((x, k) => (row[k] -= factor * x));
    }
    [columns[j], basis[i]] = [basis[i], columns[j]];
  }
  const priced = new Map(values.map((value) => [value, 0]));
  basis.forEach((name, i) => name < values.length && priced.set(values[name], rows[i].at(-1)));
  return priced;
}

// A packing with the fewest packs: sequences go from long to short into packs of different spaces, and a branch ends
// where it cannot beat the best. `proven` is false if it was cut short.
export function fewest(lengths, slots, patience = 300000) {
  const sequences = fallingly(lengths);
  const worth = prices(lengths, slots);
  const bound = Math.ceil(sum(sequences.map((length) => worth.get(length))) - 1e-6);
  let best = lpfhp(lengths, slots);
  let steps = 0;
  const place = (at, packs) => {
    if (best.length === bound || packs.length >= best.length || steps++ > patience) return;
    if (at === sequences.length) {
      best = packs.map((pack) => [...pack]);
      return;
    }
    const seen = new Set();
    for (const pack of packs) {
      const space = slots - sum(pack);
      if (space < sequences[at] || seen.has(space)) continue;
      seen.add(space);
      pack.push(sequences[at]);
      place(at + 1, packs);
      pack.pop();
    }
    packs.push([sequences[at]]);
    place(at + 1, packs);
    packs.pop();
  };
  place(0, []);
  return { packs: best, proven: best.length === bound || steps <= patience };
}

// What was typed, as lengths; an Error says in one sentence what is wrong.
export function readLengths(text, slots) {
  const words = text.split(/[\s,;+]+/).filter(Boolean);
  if (!Number.isInteger(slots) || slots < 2 || slots > 512) throw new Error("Slots must be from 2 to 512.");
  if (!words.length || words.length > MOST) throw new Error(`Type 1 to ${MOST} lengths, such as 6, 5, 3.`);
  return words.map((word) => {
    const length = /^\d{1,4}$/.test(word) ? Number(word) : 0;
    if (length < 1 || length > slots) throw new Error(`A length must be from 1 to ${slots}, not ${word.slice(0, 20)}.`);
    return length;
  });
}

// A puzzle that has a packing without an empty slot: packs are cut into pieces, by a small generator with a seed.
export function deal(seed, slots = 24, packs = 4) {
  let state = seed >>> 0;
  const below = (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * n);
  };
  const lengths = [];
  for (let pack = 0; pack < packs; pack++) {
    let left = slots;
    while (left > slots / 4) {
      const piece = Math.min(left, 3 + below(slots / 2));
      lengths.push(piece);
      left -= piece;
    }
    if (left) lengths.push(left);
  }
  return fallingly(lengths);
}

const STYLE = `
.pack-game { container-type: inline-size; }
.pack-game button { font: inherit; color: inherit; background: transparent; border: 1px solid currentColor; border-radius: 4px;
  padding: .3em .6em; min-height: 2.4em; cursor: pointer; }
.pack-game button:disabled { opacity: .5; cursor: default; }
.pack-game button:focus-visible, .pack-game input:focus-visible { outline: 3px solid #0072B2; outline-offset: 2px; }
.pack-game .pg-table, .pack-game .pg-row, .pack-game form { display: flex; flex-wrap: wrap; gap: .35em; align-items: center; margin: .5em 0; }
.pack-game ol { list-style: none; padding: 0; margin: .5em 0; }
.pack-game li.pg-pack { display: flex; align-items: center; gap: .5em; margin: .3em 0; }
.pack-game .pg-slots { flex: 1; display: flex; height: 2.6em; border: 1px solid currentColor; border-radius: 4px; overflow: hidden;
  background: linear-gradient(to left, rgb(128 128 128 / .5) 1px, transparent 1px) 0 0 / calc(100% / var(--lines)) 100%; }
.pack-game .pg-full { min-width: 4.5em; }
@container (max-width: 34em) {
  .pack-game li.pg-pack { flex-wrap: wrap; }
  .pack-game li.pg-pack .pg-slots { order: 1; flex-basis: 100%; }
}
.pack-game .pg-slots button { border: 0; border-right: 2px solid Canvas; border-radius: 0; background: #0072B2; color: #fff; min-width: 0; padding: 0; }
.pack-game .pg-table button[aria-pressed=true] { background: #0072B2; color: #fff; }
.pack-game .pg-end { border-left: 4px solid #0072B2; padding-left: 1em; margin: 1em 0; }
.pack-game .pg-end summary { margin-top: .5em; }
.pack-game .pg-end .pg-slots { height: 1.5em; max-width: 30em; }
.pack-game .pg-end .pg-slots span { background: #0072B2; color: #fff; border-right: 2px solid Canvas; text-align: center; line-height: 1.5em; overflow: hidden; }
.pack-game input { font: inherit; padding: .3em; max-width: 100%; }
`;

function make(tag, attributes = {}, ...children) {
  const node = Object.assign(document.createElement(tag), attributes);
  for (const [name, value] of Object.entries(attributes)) if (name.includes("-") || name === "role") node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const many = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

// Put the game into `root`. `own` is a puzzle to begin with; `ended` hears of each one that was packed.
export function mount(root, own = null, ended = () => {}) {
  let level = own ? -1 : 0;
  let puzzle, rules, table, packs, chosen, priced, seed = 1;
  const solved = new Set(); // levels that were packed into the fewest packs
  const said = make("p", { role: "status", "aria-live": "polite" });
  const title = make("h2"), goal = make("p"), board = make("div"), end = make("div");
  const typed = make("input", { type: "text", size: 28, value: "6, 5, 3, 2, 2, 2" });
  const room = make("input", { type: "number", min: 2, max: 512, value: 10 });
  const form = make("form", {}, make("label", {}, "Lengths ", typed), make("label", {}, "Slots ", room),
    make("button", { type: "submit" }, "Play these"));

  const name = () => {
    const done = solved.has(level) ? " (solved)" : "";
    title.textContent = level < 0 ? puzzle.name : `Level ${level + 1} of ${LEVELS.length}: ${puzzle.name}${done}`;
  };
  const start = (next) => {
    puzzle = next;
    rules = { SPFHP: spfhp(next.lengths, next.slots).length, LPFHP: lpfhp(next.lengths, next.slots).length };
    table = fallingly(next.lengths).map((length, id) => ({ length, id }));
    [packs, chosen, priced] = [[], 0, null];
    end.replaceChildren();
    game.style.setProperty("--lines", next.slots <= 60 ? next.slots : 1); // so that empty slots can be counted
    name();
    goal.textContent = `${next.says} To beat: SPFHP fills ${many(rules.SPFHP, "pack")}, LPFHP ${rules.LPFHP}.`;
    said.textContent = `${many(table.length, "sequence")}, packs of ${next.slots} slots.`;
    draw();
  };
  const first = () => board.querySelector("button").focus();
  const to = (at) => {
    if (!table.length) return;
    const [sequence] = table.splice(chosen, 1);
    const space = at === packs.length ? puzzle.slots : puzzle.slots - sum(packs[at].map((one) => one.length));
    if (sequence.length > space) {
      table.splice(chosen, 0, sequence);
      said.textContent = `${sequence.length} does not fit: pack ${at + 1} has ${many(space, "empty slot")}.`;
      return;
    }
    if (at === packs.length) packs.push([]);
    packs[at].push(sequence);
    chosen = Math.min(chosen, Math.max(0, table.length - 1));
    said.textContent = `${sequence.length} is in pack ${at + 1}, which has ${many(space - sequence.length, "empty slot")}. `
      + (table.length ? `${many(table.length, "sequence")} left.` : "");
    draw();
    if (!table.length) finish();
  };
  const back = (at, sequence) => {
    packs[at] = packs[at].filter((one) => one !== sequence);
    packs = packs.filter((pack) => pack.length);
    table = [...table, sequence].sort((a, b) => b.length - a.length || a.id - b.id);
    chosen = table.indexOf(sequence);
    said.textContent = `${sequence.length} is on the table again.`;
    end.replaceChildren();
    draw();
  };
  const worth = (lengths) => Math.round(100 * sum(lengths.map((length) => priced.get(length))));
  const hint = () => {
    if (priced) {
      const [pack] = fewest(puzzle.lengths, puzzle.slots).packs;
      said.textContent = `One of the packs in the best packing found holds ${pack.join(" + ")}.`;
    } else {
      priced = prices(puzzle.lengths, puzzle.slots);
      const total = sum(puzzle.lengths.map((length) => priced.get(length)));
      const needed = Math.ceil(total - 1e-6);
      said.textContent = `Each sequence now has a price, in percent of a pack, and no pack can be worth more than 100. All together `
        + `they are worth ${Math.round(100 * total)}, so at least ${many(needed, "pack")} ${needed === 1 ? "is" : "are"} needed. `
        + `Look for packs that are worth 100.`;
    }
    draw();
  };
  const row = (lengths) => make("div", { className: "pg-slots" }, ...lengths.map((length) => {
    const part = make("span", {}, String(length));
    part.style.width = `${(100 * length) / puzzle.slots}%`;
    return part;
  }));
  const finish = () => {
    const best = fewest(puzzle.lengths, puzzle.slots);
    const beaten = Object.keys(rules).filter((name) => rules[name] > packs.length);
    const least = best.packs.length;
    const words = [`You filled ${many(packs.length, "pack")}. SPFHP fills ${rules.SPFHP}, LPFHP ${rules.LPFHP}.`];
    if (beaten.length) words.push(`You beat ${beaten.join(" and ")}.`);
    if (!best.proven) words.push(`The best that the search found is ${least}; it was cut short, so fewer may be possible.`);
    else if (packs.length === least) words.push("No packing has fewer packs: yours is proven best.");
    else words.push(`${many(least, "pack")} would be enough.`);
    const won = level >= 0 && packs.length === least;
    if (won) {
      solved.add(level);
      name();
      if (solved.size === LEVELS.length) words.push(`You have solved all ${LEVELS.length} levels.`);
    }
    const on = won ? turn(`On to level ${((level + 1) % LEVELS.length) + 1}`, levelUp(1)) : turn("Pack it again", () => start(puzzle));
    on.addEventListener("click", first);
    const shown = packs.length > least
      ? [make("details", {}, make("summary", {}, "Show a packing with the fewest packs"), ...best.packs.map(row))] : [];
    end.replaceChildren(make("div", { className: "pg-end" }, on, ...shown));
    said.textContent = words.join(" ");
    on.focus();
    ended({ packs: packs.length, fewest: least, proven: best.proven });
  };
  const draw = () => {
    const price = (length) => (priced ? ` (${Math.round(100 * priced.get(length))} %)` : "");
    const pieces = table.map(({ length }, at) => {
      const piece = make("button", { type: "button", "aria-pressed": String(at === chosen) }, `${length}${price(length)}`);
      piece.setAttribute("aria-label", `Sequence of ${many(length, "token")}${price(length)}`);
      piece.style.minWidth = `${2.2 + (6 * length) / puzzle.slots}em`;
      piece.onclick = () => { chosen = at; draw(); };
      return piece;
    });
    const rows = packs.map((pack, at) => {
      const filled = sum(pack.map((one) => one.length));
      const parts = pack.map((sequence) => {
        const part = make("button", { type: "button", title: "Back to the table" }, String(sequence.length));
        part.setAttribute("aria-label", `Take ${sequence.length} out of pack ${at + 1}`);
        part.style.width = `${(100 * sequence.length) / puzzle.slots}%`;
        part.onclick = () => back(at, sequence);
        return part;
      });
      const into = make("button", { type: "button", disabled: !table.length }, `Put into pack ${at + 1}`);
      into.onclick = () => to(at);
      const worthy = priced ? `, worth ${worth(pack.map((one) => one.length))}` : "";
      const full = make("span", { className: "pg-full" }, `${filled} of ${puzzle.slots}${worthy}`);
      return make("li", { className: "pg-pack" }, into, make("div", { className: "pg-slots" }, ...parts), full);
    });
    const open = make("button", { type: "button", disabled: !table.length }, "Open a new pack");
    open.onclick = () => to(packs.length);
    const held = board.contains(document.activeElement) ? document.activeElement : null;
    const heldOnTable = held?.closest(".pg-table");
    board.replaceChildren(
      make("div", { className: "pg-table", role: "group", "aria-label": "Sequences on the table" }, ...pieces),
      make("ol", { "aria-label": "Packs" }, ...rows), make("div", { className: "pg-row" }, open),
    );
    const alike = (button) => button.textContent === held.textContent; // the focus stays on the table, or where it was
    if (held) ((heldOnTable ? pieces[chosen] : [...board.querySelectorAll("button:enabled")].find(alike)) ?? open).focus();
    help.textContent = priced ? "Hint: show one pack" : "Hint: show the prices";
  };
  const turn = (words, action) => Object.assign(make("button", { type: "button" }, words), { onclick: action });
  const help = turn("", hint);
  const levelUp = (by) => () => {
    level = (Math.max(level, by < 0 ? LEVELS.length : -1) + by + LEVELS.length) % LEVELS.length;
    start(LEVELS[level]);
  };
  const tools = make("div", { className: "pg-row" },
    help, turn("Begin again", () => start(puzzle)), turn("Previous level", levelUp(-1)),
    turn("Next level", levelUp(1)), turn("Deal a puzzle", () => {
      level = -1;
      start({ name: `Dealt puzzle ${seed}`, slots: 24, lengths: deal(seed++), says: "Four packs of 24 can hold them all." });
    }));
  form.onsubmit = (event) => {
    event.preventDefault();
    try {
      const lengths = readLengths(typed.value, Number(room.value));
      level = -1;
      start({ name: "Your own lengths", slots: Number(room.value), lengths, says: "" });
      first(); // else the digits that are pressed next are typed
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const keys = make("p", {}, "Keys: left and right choose a sequence, a digit puts it into that pack, and 0 opens a new one.");
  const game = make("section", { className: "pack-game", "aria-label": "Pack by hand" },
    make("style", { textContent: STYLE }), title, goal, board, said, end, tools, form, keys);
  game.addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey || !table.length) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      chosen = (chosen + step + table.length) % table.length;
      draw();
      said.textContent = `${table[chosen].length} is chosen.`;
    } else if (/^\d$/.test(event.key) && Number(event.key) <= packs.length) {
      to(event.key === "0" ? packs.length : Number(event.key) - 1);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  root.replaceChildren(game);
  start(own ?? LEVELS[0]);
}

// For anywidget, in a notebook.
export default {
  render({ model, el }) {
    const lengths = model.get("lengths");
    const own = lengths.length ? { name: "Your own lengths", slots: model.get("slots"), lengths, says: "" } : null;
    mount(el, own, ({ packs }) => {
      model.set("packs", packs);
      model.save_changes();
    });
  },
};
