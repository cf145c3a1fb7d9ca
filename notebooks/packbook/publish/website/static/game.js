// Pack by hand: against SPFHP, LPFHP and the fewest packs that are possible. It follows packing.js, on the site and in notebooks.

const PackingGame = (() => {
  const { fallingly, sum, lpfhp, spfhp, spfhpSteps, stacked, prices, fewest } = Packing;
  const LEVELS = [
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
  const MOST = 20; // sequences in a puzzle: the search for the fewest packs ends for these at once

  // What was typed, as lengths; an Error says in one sentence what is wrong.
  function readLengths(text, slots) {
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
  function deal(seed, slots = 24, packs = 4) {
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
  .pack-game { container-type: inline-size; touch-action: manipulation; }
  .pack-game button { font: inherit; color: inherit; background: transparent; border: 1px solid currentColor; border-radius: 4px;
    padding: .3em .6em; min-height: 2.4em; cursor: pointer; }
  .pack-game button:disabled { opacity: .5; cursor: default; }
  .pack-game button:focus-visible, .pack-game input:focus-visible { outline: 3px solid #0072B2; outline-offset: 2px; }
  .pack-game .pg-tools, .pack-game form { display: flex; flex-wrap: wrap; gap: .5em; align-items: center; margin: .5em 0; }
  .pack-game .pg-stage { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 2em; margin: 1em 0; }
  .pack-game h3 { font-size: 1em; margin: 0 0 .5em; }
  .pack-game ol { list-style: none; padding: 0; margin: 0; }
  .pack-game li { margin: .35em 0; padding: 0; }
  .pack-game .pg-line { display: grid; grid-template-columns: 2.6em minmax(0, 1fr) 4.5em; gap: .5em; align-items: center; }
  .pack-game .pg-table { grid-column: 2; display: flex; flex-wrap: wrap; align-items: flex-end; row-gap: 3px; min-height: 2.6em; margin-bottom: .75em; }
  .pack-game .pg-slots { display: flex; height: 2.6em; border: 1px solid currentColor; border-radius: 4px; overflow: hidden;
    background: linear-gradient(to left, rgb(128 128 128 / .5) 1px, transparent 1px) 0 0 / calc(100% / var(--lines)) 100%; }
  .pack-game .pg-open { border-style: dashed; cursor: pointer; justify-content: center; align-items: center; }
  .pack-game .pg-over { outline: 3px solid #0072B2; }
  .pack-game .pg-tile, .pack-game .pg-slots span { border: 0; border-right: 2px solid Canvas; border-radius: 0; background: #0072B2;
    color: #fff; min-width: 0; padding: 0; overflow: hidden; text-align: center; line-height: 2.4em; }
  .pack-game .pg-tile { touch-action: none; cursor: grab; transition: height .3s; }
  .pack-game .pg-table .pg-tile { border-radius: 3px; }
  .pack-game .pg-tile small { display: block; line-height: 1; }
  .pack-game .pg-tile[aria-pressed=true] { background: #fff; color: #222; outline: 3px solid #0072B2; outline-offset: -3px; }
  .pack-game .pg-ghost { position: fixed; z-index: 9; pointer-events: none; opacity: .85; }
  .pack-game .pg-rule li { display: grid; grid-template-columns: minmax(0, 1fr) 4.5em; gap: .5em; align-items: center; }
  .pack-game .pg-rule .pg-slots, .pack-game .pg-end .pg-slots { height: 1.6em; }
  .pack-game .pg-rule .pg-slots span, .pack-game .pg-end .pg-slots span { background: #595959; line-height: 1.5em; }
  .pack-game .pg-end { border-left: 4px solid #0072B2; padding-left: 1em; margin: 1em 0; }
  .pack-game .pg-end summary { margin-top: .5em; }
  .pack-game .pg-end .pg-slots { max-width: 30em; }
  .pack-game .pg-counts { display: grid; grid-template-columns: max-content 1fr; gap: .2em .8em; max-width: 30em; margin: .75em 0; }
  .pack-game .pg-counts b { background: #595959; color: #fff; padding-left: .5em; min-width: 1.5em; }
  .pack-game .pg-counts b.pg-least { background: #0072B2; }
  .pack-game input { font: inherit; padding: .3em; max-width: 100%; }
  @container (max-width: 40em) { .pack-game .pg-stage { grid-template-columns: minmax(0, 1fr); gap: 1em; } }
  @media (prefers-reduced-motion: reduce) { .pack-game .pg-tile { transition: none; } }
  `;

  function make(tag, attributes = {}, ...children) {
    const node = Object.assign(document.createElement(tag), attributes);
    for (const [name, value] of Object.entries(attributes)) if (name.includes("-") || name === "role") node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

  // Put the game into `root`. `own` is a puzzle to begin with; `ended` hears of each one that was packed. Keys are heard
  // in `within`: a page of its own has no other use for them, a notebook has.
  function mount(root, own = null, ended = () => {}, within = document) {
    let level = own ? -1 : 0;
    let puzzle, rules, table, packs, chosen, priced, before, seed = 1;
    const solved = new Set(); // levels that were packed into the fewest packs
    const said = make("p", { role: "status", "aria-live": "polite" });
    const title = make("h2"), goal = make("p"), board = make("div", { className: "pg-stage" }), end = make("div");
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
      [packs, chosen, priced, before] = [[], 0, null, []];
      end.replaceChildren();
      game.style.setProperty("--lines", next.slots <= 60 ? next.slots : 1); // so that empty slots can be counted
      name();
      goal.textContent = `${next.says} To beat: SPFHP fills ${plural(rules.SPFHP, "pack")}, LPFHP ${rules.LPFHP}.`;
      said.textContent = `${plural(table.length, "sequence")}, packs of ${next.slots} slots.`;
      draw();
    };
    const first = () => board.querySelector("button").focus();
    // What is on the table and in packs before a step, so that the step can be undone.
    const remember = () => before.push({ table: [...table], packs: packs.map((pack) => [...pack]), chosen });
    const undo = () => {
      if (!before.length) return;
      ({ table, packs, chosen } = before.pop());
      end.replaceChildren();
      said.textContent = `Undone: ${plural(table.length, "sequence")} left.`;
      draw();
    };
    const to = (at) => {
      if (!table.length) return;
      remember();
      const [sequence] = table.splice(chosen, 1);
      const space = at === packs.length ? puzzle.slots : puzzle.slots - sum(packs[at].map((one) => one.length));
      if (sequence.length > space) {
        undo();
        said.textContent = `${sequence.length} does not fit: pack ${at + 1} has ${plural(space, "empty slot")}.`;
        return;
      }
      if (at === packs.length) packs.push([]);
      packs[at].push(sequence);
      chosen = Math.min(chosen, Math.max(0, table.length - 1));
      said.textContent = `${sequence.length} is in pack ${at + 1}, which has ${plural(space - sequence.length, "empty slot")}. `
        + (table.length ? `${plural(table.length, "sequence")} left.` : "");
      draw();
      if (!table.length) finish();
    };
    const back = (at, sequence) => {
      remember();
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
        said.textContent = `Each sequence now has a price, in percent of a pack: the dearer, the taller. No pack can be worth more than 100. All together `
          + `they are worth ${Math.round(100 * total)}, so at least ${plural(needed, "pack")} ${needed === 1 ? "is" : "are"} needed. `
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
      const words = [`You filled ${plural(packs.length, "pack")}. SPFHP fills ${rules.SPFHP}, LPFHP ${rules.LPFHP}.`];
      if (beaten.length) words.push(`You beat ${beaten.join(" and ")}.`);
      if (!best.proven) words.push(`The best that the search found is ${least}; it was cut short, so fewer may be possible.`);
      else if (packs.length === least) words.push("No packing has fewer packs: yours is proven best.");
      else words.push(`${plural(least, "pack")} would be enough.`);
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
      const bar = (count, kind = "") => {
        const drawn = make("b", { className: kind }, String(count));
        drawn.style.width = `${(100 * count) / Math.max(packs.length, rules.SPFHP, rules.LPFHP)}%`;
        return drawn;
      };
      const counts = make("div", { className: "pg-counts" },
        "SPFHP", bar(rules.SPFHP), "LPFHP", bar(rules.LPFHP), "you", bar(packs.length),
        best.proven ? "proven least" : "least found", bar(least, "pg-least"));
      end.replaceChildren(make("div", { className: "pg-end" }, counts, on, ...shown));
      said.textContent = words.join(" ");
      on.focus();
      ended({ packs: packs.length, fewest: least, proven: best.proven });
    };
    // A tile can be dragged to a pack, or back to the table; a tap or a click does what `tap` does.
    const draggable = (tile, tap, dropped) => {
      tile.onclick = tap;
      tile.onpointerdown = (down) => {
        let ghost = null;
        const under = (event) => document.elementsFromPoint(event.clientX, event.clientY).find((node) => node.dataset?.pack);
        const move = (event) => {
          if (!ghost && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < 6) return;
          if (!ghost) {
            ghost = tile.cloneNode(true);
            ghost.classList.add("pg-ghost");
            ghost.style.width = `${tile.offsetWidth}px`;
            game.append(ghost);
          }
          ghost.style.left = `${event.clientX - tile.offsetWidth / 2}px`;
          ghost.style.top = `${event.clientY - 20}px`;
          board.querySelectorAll("[data-pack]").forEach((place) => place.classList.toggle("pg-over", place === under(event)));
        };
        const up = (event) => {
          window.removeEventListener("pointermove", move);
          window.removeEventListener("pointerup", up);
          window.removeEventListener("pointercancel", up);
          if (!ghost) return;
          ghost.remove();
          const place = event.type === "pointerup" ? under(event) : null;
          tile.onclick = (click) => click.preventDefault(); // the click that ends a drag
          board.querySelectorAll(".pg-over").forEach((over) => over.classList.remove("pg-over"));
          if (place) dropped(place.dataset.pack);
          else draw();
        };
        window.addEventListener("pointermove", move);
        window.addEventListener("pointerup", up);
        window.addEventListener("pointercancel", up);
      };
    };
    const draw = () => {
      const price = (length) => (priced ? ` (${Math.round(100 * priced.get(length))} %)` : "");
      const tile = (length, label) => {
        const made = make("button", { type: "button", className: "pg-tile", "aria-label": label, title: label }, String(length));
        made.style.width = `${(100 * length) / puzzle.slots}%`;
        return made;
      };
      const pieces = table.map(({ length }, at) => {
        const piece = tile(length, `Sequence of ${plural(length, "token")}${price(length)}`);
        piece.setAttribute("aria-pressed", String(at === chosen));
        if (priced) { // a dear sequence is tall
          piece.style.height = `${3.8 + 4 * priced.get(length)}em`;
          piece.append(make("small", {}, String(Math.round(100 * priced.get(length)))));
        }
        draggable(piece, () => { chosen = at; draw(); }, (pack) => {
          chosen = at;
          if (pack === "table") draw();
          else to(Number(pack));
        });
        return piece;
      });
      const rows = packs.map((pack, at) => {
        const filled = sum(pack.map((one) => one.length));
        const parts = pack.map((sequence) => {
          const part = tile(sequence.length, `Take ${sequence.length} out of pack ${at + 1}`);
          draggable(part, () => back(at, sequence), (place) => {
            if (place === String(at)) return draw();
            back(at, sequence);
            if (place === "table") return;
            const gone = packs.length && Number(place) > at && before.at(-1).packs.length > packs.length ? 1 : 0;
            to(Number(place) - gone);
          });
          return part;
        });
        const into = make("button", { type: "button", disabled: !table.length, "aria-label": `Put into pack ${at + 1}` }, String(at + 1));
        into.onclick = () => to(at);
        const slots = make("div", { className: "pg-slots" }, ...parts);
        slots.dataset.pack = at;
        slots.onclick = (event) => event.target === slots && to(at);
        const worthy = priced ? `, ${worth(pack.map((one) => one.length))} %` : "";
        return make("li", { className: "pg-line" }, into, slots, make("span", {}, `${filled}/${puzzle.slots}${worthy}`));
      });
      const open = make("button", { type: "button", disabled: !table.length, "aria-label": "Open a new pack" }, "+");
      open.onclick = () => to(packs.length);
      const empty = make("div", { className: "pg-slots pg-open" }, "a new pack");
      empty.dataset.pack = packs.length;
      empty.onclick = () => to(packs.length);
      const desk = make("div", { className: "pg-table", role: "group", "aria-label": "Sequences on the table" }, ...pieces);
      desk.dataset.pack = "table";
      const placed = spfhpSteps(puzzle.lengths, puzzle.slots).slice(0, puzzle.lengths.length - table.length);
      const theirs = stacked(placed).map((pack) => make("li", {}, row(pack), make("span", {}, `${sum(pack)}/${puzzle.slots}`)));
      const held = board.contains(document.activeElement) ? document.activeElement : null;
      const heldOnTable = held?.closest(".pg-table");
      board.replaceChildren(
        make("div", {}, make("h3", {}, `You: ${plural(packs.length, "pack")}`), make("div", { className: "pg-line" }, desk),
          make("ol", { "aria-label": "Packs" }, ...rows), make("div", { className: "pg-line" }, open, empty)),
        make("div", { className: "pg-rule" }, make("h3", {}, `SPFHP so far: ${plural(theirs.length, "pack")}`),
          theirs.length ? make("ol", { "aria-label": "Packs of SPFHP" }, ...theirs) : make("p", {}, "It places a sequence with each of yours.")),
      );
      const name = (button) => button.getAttribute("aria-label"); // the focus stays on the table, or where it was
      const alike = (button) => name(button) === name(held);
      if (held) ((heldOnTable ? pieces[chosen] : [...board.querySelectorAll("button:enabled")].find(alike)) ?? open).focus();
      help.textContent = priced ? "Hint: show one pack" : "Hint: show the prices";
      undone.disabled = !before.length;
    };
    const turn = (words, action) => Object.assign(make("button", { type: "button" }, words), { onclick: action });
    const help = turn("", hint);
    const levelUp = (by) => () => {
      level = (Math.max(level, by < 0 ? LEVELS.length : -1) + by + LEVELS.length) % LEVELS.length;
      start(LEVELS[level]);
    };
    const undone = turn("Undo", undo);
    const tools = make("div", { className: "pg-tools" },
      undone, help, turn("Begin again", () => start(puzzle)), turn("Previous level", levelUp(-1)),
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
    const keys = make("p", {}, "Drag the tiles, or tap a tile and then a pack. Keys: left and right choose a sequence, a digit puts it into that "
      + "pack, 0 opens a new one, and Backspace takes the last step back.");
    const game = make("section", { className: "pack-game", "aria-label": "Pack by hand" },
      make("style", { textContent: STYLE }), title, goal, board, said, end, tools, form, keys);
    within.addEventListener("keydown", (event) => {
      if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Backspace") undo();
      else if (!table.length) return;
      else if (step) {
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
  function render({ model, el }) {
    const lengths = model.get("lengths");
    const own = lengths.length ? { name: "Your own lengths", slots: model.get("slots"), lengths, says: "" } : null;
    mount(el, own, ({ packs }) => {
      model.set("packs", packs);
      model.save_changes();
    }, el);
  }

  return { LEVELS, MOST, deal, mount, readLengths, render };
})();
