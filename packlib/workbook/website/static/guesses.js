// Guesses on the site, judged as packlib/workbook/guesses.py judges them in a notebook: both are tested with the same
// cases. The words that people write, `GUESS_WORDS`, stand in packlib/workbook/guess_words.toml.

const Guesses = (() => {
  const LONGEST = 200; // characters of a guess
  const NEAR = 0.05; // of the truth
  const PARTS = { "%": 100, thousandths: 1000 }; // a guess below 1 in these units may be meant as a share of one
  const DIGITS = "[+-]?(?:[0-9]{1,3}(?:[, ][0-9]{3})+(?:\\.[0-9]*)?|[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:e[+-]?[0-9]+)?";
  const WRITTEN = new RegExp(
    `^(?:about|around|roughly|~|≈)?[ \\t-\\r]*(${DIGITS})(?:[ \\t-\\r]*/[ \\t-\\r]*(${DIGITS}))?[ \\t-\\r]*([^0-9]*)$`, "i",
  );
  const SUM = /^[0-9]+(?: \+ [0-9]+)+$/; // how a notebook writes a pack
  const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
  const SPACES = new RegExp(`[${SPACE}]+`);
  const AROUND = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "g");
  const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u; // what Python does not print

  class Unreadable extends Error {} // its message is the sentence for the learner

  // Text

  const trim = (text) => text.replace(AROUND, "");
  const strip = (text, letters) => {
    let [from, to] = [0, text.length];
    while (from < to && letters.includes(text[from])) from++;
    while (to > from && letters.includes(text[to - 1])) to--;
    return text.slice(from, to);
  };
  const inOneLine = (text) => text.split(SPACES).filter(Boolean).join(" ");
  const cut = (text) => ([...text].length <= 100 ? text : `${[...text].slice(0, 97).join("")}...`);

  // A text in quotes, as Python writes it.
  function quoted(text) {
    const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
    const named = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", [quote]: `\\${quote}` };
    const escaped = [...text].map((letter) => {
      if (named[letter]) return named[letter];
      if (!HIDDEN.test(letter)) return letter;
      const code = letter.codePointAt(0);
      const [mark, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
      return `\\${mark}${code.toString(16).padStart(digits, "0")}`;
    });
    return quote + escaped.join("") + quote;
  }

  function inQuotes(text) {
    const whole = inOneLine(quoted(text));
    const length = [...whole].length;
    return cut(length <= 200 ? whole : `${[...whole].slice(0, 150).join("")} … (${length} characters)`);
  }

  function plain(text) {
    const line = inOneLine(text);
    return cut(HIDDEN.test(line) ? quoted(line).slice(1, -1) : line);
  }

  // A word as it is compared: without case, quotes, end marks, and what joins its parts.
  function word(text) {
    const joined = text.toLowerCase().replace(new RegExp(`[${SPACE}_-]+`, "g"), " ");
    return strip(joined, " .!?`'\"").replace(/\bsqrt\b/g, "square root");
  }

  const root = (text) => word(text).replace(/^(?:an?|the|go) /, "").replace(/s$/, "");
  const sameWord = (one, other) => root(one) === root(other);

  // The part before the first `mark` and the part behind it.
  const parted = (text, mark) => {
    const at = text.indexOf(mark);
    return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + mark.length)];
  };

  // Numbers, as Python writes them

  const grouped = (text) => {
    const [whole, part] = parted(text, ".");
    return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part && `.${part}`);
  };

  // Both of these round a tie to the even digit, as Python does; JavaScript rounds it up.
  function whole(x) {
    const size = Math.abs(x);
    const down = Math.floor(size);
    const up = size - down > 0.5 || (size - down === 0.5 && down % 2 === 1);
    return (x < 0 ? "-" : "") + grouped((down + up).toFixed(0));
  }

  function general(x, digits) {
    const sign = x < 0 || Object.is(x, -0) ? "-" : "";
    if (!Number.isFinite(x)) return `${sign}inf`;
    let [mantissa, exponent] = Math.abs(x).toExponential(digits - 1).split("e");
    const after = Math.abs(x).toExponential(100).split("e")[0].replace(".", "").slice(digits);
    if (/^50*$/.test(after) && /[13579]$/.test(mantissa)) mantissa = mantissa.slice(0, -1) + (mantissa.at(-1) - 1);
    exponent = Number(exponent);
    const bare = (text) => (text.includes(".") ? text.replace(/\.?0*$/, "") : text);
    if (exponent < -4 || exponent >= digits) {
      return `${sign}${bare(mantissa)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
    }
    const all = mantissa.replace(".", "");
    const placed = exponent < 0 ? `0.${"0".repeat(-exponent - 1)}${all}`
      : `${all.slice(0, exponent + 1)}.${all.slice(exponent + 1)}`;
    return sign + grouped(bare(placed));
  }

  // The unit of one: "pack" of "packs", "sequence in a pack" of "sequences in a pack".
  function singular(unit) {
    const [first, ...others] = unit.split(" ");
    const one = ["s", "times"].includes(first) ? first : first.endsWith("ies") ? first.replace(/ies$/, "y") : first.replace(/s$/, "");
    return [one, ...others].join(" ");
  }

  const withUnit = (number, unit) => trim(`${number} ${number === "1" ? singular(unit) : unit}`);

  // A number with its unit, as people write it; a text as it is.
  function said(value, unit) {
    if (typeof value === "string") return withUnit(value, unit);
    const size = Math.abs(value);
    return withUnit(size >= 999.5 && size < 1e15 ? whole(value) : general(value, 3), unit);
  }

  function waysToWrite(unit) {
    const [first] = unit.split(" ");
    const ways = [unit, first, ...(GUESS_WORDS.units[unit] ?? []), singular(unit), singular(first)];
    return ways.map((way) => way.toLowerCase());
  }

  // The number that a text says, and whether the unit stands behind it.
  function readNumber(guess, unit = "") {
    let text = trim(guess).replace(/^(?:minus |[-−]) */, "-");
    const [name, behind] = parted(word(text).replace(/^an? /, ""), " ");
    if (Object.hasOwn(GUESS_WORDS.numbers, name)) text = trim(`${GUESS_WORDS.numbers[name]} ${behind}`);
    const comma = /^([+-]?[0-9]+),([0-9]{1,2}|[0-9]{4,})\b[^0-9]*$/.exec(text);
    if (comma) throw new Unreadable(`Do you mean ${comma[1]}.${comma[2]}? Then write it with a point.`);
    const written = WRITTEN.exec(text);
    if (!written) throw new Unreadable(`${inQuotes(guess)} is not a number; guess again.`);
    let [top, bottom] = [written[1], written[2] ?? "1"].map((part) => Number(part.replace(/[, ]/g, "")));
    let rest = strip(written[3].toLowerCase(), " .!");
    const [first, others] = parted(rest, " ");
    if (Object.hasOwn(GUESS_WORDS.multiples, first)) {
      top *= GUESS_WORDS.multiples[first];
      rest = others;
    }
    const less = /\b(fewer|less|lower)$/.exec(rest);
    if (less) {
      throw new Unreadable(
        `Write ${written[1]} if the question asks how much ${less[1]}, -${written[1]} if it asks for a change.`,
      );
    }
    if (rest && !waysToWrite(unit).includes(rest)) {
      const counted = unit === "" || unit.startsWith("of ") ? "a plain number" : unit === "%" ? "a percentage" : `counted in ${unit}`;
      throw new Unreadable(`${inQuotes(guess)} is not ${counted}; guess again.`);
    }
    const number = bottom ? top / bottom : NaN;
    if (Number.isNaN(number)) throw new Unreadable(`${inQuotes(guess)} is not a number; guess again.`);
    if (!Number.isFinite(number)) throw new Unreadable(`${inQuotes(guess)} is too large to compare; guess again.`);
    return [number, Boolean(rest)];
  }

  // The numbers and words of a text such as "4+3+3", "4, 3, 3" and "[4 3 3]".
  function items(guess) {
    const inside = strip(parted(guess, "=")[0].replace(new RegExp(`,?[${SPACE}]*\\band\\b`, "g"), ","), " ()[]{}");
    return (/[,;+]/.test(inside) ? inside.split(/[,;+]/) : inside.split(/ +(?=[0-9])/)).map((item) => {
      try {
        return readNumber(item)[0];
      } catch (error) {
        if (error instanceof Unreadable) return word(plain(item));
        throw error;
      }
    });
  }

  // Comparing: each returns what was read, a state and a message.

  const rightOrWrong = (read, right) => {
    const state = right ? "right" : "wrong";
    return { state, message: `You guessed ${read}, and that is ${state}.`, guess: read };
  };

  function compareNumbers(guess, { truth, unit, limits, by_factor: byFactor }) {
    if (GUESS_WORDS.unlimited.includes(word(guess))) return rightOrWrong(word(guess), false);
    const [number, hasUnit] = readNumber(guess, unit);
    const off = number - truth;
    if (!Number.isFinite(off)) throw new Unreadable(`${inQuotes(guess)} is too large to compare; guess again.`);
    const answer = said(truth, "");
    const guessed = `You guessed ${withUnit(general(number, 10), unit)}`;
    const judged = (state, message) => ({ state, message: `${guessed}: ${message}`, guess: number });
    if (Math.abs(off) <= 1e-9 * Math.max(Math.abs(number), Math.abs(truth))) return judged("right", "exactly right.");
    if (number === Number(answer.replaceAll(",", "")) || (!Number.isInteger(truth) && said(number, "") === answer)) {
      return judged("right", "right to the digits that the answer shows.");
    }
    if (unit in PARTS && !hasUnit && Math.abs(number) > 0 && Math.abs(number) < 1) {
      const [all, part] = [PARTS[unit] * number, number].map((x) => general(x, 4).replaceAll(",", ""));
      throw new Unreadable(`Do you mean ${all} ${unit}? Then write ${all}; if you mean ${part} ${unit}, write '${part} ${unit}'.`);
    }
    const [low, high] = limits.map((limit, at) => limit ?? [-Infinity, Infinity][at]);
    if (number < low || number > high) {
      const bound = number < low ? `less than ${withUnit(general(low, 6), unit)}` : `more than ${withUnit(general(high, 6), unit)}`;
      return judged("wrong", `impossible, since it cannot be ${bound}.`);
    }
    const amount = said(Math.abs(off), { "%": "points", times: "" }[unit] ?? unit); // "2 times above" would say a factor
    const factor = number * truth > 0 ? Math.max(number / truth, truth / number) : NaN;
    const distance = factor >= (byFactor ? 2 : 10) ? `${said(factor, "times")} too ${off > 0 ? "large" : "small"}.`
      : `${amount} ${off > 0 ? "above" : "below"} the answer.`;
    const near = Math.abs(off) <= NEAR * Math.abs(truth) * (1 + 1e-9);
    if (near || (byFactor && factor <= 2)) return judged("near", `${near ? "very " : ""}close, ${distance}`);
    return judged("wrong", distance);
  }

  function compareWords(guess, { truth, choices }) {
    const names = Object.keys(choices);
    if (names.length && !names.some((one) => sameWord(guess, one))) {
      throw new Unreadable(`${inQuotes(guess)} is not among the choices: ${names.join(", ")}.`);
    }
    return rightOrWrong(plain(guess), sameWord(guess, truth));
  }

  function compareYesOrNo(guess, { truth }) {
    const read = ["yes", "no"].find((answer) => GUESS_WORDS[answer].includes(word(guess)));
    if (!read) throw new Unreadable(`${inQuotes(guess)} is neither yes nor no; guess again.`);
    return rightOrWrong(read, read === truth);
  }

  function comparePacks(guess, { truth }) {
    const read = items(guess);
    if (read.every((item) => typeof item === "string")) {
      throw new Unreadable(`${inQuotes(guess)} has no numbers like 3 + 2 + 1; guess again.`);
    }
    const known = (all) => all.map((item) => JSON.stringify(item)).sort().join();
    return rightOrWrong(plain(guess), known(read) === known(items(truth)));
  }

  // What is said about a guess; `question` has truth, unit, choices, limits (null for none) and by_factor.
  function judge(guess, question) {
    const { truth } = question;
    if (!strip(guess, " .…?\t\n")) return { state: "none", message: "Write a guess first.", guess: null };
    const compare = typeof truth === "number" ? compareNumbers : ["yes", "no"].includes(truth) ? compareYesOrNo
      : SUM.test(truth) ? comparePacks : compareWords;
    try {
      if ([...guess].length > LONGEST) throw new Unreadable(`${inQuotes(guess)} is too long for a guess; guess again.`);
      return compare(guess, question);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      return { state: "unclear", message: error.message, guess: null };
    }
  }

  // The page

  const make = (tag, attributes = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), attributes);
    node.append(...children);
    return node;
  };

  function ask(place) {
    const question = JSON.parse(place.querySelector("script").textContent);
    const answer = place.querySelector("details");
    const status = make("p", { role: "status" });
    status.setAttribute("role", "status");
    const tell = (guess) => {
      const judged = judge(guess, question);
      const replies = Object.entries(judged.state === "wrong" ? question.choices : {});
      const reply = replies.filter(([choice]) => sameWord(choice, String(judged.guess))).map(([, says]) => says);
      place.dataset.state = judged.state;
      status.textContent = guess.includes("?") && judged.state === "none" ? "" : [judged.message, ...reply].join(" ").trim();
      if (["right", "near", "wrong"].includes(judged.state) || guess.includes("?")) answer.open = true;
    };
    const names = ["yes", "no"].includes(question.truth) ? ["yes", "no"] : Object.keys(question.choices);
    let asked;
    if (names.length) {
      const buttons = names.map((name) => make("button", { type: "button", onclick: () => {
        buttons.forEach((button) => button.setAttribute("aria-pressed", button.textContent === name));
        tell(name);
      } }, name));
      asked = make("div", {}, make("span", {}, question.question), ...buttons);
      asked.setAttribute("role", "group");
      asked.setAttribute("aria-label", question.question);
    } else {
      const typed = make("input", { type: "text", size: 12, autocomplete: "off" });
      asked = make("form", {}, make("label", {}, `${question.question} `, typed, `\u00a0${question.unit}`), make("button", {}, "Guess"));
      asked.onsubmit = (event) => {
        event.preventDefault();
        tell(typed.value);
      };
    }
    place.querySelector("p").replaceWith(asked, status);
  }

  for (const place of document.querySelectorAll("div.guess")) ask(place);
  return { judge };
})();
