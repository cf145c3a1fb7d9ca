// The page "Your lengths": rows, waste, packs, the bound, and how long ranks wait, all computed in the browser.

const YourLengths = (() => {
  const { counted, lpfhpGroups, bound } = Packing;
  const MOST = 2_000_000; // lengths
  const MOST_SLOTS = 1_048_576;
  const DRAWN = 32; // rows of the picture
  const TOKEN = 53_249; // pairs of tokens that cost as much as a token, in the layers of Llama 3 8B
  const EXAMPLE = // drawn from the docstrings of the packages that the workbook uses, cut to 512
    "152 27 12 10 344 512 134 228 103 512 348 7 434 11 228 20 451 102 31 59 11 17 176 160 139 48 512 512 187 162 190 50 "
    + "17 219 95 33 80 512 512 42 116 35 127 38 50 512 23 144 14 380 301 24 487 13 38 18 68 314 24 12 54 21 15 120";

  const written = (x) => x.toLocaleString("en-US");
  const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;
  const plural = (n, noun) => `${written(n)} ${noun}${n === 1 ? "" : "s"}`;

  function whole(text, name, low, high) {
    const value = /^\d{1,9}$/.test(text.trim()) ? Number(text) : NaN;
    if (!(value >= low && value <= high)) {
      throw new Error(`${name} must be a whole number from ${written(low)} to ${written(high)}, not ${text.trim().slice(0, 20) || "nothing"}.`);
    }
    return value;
  }

  // Pairs of a length and how many there are, from long to short: of numbers with anything between them, or of a table
  // whose first line is "length,count".
  function read(text) {
    const counts = new Map();
    const lines = text.trim().split(/\r?\n/);
    const table = /^\s*length\s*,\s*count\s*$/i.test(lines[0]);
    let sequences = 0;
    const add = (length, count) => {
      sequences += count;
      if (count) counts.set(length, (counts.get(length) ?? 0) + count);
    };
    if (table) {
      for (const line of lines.slice(1)) {
        const columns = line.split(",");
        if (columns.length !== 2) throw new Error(`A line of the table must be a length and a count, not ${line.trim().slice(0, 20)}.`);
        add(whole(columns[0], "A length", 1, MOST_SLOTS), whole(columns[1], "A count", 0, 999_999_999));
      }
    } else {
      for (const word of text.split(/[\s,;[\]]+/).filter(Boolean)) add(whole(word, "A length", 1, MOST_SLOTS), 1);
      if (sequences > MOST) throw new Error(`At most ${written(MOST)} lengths can be read; give a table of length,count.`);
    }
    if (!sequences) throw new Error("Paste at least one length, such as 120 34 512.");
    return [...counts].sort(([a], [b]) => b - a);
  }

  // The share of the time that ranks wait for the slowest, each with one pack a step: on average over all random deals,
  // and the least of any deal. `works` has pairs of the work of a pack and how many packs have it; the lightest packs,
  // which make no whole step, are left out. Null if there is no whole step.
  function waiting(works, ranks) {
    const rising = [...works].sort(([a], [b]) => a - b);
    let rest = rising.reduce((n, [, count]) => n + count, 0);
    const packs = rest - (rest % ranks);
    if (!packs) return null;
    rest %= ranks;
    let [total, dealt, least, before, chance] = [0, 0, 0, 0, 0];
    const within = (n) => { // the chance that the packs of a step, drawn of all, are among the n lightest
      let share = n < ranks ? 0 : 1;
      for (let k = 0; k < ranks && share; k++) share *= (n - k) / (packs - k);
      return share;
    };
    for (const [work, all] of rising) {
      const count = all - Math.min(rest, all);
      rest -= all - count;
      const [until, next] = [before + count, within(before + count)];
      total += work * count;
      dealt += work * (next - chance) * (packs / ranks);
      least += work * (Math.floor(until / ranks) - Math.floor(before / ranks)); // of a sorted deal
      [before, chance] = [until, next];
    }
    return { dealt: 1 - total / ranks / dealt, least: 1 - Math.min(1, total / ranks / least), packs };
  }

  function analyze(text, slotsText, ranksText) {
    let counts = read(text);
    const slots = slotsText.trim() ? whole(slotsText, "The row length", 1, MOST_SLOTS) : counts[0][0];
    const ranks = whole(ranksText, "The number of ranks", 2, 4096);
    const cut = counts.reduce((n, [length, count]) => n + (length > slots ? count : 0), 0);
    if (cut) {
      const kept = new Map();
      for (const [length, count] of counts) kept.set(Math.min(length, slots), (kept.get(Math.min(length, slots)) ?? 0) + count);
      counts = [...kept];
    }
    const sequences = counts.reduce((n, [, count]) => n + count, 0);
    const tokens = counts.reduce((n, [length, count]) => n + length * count, 0);
    const groups = lpfhpGroups(counts, slots);
    const packs = groups.reduce((n, { count }) => n + count, 0);
    const works = groups.map(({ lengths, count }) => [lengths.reduce((all, l) => all + TOKEN * l + l * l, 0), count]);
    return {
      sequences, tokens, slots, cut, packs, groups,
      least: bound(counts, slots),
      padded: 1 - tokens / (sequences * slots),
      packed: 1 - tokens / (packs * slots),
      deepest: groups.reduce((most, { lengths }) => Math.max(most, lengths.length), 0),
      ranks, waits: waiting(works, ranks),
    };
  }

  // The page

  const SVG = "http://www.w3.org/2000/svg";
  const draw = (rows, slots, title) => {
    const svg = document.createElementNS(SVG, "svg");
    const shape = (tag, attributes) => {
      const node = document.createElementNS(SVG, tag);
      for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
      return node;
    };
    const height = 8;
    svg.setAttribute("viewBox", `0 0 400 ${Math.max(1, rows.length) * height}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", title);
    rows.forEach((lengths, row) => {
      svg.append(shape("rect", { x: 0, y: row * height, width: 400, height: height - 1, class: "empty" }));
      let from = 0;
      for (const length of lengths) {
        const width = (400 * length) / slots;
        svg.append(shape("rect", { x: from, y: row * height, width: Math.max(0.4, width - 0.6), height: height - 1, class: "full" }));
        from += width;
      }
    });
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = title;
    figure.append(caption, svg);
    return figure;
  };

  function expanded(groups) {
    const rows = [];
    for (const { lengths, count } of groups) for (let i = 0; i < count && rows.length < DRAWN; i++) rows.push(lengths);
    return rows;
  }

  function show(found, place) {
    const { sequences, slots, packs, least, padded, packed, groups, waits, ranks, cut } = found;
    const row = (name, ...cells) => {
      const line = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = name;
      line.append(head, ...cells.map((cell) => Object.assign(document.createElement("td"), { textContent: cell })));
      return line;
    };
    const table = document.createElement("table");
    const heads = document.createElement("tr");
    heads.append(...["way", "rows", "waste", "sequences in a row, at most"].map((name) => {
      const head = document.createElement("th");
      head.scope = "col";
      head.textContent = name;
      return head;
    }));
    const above = packs - least;
    table.append(heads, row("padded to the row length", written(sequences), percent(padded), "1"),
      row("packed by LPFHP", written(packs), percent(packed), written(found.deepest)),
      row("no packing has fewer than", written(least), percent(1 - found.tokens / (least * slots)), ""));
    const words = [
      `${plural(sequences, "sequence")} in rows of ${written(slots)}: ${plural(packs, "row")} instead of ${written(sequences)}, `
        + `${(sequences / packs).toPrecision(3)} times fewer.`,
      above ? `That is at most ${plural(above, "row")} more than the fewest possible.` : "No packing has fewer rows: this is proven.",
    ];
    if (cut) words.push(`${plural(cut, "sequence")} ${cut === 1 ? "is" : "are"} longer than a row and cut to it.`);
    if (!waits) words.push(`There are fewer rows than ranks (${written(ranks)}), so waiting cannot be compared.`);
    else {
      words.push(`With one row a rank, ${written(ranks)} ranks wait ${percent(waits.dealt)} of the time for the slowest if rows are dealt at `
        + `random, and ${percent(waits.least)} if they are dealt in the order of their work, which no deal of these rows beats.`);
    }
    const all = groups.flatMap(({ lengths, count }) => Array(Math.min(count, DRAWN)).fill(lengths));
    const alone = expanded(all.slice(0, DRAWN).flat().map((length) => ({ lengths: [length], count: 1 })));
    place.picture.replaceChildren(
      draw(alone, slots, `Padded: ${alone.length < sequences ? `the first ${alone.length} rows` : plural(sequences, "row")}`),
      draw(expanded(groups), slots, `Packed: ${packs > DRAWN ? `the first ${DRAWN} rows` : plural(packs, "row")}`),
    );
    place.table.replaceChildren(table);
    place.said.textContent = words.join(" ");
  }

  function mount(root) {
    const make = (tag, attributes = {}, ...children) => {
      const node = Object.assign(document.createElement(tag), attributes);
      node.append(...children);
      return node;
    };
    const text = make("textarea", { rows: 6, value: EXAMPLE, spellcheck: false });
    const file = make("input", { type: "file", accept: ".csv,.txt,text/*" });
    const slots = make("input", { type: "text", inputMode: "numeric", size: 9, placeholder: "the longest" });
    const ranks = make("input", { type: "text", inputMode: "numeric", size: 6, value: "8" });
    const place = { said: make("p"), table: make("div"), picture: make("div", { className: "rows" }) };
    place.said.setAttribute("role", "status");
    const form = make("form", {},
      make("label", {}, "Lengths, or a table with the first line length,count", text),
      make("div", {}, make("label", {}, "Row length ", slots), make("label", {}, "Ranks ", ranks),
        make("label", {}, "A file ", file), make("button", {}, "Pack these")));
    const run = () => {
      try {
        show(analyze(text.value, slots.value, ranks.value), place);
      } catch (error) {
        place.table.replaceChildren();
        place.picture.replaceChildren();
        place.said.textContent = error.message;
      }
    };
    const take = async (given) => {
      if (!given) return;
      text.value = await given.text();
      run();
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      run();
    };
    file.onchange = () => take(file.files[0]);
    form.addEventListener("dragover", (event) => event.preventDefault());
    form.addEventListener("drop", (event) => {
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      take(event.dataTransfer.files[0]);
    });
    root.replaceChildren(form, place.said, place.table, place.picture);
    run();
  }

  return { analyze, waiting, mount };
})();
