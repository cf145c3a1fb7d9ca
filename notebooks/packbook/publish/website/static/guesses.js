// Guesses on the site, judged as notebooks/packbook/guesses.py judges them in a notebook: both are tested with the same
// cases, and what is less than plain is explained there.

const Guesses = (() => {
  const LONGEST = 200; // characters of a guess
  const [SMALLEST, LARGEST] = [1e-9, 1e15];
  const NEAR = 0.05; // of the truth
  const YES_OR_NO = { yes: "yes", y: "yes", true: "yes", no: "no", n: "no", false: "no" };
  const PARTS = { "%": 100, thousandths: 1000 };
  const MULTIPLES = { k: 1e3, thousand: 1e3, m: 1e6, million: 1e6, bn: 1e9, billion: 1e9 };
  const NUMBER = "[+-]?(?:\\d{1,3}(?:[, ]\\d{3})+(?:\\.\\d*)?|\\d+(?:\\.\\d*)?|\\.\\d+)(?:e[+-]?\\d+)?";
  const WRITTEN = new RegExp(`^(?:about|around|roughly|~|≈)? ?(${NUMBER})(?: ?/ ?(${NUMBER}))? ?(\\D*)$`, "i");
  const DECIMAL_COMMA = /^\D*(\d+),(\d{1,9})\D*$/; // 12,5, as half of Europe writes it
  const PACK = /^\d+(?: \+ \d+)+$/;

  class Unreadable extends Error {} // its message is the sentence for the learner

  const strip = (text, letters) => {
    let [from, to] = [0, text.length];
    while (from < to && letters.includes(text[from])) from++;
    while (to > from && letters.includes(text[to - 1])) to--;
    return text.slice(from, to);
  };

  const word = (text) => strip(text.toLowerCase().replace(/[\s_-]+/g, " "), " .!?`'\"");
  const root = (text) => word(text).replace(/^(?:an?|the) /, "").replace(/s$/, "");
  const sameWord = (one, other) => root(one) === root(other);

  // The unit of one: "pack" of "packs", "sequence in a pack" of "sequences in a pack".
  function singular(unit) {
    const [first, ...others] = unit.split(" ");
    const one = ["s", "times"].includes(first) ? first : first.endsWith("ies") ? first.replace(/ies$/, "y") : first.replace(/s$/, "");
    return [one, ...others].join(" ");
  }

  // A number with its unit, as people write it: three digits, or all before the point. A share that is not all never
  // reads as 100 %.
  function said(x, unit) {
    const nearlyAll = unit === "%" && x > 99 && x < 100;
    const written = nearlyAll ? x.toFixed(Math.max(1, -Math.floor(Math.log10(100 - x))))
      : Math.abs(x) >= 100 ? x.toFixed(0) : x.toPrecision(3);
    const rounded = Number(written) + 0; // no minus zero
    const number = rounded.toLocaleString("en-US", { maximumSignificantDigits: 21 });
    return `${number} ${number === "1" ? singular(unit) : unit}`.trim();
  }

  // The number that a text says, and whether a word or a sign stands behind it, such as a unit.
  function readNumber(text) {
    const counted = text.replace(/^an? (?=thousand|million|billion)/i, "1 ");
    const written = WRITTEN.exec(counted.replace(/^(?:minus |[-−]) ?/i, "-"));
    const comma = written ? null : DECIMAL_COMMA.exec(text);
    if (comma) throw new Unreadable(`The comma sets off thousands here. Write a decimal point: ${comma[1]}.${comma[2]}.`);
    if (!written) throw new Unreadable("That is not a number such as 4, 1,144, 0.5 or 3/8; guess again.");
    const [top, bottom] = [written[1], written[2] ?? "1"].map((part) => Number(part.replace(/[, ]/g, "")));
    const [first, ...others] = written[3].toLowerCase().split(" ");
    const multiple = Object.hasOwn(MULTIPLES, first);
    const number = bottom ? (top / bottom) * (multiple ? MULTIPLES[first] : 1) : Infinity;
    const size = Math.abs(number);
    if (size !== 0 && !(size >= SMALLEST && size <= LARGEST)) {
      throw new Unreadable("That number is too large or too small to compare; guess again.");
    }
    return [number, Boolean(multiple ? others.join(" ") : first)];
  }

  function compareNumbers(text, { truth, unit, limits, by_factor: byFactor }) {
    const [number, hasUnit] = readNumber(text);
    const off = number - truth;
    if (Math.abs(off) <= 1e-9 * Math.max(Math.abs(number), Math.abs(truth))) return ["right", "Exactly right."];
    if (said(number, unit) === said(truth, unit) && (!Number.isInteger(truth) || Number.isInteger(number))) {
      return ["right", "Right to the digits that the answer shows."];
    }
    if (unit in PARTS && !hasUnit && Math.abs(number) > 0 && Math.abs(number) < 1) {
      const [whole, part] = [said(PARTS[unit] * number, ""), said(number, "")];
      throw new Unreadable(`Do you mean ${whole} ${unit}? Then write ${whole}; if you mean ${part} ${unit}, write '${part} ${unit}'.`);
    }
    const [low, high] = limits; // null for none
    if (low !== null && number < low) return ["wrong", `Impossible, since it cannot be less than ${said(low, unit)}.`];
    if (high !== null && number > high) return ["wrong", `Impossible, since it cannot be more than ${said(high, unit)}.`];
    const factor = number * truth > 0 ? Math.max(number / truth, truth / number) : 0;
    const amount = said(Math.abs(off), { "%": "points", times: "" }[unit] ?? unit);
    const distance = factor >= (byFactor ? 2 : 10) ? `${said(factor, "times")} too ${off > 0 ? "large" : "small"}.`
      : `${amount} ${off > 0 ? "above" : "below"} the answer.`;
    const near = Math.abs(off) <= NEAR * Math.abs(truth) * (1 + 1e-9);
    if (near || (byFactor && factor > 0 && factor <= 2)) return ["near", `${near ? "Very close" : "Close"}, ${distance}`];
    return ["wrong", distance];
  }

  const lengths = (text) => (text.split("=")[0].match(/\d+(?:\.\d+)?/g) ?? []).map(Number).sort((a, b) => a - b).join();

  function isRight(text, truth) {
    if (["yes", "no"].includes(truth)) {
      if (!Object.hasOwn(YES_OR_NO, word(text))) throw new Unreadable("That is neither yes nor no; guess again.");
      return YES_OR_NO[word(text)] === truth;
    }
    if (!PACK.test(truth)) return sameWord(text, truth);
    if (!lengths(text)) throw new Unreadable("That has no numbers like 3 + 2 + 1; guess again.");
    return lengths(text) === lengths(truth);
  }

  // What is said about a guess; `question` has truth, unit, choices, limits and by_factor. Choices are buttons.
  function judge(guess, question) {
    if (!strip(guess, " .…?\t\n")) return { state: "none", message: "Write a guess first." };
    try {
      const text = guess.trim().split(/\s+/).join(" ");
      if (text.length > LONGEST) throw new Unreadable("That is too long for a guess; guess again.");
      if (typeof question.truth === "number") {
        const [state, message] = compareNumbers(text, question);
        return { state, message };
      }
      const state = isRight(text, question.truth) ? "right" : "wrong";
      return { state, message: `That is ${state}.` };
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      return { state: "unclear", message: error.message };
    }
  }

  // The page

  const make = (tag, attributes = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), attributes);
    node.append(...children);
    return node;
  };

  // What stands between a question and the next question or heading may give the answer away: it waits, blurred. Code
  // stays.
  function blurWhatFollows(place, answer) {
    const blurred = [];
    const asks = place.closest(".cell");
    let node = asks.nextElementSibling;
    for (; node && !node.matches("section") && !node.querySelector(".guess"); node = node.nextElementSibling) {
      blurred.push(...(node.matches(".cell") ? node.querySelectorAll(":scope > .cell_output") : [node]));
    }
    if (!blurred.length) return;
    const shows = (name, find) => make("button", { type: "button", onclick: () => {
      for (const folded of find()) folded.open = true;
    } }, name);
    const note = make("p", { className: "waits" }, "The blurred part may give the answer away. Guess first, or ",
      shows("Show it", () => [answer]), " ", shows("Show all on this page", () => document.querySelectorAll(".guess details")));
    asks.after(note);
    for (const shown of blurred) shown.inert = true;
    answer.addEventListener("toggle", () => {
      note.remove();
      for (const shown of blurred) shown.inert = false;
    }, { once: true });
  }

  function ask(place) {
    const question = JSON.parse(place.querySelector("script").textContent);
    const answer = place.querySelector("details");
    const status = make("p");
    status.setAttribute("role", "status");
    const tell = (guess) => {
      const judged = judge(guess, question);
      const replies = Object.entries(judged.state === "wrong" ? question.choices : {});
      const reply = replies.filter(([choice]) => sameWord(choice, guess)).map(([, says]) => says);
      place.dataset.state = judged.state;
      status.textContent = guess.includes("?") && judged.state === "none" ? "" : [judged.message, ...reply].join(" ");
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
      const unit = make("span", { className: "with-unit" }, typed, ` ${question.unit}`);
      asked = make("form", {}, make("label", {}, `${question.question} `, unit), make("button", {}, "Guess"));
      asked.onsubmit = (event) => {
        event.preventDefault();
        tell(typed.value);
      };
    }
    place.querySelector("p").replaceWith(asked, status);
    blurWhatFollows(place, answer);
  }

  for (const place of document.querySelectorAll("div.guess")) ask(place);
  return { judge };
})();
