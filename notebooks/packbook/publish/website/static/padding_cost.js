// The front page, "What does padding cost you?": the slots of four ways to make batches of the same sequences.
// Expects packing.js, reading.js and data_sets.js; nothing leaves the browser.

const PaddingCost = (() => {
  const { lpfhpGroups, bound } = Packing;
  const { wholeNumber, LONGEST } = ReadLengths;
  const BATCH = 32; // sequences of a batch, as packlib report takes it
  const BEYOND = 0.02; // of the tokens that may lie beyond the row that is chosen
  const DRAWN = 32; // rows of the picture
  const TOKEN = 53_249; // pairs of tokens that cost as much as a token, in the layers of Llama 3 8B
  const FIRST = "azure-chats"; // what the page begins with
  const ADDRESS = 4000; // letters that every browser and chat program keeps

  const written = (x) => Math.round(x).toLocaleString("en-US");
  const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;
  const plural = (n, noun) => `${written(n)} ${noun}${n === 1 ? "" : "s"}`;
  const times = (x) => x.toFixed(2);
  const numberOf = (counts) => counts.reduce((n, [, count]) => n + count, 0);
  const tokensOf = (counts) => counts.reduce((n, [length, count]) => n + length * count, 0);

  // The shortest power of two beyond which at most 2 % of the tokens lie.
  function commonRow(counts) {
    const allowed = BEYOND * tokensOf(counts);
    const beyond = (slots) => counts.reduce((n, [length, count]) => n + Math.max(0, length - slots) * count, 0);
    let slots = 1;
    while (slots < LONGEST && beyond(slots) > allowed) slots *= 2;
    return slots;
  }

  // What is longer than a row goes on in further rows, so that no token is lost.
  function split(counts, slots) {
    const pieces = new Map();
    const add = (length, count) => length && count && pieces.set(length, (pieces.get(length) ?? 0) + count);
    for (const [length, count] of counts) {
      add(slots, Math.floor(length / slots) * count);
      add(length % slots, count);
    }
    return [...pieces].sort(([a], [b]) => b - a);
  }

  // The expected slots of random batches, each padded to its longest; the last batch takes what is left.
  function randomSlots(counts, size) {
    const all = numberOf(counts);
    const rising = [...counts].reverse();
    const meanLongest = (drawn) => {
      let [shorter, before, mean] = [0, 0, 0];
      for (const [length, count] of rising) {
        shorter += count;
        let within = 1; // the chance that all that are drawn are among these
        for (let k = 0; k < drawn && within; k++) within *= Math.max(0, shorter - k) / (all - k);
        mean += (within - before) * length;
        before = within;
      }
      return mean;
    };
    const rest = all % size;
    return (all - rest) * (all < size ? 0 : meanLongest(size)) + (rest ? rest * meanLongest(rest) : 0);
  }

  // The slots of batches of sorted sequences, each padded to its longest; the smaller batch has the longest.
  function sortedSlots(counts, size) {
    let [before, slots] = [0, 0];
    for (const [length, count] of [...counts].reverse()) {
      slots += size * length * (Math.floor((before + count) / size) - Math.floor(before / size));
      before += count;
    }
    return slots + (before % size) * counts[0][0];
  }

  // The share of the time that ranks wait for the slowest, each with one pack a step: on average over all random deals,
  // and the least of any deal. `works` has pairs of the work of a pack and how many packs have it; the lightest packs,
  // which make no whole step, are left out. Null if there is no whole step.
  function waiting(works, ranks) {
    const rising = [...works].sort(([a], [b]) => a - b);
    let rest = numberOf(rising);
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

  // What the four ways cost.
  // counts: pairs of a length and how many there are, from long to short. The texts are what the fields hold.
  function analyze(counts, rowText = "", batchText = "", ranksText = "") {
    const said = Boolean(rowText.trim());
    const slots = said ? wholeNumber(rowText.replaceAll(",", ""), "The row length", 1, LONGEST) : commonRow(counts);
    const size = batchText.trim() ? wholeNumber(batchText, "The batch size", 1, 65_536) : BATCH;
    const ranks = ranksText.trim() ? wholeNumber(ranksText, "The number of ranks", 2, 4096) : 1;
    const longer = counts.reduce((n, [length, count]) => n + (length > slots ? count : 0), 0);
    const pieces = split(counts, slots);
    const groups = lpfhpGroups(pieces, slots);
    const packs = numberOf(groups.map(({ count }) => [0, count]));
    const works = groups.map(({ lengths, count }) => [lengths.reduce((all, l) => all + TOKEN * l + l * l, 0), count]);
    return {
      sequences: numberOf(counts), pieces: numberOf(pieces), tokens: tokensOf(pieces), slots, said, size, longer, packs, groups, ranks, counted: pieces,
      least: bound(pieces, slots),
      deepest: groups.reduce((most, { lengths }) => Math.max(most, lengths.length), 0),
      ways: [
        { name: "padded to the row", of: "Batches padded to the row length", slots: numberOf(pieces) * slots },
        { name: "random, padded to the longest", of: "Random batches, each padded to its longest,", slots: randomSlots(pieces, size) },
        { name: "sorted, each batch of about one length", of: "Sorted batches, each padded to its longest,", slots: sortedSlots(pieces, size) },
        { name: "packed", of: "Packs", slots: packs * slots },
      ],
      waits: ranks > 1 ? waiting(works, ranks) : null,
    };
  }

  // What was found, in sentences: the headline, and what else there is to know.
  function sentences(found, best) {
    const { ways, packs, least, slots, longer, pieces, sequences, size, ranks, waits, said } = found;
    const [fixed, random, sorted, packed] = ways.map((way) => way.slots / ways[3].slots);
    const headline = random < 1.005
      ? `Padding costs you next to nothing: random batches of ${written(size)}, each padded to its longest sequence, take ${times(random)} times the slots of packs.`
      : `Padding costs you ${percent(1 - 1 / random)} of the slots: random batches of ${written(size)}, each padded to its longest sequence, `
        + `take ${times(random)} times as many slots as packs.`;
    const more = [`Rows padded to the row length take ${times(fixed)} times as many slots as packs, and sorted batches ${times(sorted)} times as many.`];
    if (sorted < 1.02 && random >= 1.02) {
      const need = sorted < 0.995 ? "fewer slots than" : sorted < 1.005 ? "about the same number of slots as" : "hardly more slots than";
      more.push(`Sorted batches need ${need} packs, but each batch then holds sequences of about one length, so the order is no longer random.`);
    }
    const row = said ? "" : ", the shortest power of two that holds 98 % of the tokens";
    more.push(`${plural(sequences, "sequence")} fill ${plural(packs, "row")} of ${written(slots)} slots${row}.`);
    const above = packs - least;
    if (!above) more.push("No packing has fewer rows: this is proven.");
    else if (best !== undefined && best < packs) more.push(`packlib report searches further, and finds ${plural(best, "row")}: ${written(packs - best)} fewer.`);
    else {
      const further = above > Math.max(1, 0.001 * least) ? "; packlib report searches further" : "";
      more.push(`At most ${written(above)} of them could still be saved${further}.`);
    }
    if (longer) {
      more.push(`${plural(longer, "sequence")} ${longer === 1 ? "is" : "are"} longer than a row and ${longer === 1 ? "is" : "are"} split, which makes ${plural(pieces, "piece")}.`);
    }
    if (ranks > 1) {
      more.push(waits
        ? `With one row a rank, ${written(ranks)} ranks wait ${percent(waits.dealt)} of the time for the slowest if rows are dealt at random, and `
          + `${percent(waits.least)} if they are dealt in the order of their work, which no deal of these rows beats.`
        : `There are fewer rows than ranks (${written(ranks)}), so waiting cannot be compared.`);
    }
    return [headline, ...more];
  }

  // Addresses of results: `#set=wikipedia&row=512`, or `#lengths=5-2.3.c-4`: steps from length to length, ascending, each
  // with its count where that is not 1, in base 36.

  function addressOf({ set, counts, row, batch, ranks }) {
    const parts = [];
    if (set) parts.push(`set=${encodeURIComponent(set)}`);
    else {
      let before = 0;
      const steps = [...counts].reverse().map(([length, count]) => {
        const step = (length - before).toString(36);
        before = length;
        return count === 1 ? step : `${step}-${count.toString(36)}`;
      });
      parts.push(`lengths=${steps.join(".")}`);
    }
    for (const [name, value] of Object.entries({ row, batch, ranks })) if (value.trim()) parts.push(`${name}=${encodeURIComponent(value.trim())}`);
    const address = `#${parts.join("&")}`;
    return address.length <= ADDRESS ? address : null;
  }

  // What an address says; null if it says nothing of a result.
  function addressed(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const fields = Object.fromEntries(["row", "batch", "ranks"].map((name) => [name, (given.get(name) ?? "").slice(0, 20)]));
    if (given.has("set")) return { set: given.get("set"), ...fields };
    if (!given.has("lengths")) return null;
    const lines = ["length,count"];
    let length = 0;
    for (const step of given.get("lengths").split(".")) {
      const found = /^([0-9a-z]{1,5})(?:-([0-9a-z]{1,6}))?$/.exec(step);
      if (!found) throw new Error("The address holds no lengths that can be read.");
      length += parseInt(found[1], 36);
      lines.push(`${length},${found[2] ? parseInt(found[2], 36) : 1}`);
    }
    return { counts: ReadLengths.read(lines.join("\n")).counts, ...fields };
  }

  // The page

  const SVG = "http://www.w3.org/2000/svg";
  const make = (tag, attributes = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), attributes);
    node.append(...children);
    return node;
  };
  const shape = (tag, attributes, text = "") => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    return node;
  };

  // A bar for each way, its tokens and its padding; the words stay as large as those of the page.
  function bars({ ways, tokens }) {
    const most = Math.max(...ways.map((way) => way.slots));
    const bar = (kind, slots) => {
      const one = make("span", { className: kind });
      one.style.width = `${(100 * slots) / most}%`;
      return one;
    };
    return make("ul", { className: "bars" }, ...ways.map((way, at) => make("li", {},
      make("span", { textContent: way.name }),
      make("span", { textContent: at === 3 ? `${written(way.slots)} slots` : `${times(way.slots / ways[3].slots)} times as many slots` }),
      make("div", { ariaHidden: "true" }, bar("full", Math.min(tokens, way.slots)), bar("empty", Math.max(0, way.slots - tokens))))));
  }

  function drawRows(rows, slots, title) {
    const height = 8;
    const svg = shape("svg", { viewBox: `0 0 400 ${Math.max(1, rows.length) * height}`, role: "img", "aria-label": title });
    rows.forEach((lengths, row) => {
      svg.append(shape("rect", { x: 0, y: row * height, width: 400, height: height - 1, class: "empty" }));
      let from = 0;
      for (const length of lengths) {
        const width = (400 * length) / slots;
        svg.append(shape("rect", { x: from, y: row * height, width: Math.max(0.4, width - 0.6), height: height - 1, class: "full" }));
        from += width;
      }
    });
    return make("figure", {}, make("figcaption", { textContent: title }), svg);
  }

  // So many of all rows, at equal distances; `groups` has pairs of a row and how many there are of it.
  function sample(groups, most) {
    const all = numberOf(groups);
    const drawn = Math.min(most, all);
    const rows = [];
    let before = 0;
    for (const [row, count] of groups) {
      before += count;
      while (rows.length < drawn && (rows.length + 0.5) * all < before * drawn) rows.push(row);
    }
    return rows;
  }

  const mixed = (rows) => rows.map((_, i) => rows[(13 * i) % rows.length]); // as in a shuffled data set

  function rowsOf({ groups, counted, slots, packs, pieces }) {
    const alone = sample(counted, DRAWN).map((length) => [length]);
    const packed = sample(groups.map(({ lengths, count }) => [lengths, count]), DRAWN);
    const title = (way, rows, all) => `${way}: ${rows.length < all ? `${rows.length} of ${written(all)} rows` : plural(all, "row")}`;
    return [
      drawRows(alone.length === DRAWN ? mixed(alone) : alone, slots, title("Padded", alone, pieces)),
      drawRows(packed, slots, title("Packed", packed, packs)),
    ];
  }

  function tableOf({ ways, tokens, slots }) {
    const cell = (tag, text, scope) => make(tag, { textContent: text, ...(scope ? { scope } : {}) });
    const heads = ["batches", "slots", "padding", "times the slots of packs"].map((name) => cell("th", name, "col"));
    const lines = ways.map((way) => make("tr", {}, cell("th", way.name, "row"), cell("td", written(way.slots)),
      cell("td", percent(1 - tokens / way.slots)), cell("td", times(way.slots / ways[3].slots))));
    return make("table", {}, make("tr", {}, ...heads), ...lines);
  }

  // The result as a PNG of the size in which links are shown.
  function picture({ ways, tokens }, headline, about) {
    const canvas = make("canvas", { width: 1200, height: 630 });
    const on = canvas.getContext("2d");
    const wrapped = (text, size, top, lines) => {
      on.font = `600 ${size}px system-ui, sans-serif`;
      let line = "";
      for (const word of text.split(" ")) {
        if (on.measureText(`${line} ${word}`).width > 1080 && lines > 1) {
          on.fillText(line.trim(), 60, top);
          [line, top, lines] = ["", top + 1.25 * size, lines - 1];
        }
        line += ` ${word}`;
      }
      on.fillText(line.trim(), 60, top, 1080);
      return top;
    };
    on.fillStyle = "#fff";
    on.fillRect(0, 0, 1200, 630);
    on.fillStyle = "#111";
    wrapped(headline, 40, 90, 3);
    const most = Math.max(...ways.map((way) => way.slots));
    ways.forEach((way, at) => {
      const top = 260 + 80 * at;
      on.fillStyle = "#111";
      on.font = "26px system-ui, sans-serif";
      on.fillText(way.name, 60, top);
      on.fillStyle = "#c8c8c8";
      on.fillRect(60, top + 12, (1080 * way.slots) / most, 28);
      on.fillStyle = "#0072B2";
      on.fillRect(60, top + 12, (1080 * Math.min(tokens, way.slots)) / most, 28);
    });
    on.fillStyle = "#555";
    on.font = "22px system-ui, sans-serif";
    on.fillText(about, 60, 600, 1080);
    return canvas;
  }

  function mount(root) {
    const sets = typeof DATA_SETS === "undefined" ? {} : DATA_SETS;
    const text = make("textarea", { rows: 4, spellcheck: false, placeholder: "152 27 12 … or a table with a first line, such as length,count" });
    const file = make("input", { type: "file", accept: ".csv,.txt,.tsv,.json,.jsonl,text/*" });
    const menu = make("select", {}, ...Object.entries(sets).map(([name, { about }]) => make("option", { value: name, textContent: `${name}: ${about}` })),
      make("option", { value: "", textContent: "your own lengths" }));
    const field = (size, placeholder) => make("input", { type: "text", inputMode: "numeric", size, placeholder });
    const [row, batch, ranks] = [field(12, ""), field(6, String(BATCH)), field(6, "one")];
    const place = { said: make("p", { className: "headline" }), more: make("div"), shown: make("div"), asked: make("div") };
    place.said.setAttribute("role", "status");
    const own = make("label", {}, "Lengths in tokens", text);
    const mine = make("button", { type: "button", textContent: "Your own lengths" });
    const form = make("form", {},
      make("label", {}, "Data ", menu), own,
      make("div", {}, mine, make("label", {}, "or a file ", file), make("label", {}, "Row length ", row), make("label", {}, "Batch size ", batch),
        make("label", {}, "Ranks ", ranks), make("button", { textContent: "What does padding cost?" })));
    let held = null; // the counts of a file or an address, which is too long for the field, and what to call it

    const clear = () => [place.more, place.shown, place.asked].forEach((one) => one.replaceChildren());
    const given = (commas) => {
      if (menu.value) return { name: menu.value, ...sets[menu.value], told: [] };
      if (held && !text.value.trim()) return { told: [], ...held, ...(held.text === undefined ? {} : ReadLengths.read(held.text, commas)) };
      return { name: "your lengths", ...ReadLengths.read(text.value, commas) };
    };
    const run = (commas) => {
      clear();
      try {
        const { name, counts, told, best, max_length: usual } = given(commas);
        const usualRow = row.value.trim() || !usual ? row.value : String(usual);
        const found = analyze(counts, usualRow, batch.value, ranks.value);
        const isUsual = found.slots === usual;
        const [headline, ...more] = sentences(found, isUsual ? best : undefined);
        place.said.textContent = headline;
        place.more.append(make("p", { textContent: [...told, ...more].join(" ") }));
        const address = addressOf({ set: menu.value, counts, row: usualRow, batch: batch.value, ranks: ranks.value });
        const png = make("button", { type: "button", textContent: "Save it as a picture" });
        png.onclick = () => picture(found, headline, `${name}: ${plural(found.sequences, "sequence")}, ${written(found.tokens)} tokens, rows of ${written(found.slots)}`)
          .toBlob((blob) => {
            const link = make("a", { href: URL.createObjectURL(blob), download: "padding.png" });
            link.click();
            setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
          });
        const link = address ? make("a", { href: address, textContent: "Link to this result" })
          : make("span", { textContent: "These are too many different lengths for a link." });
        place.shown.append(bars(found), make("p", { className: "send" }, link, png), make("div", { className: "rows" }, ...rowsOf(found)),
          make("details", {}, make("summary", { textContent: "As a table" }), tableOf(found)));
      } catch (error) {
        place.said.textContent = error.message;
        if (!(error instanceof ReadLengths.Unclear)) return;
        place.asked.append(...error.choices.map((choice) => {
          const button = make("button", { type: "button", textContent: choice.words });
          button.onclick = () => run(choice.commas);
          return button;
        }));
      }
    };
    const showOwn = () => {
      own.hidden = Boolean(menu.value);
      row.placeholder = menu.value ? String(sets[menu.value].max_length) : "a power of two";
    };
    const hold = (one, words) => {
      held = one;
      menu.value = "";
      text.value = "";
      text.placeholder = words;
      showOwn();
    };
    const take = async (chosen) => {
      if (!chosen) return;
      hold({ name: chosen.name, text: await chosen.text() }, `The lengths of ${chosen.name}. What you write here takes their place.`);
      run();
    };
    const follow = () => {
      try {
        const asked = addressed(location.hash);
        if (!asked) return false;
        if (asked.set !== undefined && !Object.hasOwn(sets, asked.set)) throw new Error(`There is no data set ${asked.set.slice(0, 40)}.`);
        [row.value, batch.value, ranks.value] = [asked.row, asked.batch, asked.ranks];
        if (asked.set !== undefined) menu.value = asked.set;
        else hold({ name: "your lengths", counts: asked.counts }, "The lengths of the address. What you write here takes their place.");
      } catch (error) {
        clear();
        place.said.textContent = error.message;
        return true;
      }
      showOwn();
      run();
      return true;
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      if (text.value.trim() && !own.hidden) menu.value = "";
      run();
    };
    menu.onchange = () => {
      row.value = "";
      showOwn();
      if (menu.value || text.value.trim() || held) run();
      else {
        clear();
        place.said.textContent = "Paste your lengths, or choose a file.";
        text.focus();
      }
    };
    mine.onclick = () => {
      menu.value = "";
      menu.onchange();
      text.focus();
    };
    // Wherever on the page something is pasted or dropped, it is meant for the field.
    document.addEventListener("paste", (event) => {
      const pasted = event.clipboardData.getData("text");
      if (!pasted.trim() || event.target.closest?.("input, textarea, [contenteditable]")) return;
      event.preventDefault();
      held = null;
      menu.value = "";
      text.value = pasted;
      showOwn();
      run();
    });
    file.onchange = () => take(file.files[0]);
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      take(event.dataTransfer.files[0]);
    });
    window.addEventListener("hashchange", follow);
    if (Object.hasOwn(sets, FIRST)) menu.value = FIRST;
    root.replaceChildren(form, place.said, place.asked, place.shown, place.more);
    showOwn();
    if (!follow()) run();
  }

  return { analyze, sentences, waiting, commonRow, addressOf, addressed, mount };
})();
