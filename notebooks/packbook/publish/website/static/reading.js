// Lengths out of the text that people have: numbers, a column of a table, length,count, JSON, what pandas and numpy print.
// A classic script, so that pages opened as files can run it.

const ReadLengths = (() => {
  const LONGEST = 1_048_576; // tokens
  const MOST = 5_000_000; // sequences that are listed one by one
  const LENGTH_NAMES = "length lengths len tokens n_tokens num_tokens token_count tokens_count seq_len seq_length seqlen "
    + "sequence_length input_length size";
  const COUNT_NAMES = "count counts frequency occurrences";
  const NUMBERED = ["", "#", "index", "id", "idx", "unnamed: 0"];
  const named = (names) => (name) => names.split(" ").includes(name.replace(/[\s-]+/g, "_"));
  const written = (x) => x.toLocaleString("en-US");
  const short = (text) => (text.trim().length > 20 ? `${text.trim().slice(0, 20)} …` : text.trim() || "nothing");

  // What can be read in two ways: `choices` has the words of each, and what `commas` is then.
  class Unclear extends Error {
    constructor(message, choices) {
      super(message);
      this.choices = choices;
    }
  }

  const POWERS = /^\d(\.\d+)?e\+?\d{1,2}$/i; // as numpy.savetxt writes whole numbers, too

  function wholeNumber(text, name, low, high) {
    const cell = text.trim();
    const value = /^\d{1,9}(\.0{0,2})?$/.test(cell) || POWERS.test(cell) ? Number(cell) : NaN;
    if (!(Number.isInteger(value) && value >= low && value <= high)) {
      throw new Error(`${name} must be a whole number from ${written(low)} to ${written(high)}, not ${short(text)}.`);
    }
    return value;
  }

  const THOUSANDS = /^\d{1,3}(,\d{3})+(\.0{0,2})?$/;
  const SPACED = /(?<!\d)([1-9]\d{0,2}(?: \d{3})* 0\d\d)(?!\d)/; // no list of numbers has 024 in it
  const CALLS = /\b(array|tensor|np\.u?int\d+)\s*\(/g; // as Python prints lengths
  const lengthOf = (cell) =>
    wholeNumber(THOUSANDS.test(cell.trim()) ? cell.replaceAll(",", "") : cell, "A length", 1, LONGEST);
  const countOf = (cell) =>
    wholeNumber(THOUSANDS.test(cell.trim()) ? cell.replaceAll(",", "") : cell, "A count", 0, 999_999_999);

  // How many sequences there are of each length.
  class Tally {
    counts = new Map();
    sequences = 0;
    known = new Map(); // lengths by how they are written, since most come again and again

    add(length, count) {
      this.sequences += count;
      if (count) this.counts.set(length, (this.counts.get(length) ?? 0) + count);
    }

    list(cell) {
      let length = this.known.get(cell);
      if (length === undefined) this.known.set(cell, (length = lengthOf(cell)));
      this.add(length, 1);
      if (this.sequences > MOST) throw new Error(`At most ${written(MOST)} lengths can be listed; give a table of length,count.`);
    }
  }

  // The lengths of a text.
  // commas: "thousands" or "list", what a comma between digits means where both are possible.
  // Gives back `counts`, pairs of a length and how many there are, from long to short; `sequences`; and `told`, what was
  // taken for what, in sentences.
  function read(text, commas = "") {
    let clean = text.replace(/^\uFEFF/, "").trim();
    if (/[\0-\x08]/.test(clean.slice(0, 1000))) {
      throw new Error("This is no text: save the lengths as text, CSV or JSON lines.");
    }
    if (/[\u00a0\u202f]/.test(clean)) clean = clean.replace(/(\d)[\u00a0\u202f](?=\d{3}(?!\d))/g, "$1"); // between thousands
    const tally = new Tally();
    const told = [];
    if (!clean) throw new Error("Paste at least one length, such as 120 34 512.");
    if (clean.startsWith("{") || /^\[\s*[[{]/.test(clean)) readJson(clean, tally, told);
    else readLines(clean, commas, tally, told);
    if (!tally.sequences) throw new Error("Paste at least one length, such as 120 34 512.");
    return { counts: [...tally.counts].sort(([a], [b]) => b - a), sequences: tally.sequences, told };
  }

  function readLines(clean, commas, tally, told) {
    const lines = clean.split(/\r\n|\n|\r/).filter((line) => line.trim() && !/^\s*#(?!\s*[,;\t])/.test(line)); // comments
    if (/^sep=.$/i.test(lines[0])) lines.shift();
    if (!lines.length) return;
    if (/(^|\s)(\.\.\.|…)(\s|,|$)/m.test(clean.length < 100_000 ? clean : "")) {
      throw new Error("What pandas and numpy print leaves lines out (...): paste all lengths, as print(*lengths) shows them, or a file.");
    }
    const isCount = /^Name: count\b/.test(lines.at(-1));
    while (lines.length && /^(Name: .*|dtype: \w+|\[\d+ rows x \d+ columns\])$/.test(lines.at(-1).trim())) lines.pop();
    if (!lines.length) return;
    if (lines.length > 1 && isHeading(lines[0])) readTable(lines, isCount, tally, told);
    else if (!readPairs(lines, commas, tally, told)) readList(lines, commas, tally);
  }

  // Whether a line has a name in it: a word with letters that does not begin as a number does.
  function isHeading(line) {
    const words = line.replace(CALLS, " ").replace(/\bdtype=\S+/g, " ").split(/[\s,;"]+/);
    return words.some((word) => /[\p{L}_]/u.test(word) && !/^([-+]?\d|(nan|inf|null|none)$)/i.test(word));
  }

  // A table whose first line names its columns.
  function readTable(lines, isCount, tally, told) {
    const heading = lines[0];
    const between = ["\t", ";", ","].find((mark) => heading.includes(mark)) ?? null;
    const isColumn = !between && lines.slice(1, 51).every((line) => !/\s/.test(line.trim())); // and its name may have spaces
    const cells = between ? (line) => splitCells(line, between) : (line) => splitCells(line.trim(), isColumn ? "\n" : /\s+/);
    const names = cells(heading).map((name) => name.trim().toLowerCase());
    const first = lines.length > 1 ? cells(lines[1]) : [];
    if (!between && first.length === names.length + 1) {
      if (!isCount && first[0] !== "0") { // pandas numbers its lines from 0; what it counts has no names here
        throw new Error("The lines have one number more than the first line has names. Name them all, such as length,count or id,length.");
      }
      names.unshift(isCount ? "length" : "");
    }
    if (!between && isCount) names.splice(0, 2, "length", "count");
    const [at, countAt] = chosen(names, told);
    for (let i = 1; i < lines.length; i++) {
      const row = cells(lines[i]);
      if (row.length !== names.length && row.slice(names.length).some((cell) => cell.trim())) {
        throw new Error(`Line ${written(i + 1)} has ${row.length} cells where the first line names ${names.length}: ${short(lines[i])}.`);
      }
      if (countAt < 0) tally.list(row[at] ?? "");
      else tally.add(lengthOf(row[at] ?? ""), countOf(row[countAt] ?? ""));
    }
  }

  // Which column has the lengths, and which has how many there are of each, or -1.
  function chosen(names, told) {
    const isLength = named(LENGTH_NAMES);
    const isCount = named(COUNT_NAMES);
    const lengths = names.flatMap((name, at) => (isLength(name) ? [at] : []));
    const counts = names.flatMap((name, at) => (isCount(name) ? [at] : []));
    if (lengths.length === 1 && counts.length === 1) {
      told.push(`The column ${names[counts[0]]} says how many sequences have a length.`);
      return [lengths[0], counts[0]];
    }
    if (names.length === 1) return [0, -1];
    const others = names.flatMap((name, at) => (NUMBERED.includes(name) ? [] : [at]));
    const only = lengths.length === 1 ? lengths : others;
    if (only.length !== 1) {
      throw new Error(`The columns are ${names.map((name) => short(name)).join(", ")}: call the one with the lengths "length", or paste it alone.`);
    }
    told.push(`The lengths are those of the column ${names[only[0]] || "without a name"}.`);
    return [only[0], -1];
  }

  function splitCells(line, between) {
    if (!line.includes('"')) return line.split(between);
    const cells = [];
    let cell = "";
    let quoted = false;
    for (let i = 0; i < line.length; i++) {
      if (line[i] === '"' && quoted && line[i + 1] === '"') cell += line[++i];
      else if (line[i] === '"') quoted = !quoted;
      else if (!quoted && (line[i] === between || (between instanceof RegExp && /\s/.test(line[i])))) {
        cells.push(cell);
        cell = "";
      } else cell += line[i];
    }
    return [...cells, cell];
  }

  // Lines of two numbers without a name, of which the first only numbers the lines. False for other lines.
  function readPairs(lines, commas, tally, told) {
    const pair = /^\s*(\d+)(?:\s*[,;\t]\s*|\s+)(\d+(?:\.0{0,2})?)\s*$/;
    const looked = lines.slice(0, 50).map((line) => pair.exec(line));
    if (lines.length < 2 || !looked.every(Boolean)) return false;
    const from = Number(looked[0][1]);
    const numbers = looked.every((found, i) => Number(found[1]) === from + i) && from <= (lines.length > 2 ? 1 : 0);
    if (!numbers && lines.some((line) => THOUSANDS.test(line.trim()) || SPACED.test(line))) return false; // readList asks
    if (!numbers) {
      throw new Error("Each line has two numbers. Name them in a first line: length,count if the second says how many there are, or id,length.");
    }
    lines.forEach((line, i) => {
      const found = pair.exec(line);
      if (!found || Number(found[1]) !== from + i) throw new Error(`Line ${written(i + 1)} must be ${from + i} and a length, not ${short(line)}.`);
      tally.list(found[2]);
    });
    told.push("The first number of each line counts the lines, the second is the length.");
    return true;
  }

  // Numbers with anything between them.
  function readList(lines, commas, tally) {
    const bare = (line) => line.replace(CALLS, " ").replace(/[[\]()]/g, " ").replace(/,\s*dtype=\S+/g, " ").replace(/,\s*$/, " ");
    const words = (line) => bare(line).split(/[\s;]+/).filter(Boolean);
    const joined = lines.slice(0, 1000).flatMap(words).filter((word) => word.replace(/^,|,$/g, "").includes(","));
    const quoted = joined.length > 0 && joined.every((word) => /^"[^"]*"$/.test(word)); // as a spreadsheet writes a cell
    const unclear = joined.length > 0 && joined.every((word) => THOUSANDS.test(word.replace(/^,|,$/g, "")));
    if (unclear && !commas) {
      const seen = joined[0].replace(/^,|,$/g, "");
      throw new Unclear(`Is ${seen} one length, or are they ${seen.split(",").length}?`, [
        { words: `One length, ${seen}`, commas: "thousands" },
        { words: `${seen.split(",").length} lengths, ${seen.split(",").map(Number).join(" and ")}`, commas: "list" },
      ]);
    }
    const between = unclear && commas === "thousands" ? /[\s;]+/ : /[\s,;]+/;
    for (const line of lines) {
      if (/^\d+$/.test(line)) {
        tally.list(line);
        continue;
      }
      const spaced = SPACED.exec(line);
      if (spaced) throw new Error(`${spaced[1]} looks like one length: write it without a space, ${spaced[1].replaceAll(" ", "")}.`);
      const found = quoted ? words(line).map((word) => word.replaceAll('"', "")) : bare(line).split(between);
      for (const word of found) {
        const cell = unclear ? word.replace(/^,|,$/g, "") : word.replace(/^"(.*)"$/, "$1");
        if (cell) tally.list(cell);
      }
    }
  }

  // JSON lines, or one array, of numbers, of lists of tokens, or of records that have either.
  function readJson(clean, tally, told) {
    let key = null;
    const isCount = (name) => named(LENGTH_NAMES)(name.toLowerCase()) && name.toLowerCase() !== "tokens";
    const add = (value, at) => {
      if (typeof value === "number") return tally.list(String(value));
      if (Array.isArray(value)) return tally.list(String(value.length));
      if (value === null || typeof value !== "object") {
        throw new Error(`Record ${written(at + 1)} has ${short(JSON.stringify(value) ?? "nothing")}, where lengths are numbers or lists of tokens.`);
      }
      if (key === null) key = chosenKey(value, told);
      if (!Object.hasOwn(value, key)) throw new Error(`Record ${written(at + 1)} has no ${key}.`);
      const inside = value[key];
      if (Array.isArray(inside) && isCount(key)) {
        throw new Error(`${key} of record ${written(at + 1)} is a list, of which only its size would count: paste the list alone.`);
      }
      if (inside !== null && typeof inside === "object" && !Array.isArray(inside)) throw new Error(`${key} of record ${written(at + 1)} must be a number or a list of tokens.`);
      return add(inside, at);
    };
    const parse = (text, at) => {
      try {
        return JSON.parse(text);
      } catch {
        throw new Error(`${at === undefined ? "The text" : `Line ${written(at + 1)}`} is no JSON: ${short(text)}.`);
      }
    };
    if (clean.startsWith("[")) return parse(clean).forEach(add);
    return clean.split(/\r?\n/).filter((line) => line.trim()).forEach((line, i) => add(parse(line, i), i));
  }

  function chosenKey(record, told) {
    const holds = (value) => typeof value === "number" || Array.isArray(value);
    const keys = Object.keys(record).filter((key) => holds(record[key]));
    const [isLength, tokens] = [named(LENGTH_NAMES), keys.find((key) => key === "input_ids")];
    const found = keys.filter((key) => isLength(key.toLowerCase()));
    const key = tokens ?? (found.length === 1 ? found[0] : keys.length === 1 ? keys[0] : undefined);
    if (key === undefined) {
      const has = Object.keys(record).map((name) => short(name)).join(", ") || "nothing";
      throw new Error(`A record has ${has}: call the number or the list of tokens that counts "length".`);
    }
    told.push(`The lengths are those of ${short(key)}.`);
    return key;
  }

  return { read, wholeNumber, Unclear, LONGEST };
})();
