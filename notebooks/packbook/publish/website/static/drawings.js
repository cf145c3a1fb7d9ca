// Explorers that are drawn in the browser, as their `draw` in notebooks/packbook/*/lesson.py does: the same
// texts, axes and alt text. A classic script, so that pages opened as files can run it.

const Drawings = (() => {
  // Numbers as Python writes them

  // `f"{x:.{digits}f}"`: a tie goes to the even digit.
  function fixed(x, digits) {
    const away = x.toFixed(digits); // a tie goes away from zero
    const [whole, rest] = x.toFixed(60).split(".");
    const tie = /^50*$/.test(rest.slice(digits)) && Number(away.at(-1)) % 2;
    return tie ? [whole, rest.slice(0, digits)].filter(Boolean).join(".") : away;
  }

  const written = (number, digits = 0) => fixed(number, digits).replace(/\B(?=(\d{3})+(?!\d))(?<!\..*)/g, ",");

  // `percent` of packbook.figures.
  function percent(share, digits = 1) {
    const scaled = 100 * share * 10 ** digits;
    const even = Math.abs(scaled % 1) === 0.5 ? 2 * Math.round(scaled / 2) : Math.round(scaled);
    return `${(even / 10 ** digits).toFixed(digits)} %`;
  }

  const short = (number) => String(Number(number.toPrecision(6))); // `f"{x:g}"`
  const capital = (text) => text[0].toUpperCase() + text.slice(1).toLowerCase();
  const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);
  const counts = (n) => Array.from({ length: n }, (_, i) => i);

  // Pictures

  const SVG = "http://www.w3.org/2000/svg";
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };

  const NARROW = 560; // pixels; below, panels stand one under the other
  const LETTER = { title: 9.8, claim: 8.8 }; // pixels that a letter of this class takes, about; 7.8 in others

  function wrapped(text, width, name) {
    const letter = LETTER[name] ?? 7.8;
    return text.split("\n").flatMap((line) => {
      const lines = [""];
      for (const word of line.split(/ (?!%)/)) {
        const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
        if (lines.at(-1) && longer.length * letter > width) lines.push(word);
        else lines[lines.length - 1] = longer;
      }
      return lines;
    });
  }

  // A text of one or more lines; `y` is the baseline of the first.
  function words(x, y, text, attributes = {}, width = Infinity) {
    const lines = wrapped(text, width, attributes.class);
    const node = make("text", { x, y, ...attributes });
    lines.forEach((line, i) => node.append(make("tspan", { x, dy: i ? 18 : 0 }, i < lines.length - 1 ? `${line} ` : line)));
    node.lines = lines.length;
    return node;
  }

  // Round numbers from `low` to `high`, about `number` of them, and whole ones.
  function ticks([low, high], number = 4) {
    const [from, to] = [Math.min(low, high), Math.max(low, high)];
    const rough = Math.max(1, (to - from) / number);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const made = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) made.push(at);
    return made;
  }

  // Panels in a row, or one under the other where the page is narrow. Each has `x` and `y`, its axes from left to right
  // and from bottom to top, and may have: title, xlabel, ylabel, xticks and yticks (values or pairs of a value and its
  // text), left and right (room for texts, in pixels), weight (of its width), logx and logy, rows (no axis on the
  // left), keys (pairs of a text and the look of its bars, below the axis). `draw` gets what draws into it.
  function picture(width, title, panels) {
    const narrow = width < NARROW;
    const svg = make("svg", { role: "img" });
    let top = 8;
    if (title) {
      const heading = words(0, top + 14, title, { class: "title" }, width);
      svg.append(heading);
      top += 18 * heading.lines + 8;
    }
    const height = narrow ? 300 : 450 - top;
    const weights = sum(panels.map(({ weight = 1 }) => weight));
    let left = 0;
    for (const panel of panels) {
      const wide = narrow ? width : (width * (panel.weight ?? 1)) / weights;
      svg.append(drawn(panel, left, top, wide, height));
      if (narrow) top += height;
      else left += wide;
    }
    svg.setAttribute("viewBox", `0 0 ${width} ${narrow ? top : 450}`);
    return svg;
  }

  function drawn(panel, left, top, width, height) {
    const { x, y, title, xlabel = "", ylabel = "", keys = [] } = panel;
    const xs = panel.xticks ?? ticks(x);
    const ys = panel.yticks ?? (panel.rows ? [] : ticks(y));
    const group = make("g", { class: "panel", "data-limits": [...x, ...y].join(" ") });
    const [from, to] = [left + (panel.left ?? (panel.rows ? 6 : 48)), left + width - (panel.right ?? 18)];
    const heading = title ? words(from, top + 14, title, { class: "claim" }, to - from) : { lines: 0 };
    const upper = top + 18 * heading.lines + 10;
    const below = xlabel ? wrapped(xlabel, to - from).length : 0;
    const lower = top + height - 26 - 18 * below - (keys.length ? 24 : 0);
    const scale = (value, [low, high], begin, end, log) => {
      const of = log ? Math.log : (number) => number;
      return begin + ((of(value) - of(low)) / (of(high) - of(low))) * (end - begin);
    };
    const right = (value) => scale(value, x, from, to, panel.logx);
    const up = (value) => scale(value, y, lower, upper, panel.logy);
    if (title) group.append(heading);
    group.append(make("path", { class: "axis", d: `M${from} ${lower}H${to}` }));
    if (!panel.rows) group.append(make("path", { class: "axis", d: `M${from} ${lower}V${upper}` }));
    const named = (tick) => (Array.isArray(tick) ? tick : [tick, written(tick)]);
    for (const [value, text] of xs.map(named)) {
      group.append(make("path", { class: "axis", d: `M${right(value)} ${lower}v4` }),
        words(right(value), lower + 18, text, { class: "tick", "text-anchor": "middle" }));
    }
    for (const [value, text] of ys.map(named)) {
      if (!panel.rows) group.append(make("path", { class: "axis", d: `M${from} ${up(value)}h-4` }));
      group.append(words(from - 8, up(value) + 4, text, { class: "tick", "text-anchor": "end" }));
    }
    if (xlabel) group.append(words((from + to) / 2, lower + 38, xlabel, { "text-anchor": "middle" }, to - from));
    if (ylabel) {
      const [cx, cy] = [left + 12, (upper + lower) / 2];
      group.append(words(cx, cy, ylabel, { "text-anchor": "middle", transform: `rotate(-90 ${cx} ${cy})` }));
    }
    let at = from; // one key after the other
    for (const [text, name] of keys) {
      group.append(make("rect", { x: at, y: lower + 52, width: 18, height: 12, class: name }),
        words(at + 24, lower + 63, text));
      at += 48 + 7.8 * text.length;
    }
    panel.draw({
      right, up,
      // A bar from x to x of a row; `high` is the share of the row that it takes.
      bar(begin, end, row, name, high = 0.8) {
        const [one, other] = [up(row - high / 2), up(row + high / 2)];
        const [a, b] = [right(begin), right(end)].sort((p, q) => p - q);
        group.append(make("rect", { x: a, y: Math.min(one, other), width: b - a, height: Math.abs(other - one), class: name }));
      },
      text: (at, row, text, attributes = {}) => {
        const { dx = 0, dy = 4, ...others } = attributes;
        group.append(words(right(at) + dx, up(row) + dy, text, { "text-anchor": "middle", ...others }));
      },
      line: (points, name) => group.append(make("path", { class: name, d: `M${points.map(([a, b]) => `${right(a)} ${up(b)}`).join("L")}` })),
      dot: (at, row, name) => group.append(make("circle", { cx: right(at), cy: up(row), r: 5, class: name })),
      legend: (entries) => entries.forEach(([text, name], i) => {
        group.append(make("path", { class: name, d: `M${from + 12} ${upper + 8 + 20 * i}h18` }),
          words(from + 38, upper + 13 + 20 * i, text));
      }),
    });
    return group;
  }

  // Explorers, each named as its class. It gets what `data()` returned, the values of its controls by name and the width
  // in pixels; it returns `svg`, which `picture` makes, and `alt`. Looks, such as "full" and "line cut", are in site.css.

  function StepByStep({ sets, ways, placed }, { lengths, depth, step }, width) {
    const [sequences, slots] = sets[lengths];
    const ends = placed[lengths][depth];
    const rows = Math.max(5, ...ends.map((packs) => Math.max(...packs) + 1));
    const limit = depth ? `at most ${depth} in a pack` : "no depth limit";
    const said = [`${capital(lengths)}, packs of ${slots}, ${limit}, ${step} of ${sequences.length} placed.`];
    const panels = ways.map((way, rule) => {
      const packs = stacked(sequences.slice(0, step), ends[rule]);
      const full = packs.length ? sum(sequences.slice(0, step)) / (slots * packs.length) : 0;
      const inWords = packs.map((pack) => pack.join(" + ")).join(" | ") || "no pack yet";
      said.push(`${way[0].toUpperCase()}${way.slice(1)}: ${inWords}; ${percent(full)} full.`);
      return {
        x: [0, slots], y: [rows - 0.4, -0.6], rows: true, xlabel: "slots",
        title: `${way}\n${packs.length} pack${packs.length === 1 ? "" : "s"}, ${percent(full, 0)} full`,
        draw: ({ bar, text }) => packs.forEach((pack, row) => {
          let from = 0;
          pack.forEach((length, place) => {
            const fresh = row === ends[rule][step - 1] && place === pack.length - 1;
            bar(from, from + length, row, fresh ? "fresh" : "full");
            const room = length > 0.054 * slots * String(length).length;
            if (room) text(from + length / 2, row, String(length), { class: fresh ? "on-fresh" : "on-full" });
            from += length;
          });
          bar(from, slots, row, "empty");
        }),
      };
    });
    const waiting = sequences.slice(step).join(", ") || "none";
    return { svg: picture(width, `Waiting: ${waiting}`, panels), alt: said.join(" ") };
  }

  function stacked(lengths, places) {
    const packs = [];
    lengths.forEach((length, i) => (packs[places[i]] ??= []).push(length));
    return packs;
  }

  StepByStep.limits = ({ sets }, { lengths }) => ({ step: sets[lengths][0].length });
  StepByStep.plays = "step";

  function WindowsExplorer(made, { max_length: slots, ranks, packs_per_rank: each }, width) {
    const { random, found } = made[[slots, ranks, each].join("-")];
    const windows = found.map(({ window }) => window);
    const row = found.find(({ window }) => window === 8) ?? found.at(-1);
    const share = (number) => `${fixed(100 * number, 1)} %`;
    const span = ([low, high]) => `${written(low)} to ${written(high)}`;
    const spans = (name) => found.map((one) => span(one[name])).join("; ");
    const waits = found.map(({ waiting }) => fixed(100 * waiting, 1)).join(", ");
    const axes = { x: [0.8, 40], xticks: windows, xlabel: "window, steps", left: 62 };
    const panels = [
      {
        ...axes, y: [0, 40], yticks: ticks([0, 40]), ylabel: "the average rank waits, %", logx: true,
        draw: ({ line, dot, text }) => {
          const points = found.map(({ window, waiting }) => [window, 100 * waiting]);
          line([[0.8, 100 * random], [40, 100 * random]], "level");
          text(32, 100 * random, "random deal", { "text-anchor": "end", dy: -5 });
          line(points, "line full");
          points.forEach(([at, value]) => dot(at, value, "full"));
        },
      },
      {
        ...axes, y: [300, 100000], yticks: [500, 1000, 2000, 5000, 10000, 20000, 50000], logy: true, logx: true, left: 82,
        ylabel: "mean length of 90 %, tokens",
        draw: ({ line, legend }) => {
          for (const one of found) {
            for (const [name, nudge, color] of [["windows", 0.94, "full"], ["steps", 1.06, "cut"]]) {
              line(one[name].map((value) => [one.window * nudge, value]), `wide ${color}`);
            }
          }
          legend([["windows", "wide full"], ["single steps", "wide cut"]]);
        },
      },
    ];
    const title = `Ranks wait ${share(random)} at random; windows of ${row.window} leave ${share(row.waiting)}`;
    return {
      svg: picture(width, title, panels),
      alt: `${ranks} ranks, ${each} pack${each > 1 ? "s" : ""} each, rows of ${written(slots)}. In a random deal the `
        + `average rank waits ${share(random)} of the time, in windows of ${windows.join(", ")} steps ${waits} %. `
        + `Mean lengths of 90 % of the steps: ${spans("steps")}; of the windows: ${spans("windows")}.`,
    };
  }

  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

  function CutDocuments({ found, lengths, spoken, most }, { documents, rule, slots }, width) {
    const { least, rules } = found[`${documents}-${slots}`];
    const own = lengths[documents];
    const made = rules[rule];
    const top = made?.slots ?? slots; // powers of two take rows of the largest that fits
    const named = ([document, , length]) => `${LETTERS[document % 26]} ${length}`;
    const names = Object.keys(spoken);
    let said = "no document is left";
    if (made) {
      const rows = made.rows.map((row) => row.map(named).join(" + ")).join(" | ");
      said = `${rows}. ${made.cut} of ${own.length} documents are cut, ${made.lost} tokens are lost`;
    }
    const drawnAs = (whole) => made?.rows.flat().some(([document, , length]) => (length === own[document]) === whole);
    const left = {
      keys: [["whole", "full", true], ["a piece; bars mark cuts", "cut", false]].filter(([, , whole]) => drawnAs(whole)),
      ...(made
        ? {
          x: [0, top], y: [Math.max(made.rows.length, 5) - 0.4, -0.6], xlabel: "slots",
          title: `${made.rows.length} row${made.rows.length > 1 ? "s" : ""}, ${made.cut} of ${own.length} documents cut, `
            + `${made.lost} tokens lost`,
        }
        : { x: [0, 1], y: [0, 1], xticks: [], title: "No document is left" }),
      rows: true, weight: 3,
      draw: ({ bar, text }) => made?.rows.forEach((row, at) => {
        let begin = 0;
        for (const piece of row) {
          const [document, first, length] = piece;
          const whole = length === own[document];
          bar(begin, begin + length, at, whole ? "full" : "cut");
          if (length > 0.045 * named(piece).length * top) {
            text(begin + length / 2, at, named(piece), { class: whole ? "on-full" : "on-cut" });
          }
          const edge = 0.012 * top;
          if (first > 0) bar(begin, begin + edge, at, "fresh");
          if (first + length < own[document]) bar(begin + length - edge, begin + length, at, "fresh");
          begin += length;
        }
        bar(begin, top, at, "empty");
      }),
    };
    const right = {
      x: [-most, most], y: [names.length - 0.5, -0.7], rows: true, left: 130, weight: 2, xlabel: "cuts beyond the least",
      yticks: names.map((name, at) => [at, name === rule ? `▸ ${spoken[name]}` : spoken[name]]),
      draw: ({ line, dot, text }) => {
        line([[0, names.length - 0.5], [0, -0.7]], "axis");
        names.forEach((name, at) => {
          if (!rules[name]) return;
          const more = rules[name].cuts - least;
          dot(more, at, name === rule ? "full" : "fresh");
          text(more, at, `${more > 0 ? "+" : ""}${more}`.replace("-", "−"), more < 0 ? { dx: -10, "text-anchor": "end" } : { dx: 10, "text-anchor": "start" });
        });
      },
    };
    const others = names.filter((name) => rules[name]).map((name) => `${spoken[name]} ${rules[name].cuts}`).join(", ");
    return {
      svg: picture(width, "", [left, right]),
      alt: `${capital(documents)}, rows of ${slots}, ${spoken[rule]}: ${said}. `
        + `Cuts by rule: ${others}; the fewest that keep every token: ${least}.`,
    };
  }

  // What each answer weighs in the update under a way to add up a loss.
  function weightsOf(way, tokens, groups, parts, constant) {
    if (way === "token" || way === "constant") return tokens.map((n) => n / (way === "token" ? sum(tokens) : constant));
    if (way === "sequence") return tokens.map(() => 1 / tokens.length);
    const belongs = way === "group" ? groups : parts; // a mean of the means of groups, or of micro-batches
    const of = (one) => sum(tokens.filter((_, i) => belongs[i] === one));
    return tokens.map((n, i) => n / (new Set(belongs).size * of(belongs[i])));
  }

  function WeightsExplorer({ lengths, groups, splits, ways }, { length, first, constant }, width) {
    const parts = splits[first];
    const found = ways.map((way) => weightsOf(way, [length, ...lengths], groups, parts, constant));
    const shares = found.map((weights) => weights.map((weight) => weight / sum(weights)));
    const alone = shares.map(([a]) => 100 * a);
    const said = ways.map((way, row) => `${way}: ${shares[row].map((share) => percent(share, 0)).join(", ")}, in all ${fixed(sum(found[row]), 2)}`);
    const panel = {
      x: [0, 100], y: [ways.length - 0.5, -0.8], rows: true, left: 96, right: 56, xlabel: "weight of an answer in the update, %",
      yticks: ways.map((way, row) => [row, way]),
      draw: ({ bar, text, right }) => {
        shares.forEach((each, row) => {
          let begin = 0;
          each.forEach((part, at) => {
            const share = 100 * part;
            bar(begin, begin + share, row, parts[at] % 2 ? "second" : "first", 0.66);
            const letter = LETTERS[at];
            const room = right(share) - right(0);
            const names = [[5, `${letter} ${fixed(share, 0)}`], [2.5, letter]]; // each with the least share that it stands for
            const name = names.find(([least, one]) => share > least && room > 7.8 * one.length + 8)?.[1];
            if (name) text(begin + share / 2, row, name, { class: parts[at] % 2 ? "on-second" : "on-first" });
            begin += share;
          });
          text(102, row, fixed(sum(found[row]), 2), { "text-anchor": "start" });
        });
        text(102, -0.62, "sum", { "text-anchor": "start" });
      },
    };
    const tokens = `${length} token${length === 1 ? "" : "s"}`;
    const title = `A, of ${tokens}, weighs ${fixed(Math.min(...alone), 0)} to ${fixed(Math.max(...alone), 0)} %`;
    return {
      svg: picture(width, title, [panel]),
      alt: `A has ${tokens}; ${first} in the first micro-batch; a constant of ${constant}. What A to F weigh, ${said.join("; ")}.`,
    };
  }

  function SharedTree(_, { prompt, answers, length, tree }, width) {
    const branch = [...Array(prompt - 1).fill(-1), ...counts(answers).flatMap((answer) => Array(length + 1).fill(answer))];
    const [once, each] = [branch.length, answers * (prompt + length)];
    const right = (query, key) => key <= query && (branch[key] < 0 || branch[key] === branch[query]);
    const pairs = (sees) => sum(counts(once).map((query) => counts(query + 1).filter((key) => sees(query, key)).length));
    const seen = tree ? pairs(right) : (once * (once + 1)) / 2;
    const strangers = tree ? 0 : seen - pairs(right);
    const color = (one) => (one < 0 ? "prompt" : `answer-${one % 4}`);
    const more = fixed(each / once, 2);
    const mask = {
      x: [-0.5, once - 0.5], y: [once - 0.5, -0.5], xticks: [], yticks: [], weight: 5, left: 30, xlabel: "sees", ylabel: "slot",
      title: `${written(seen)} pairs, ${written(strangers)} of them between answers`,
      draw: ({ bar, line }) => {
        bar(-0.5, once - 0.5, (once - 1) / 2, "tight hidden", once);
        for (let query = 0; query < once; query++) {
          for (let key = 0, begin = 0; key <= query; key++) { // neighbors of one branch are one bar
            if (key < query && branch[key + 1] === branch[begin]) continue;
            if (!tree || right(query, begin)) bar(begin - 0.5, key + 0.5, query, `tight ${color(branch[begin])}`, 1);
            begin = key + 1;
          }
        }
        branch.forEach((one, at) => {
          if (at === 0 || branch[at - 1] === one) return;
          line([[at - 0.5, -0.5], [at - 0.5, once - 0.5]], "axis");
          line([[-0.5, at - 0.5], [once - 0.5, at - 0.5]], "axis");
        });
      },
    };
    const most = [50, 100, 200, 380].find((top) => 1.3 * each <= top); // the rest is room for a label
    const savings = {
      x: [0, most], y: [1.6, -0.8], rows: true, weight: 4, xlabel: "tokens", title: `a prompt each: ${more} times as many tokens`,
      draw: ({ bar, text }) => [["prompt once", once, "full"], ["a prompt each", each, "prompt"]].forEach(([name, tokens, look], at) => {
        bar(0, tokens, at, look, 0.6);
        text(tokens + most / 76, at, `${tokens} tokens`, { "text-anchor": "start" });
        text(most / 190, at - 0.42, name, { "text-anchor": "start" });
      }),
    };
    return {
      svg: picture(width, "", [mask, savings]),
      alt: `A prompt of ${prompt} with ${answers} answer${answers > 1 ? "s" : ""} of ${length}, `
        + `${tree ? "with the tree mask" : "with a causal mask alone"}: `
        + `${once} tokens in place of ${each}, which is ${more} times as many; ${strangers} pairs let an answer see another.`,
    };
  }

  function ExperimentExplorer({ by_seeds: bySeeds, step, confidence, own }, { mine, seeds, effect }, width) {
    const { share, means, halves } = bySeeds[seeds];
    const found = percent(share[effect / step], 0);
    const true_ = short(effect / 100);
    if (mine) {
      const again = `${seeds} pairs with a true difference of ${true_} s: ${found} would exclude 0`;
      const panel = {
        x: [-own.most, own.most], y: [0.5, -0.6], rows: true, left: 84, yticks: [[0, "your own"]], xlabel: `difference\n${again}`,
        xticks: [-1, -0.5, 0, 0.5, 1].map((part) => [part * own.most, short(Number((part * own.most).toPrecision(2)))]),
        draw: ({ line, dot }) => {
          line([[0, 0.5], [0, -0.6]], "axis");
          if (own.half !== null) line([[own.mean - own.half, 0], [own.mean + own.half, 0]], "line fresh");
          dot(own.mean, 0, own.half === null ? "hollow" : "fresh");
        },
      };
      return {
        svg: picture(width, capital(own.verdict), [panel]),
        alt: `The interval of your own differences is ${own.text}: ${own.verdict}. Of experiments of ${again}.`,
      };
    }
    const drawn = means.map((mean, i) => [mean + effect / 100, halves[i]]).sort(([a], [b]) => a - b);
    const panel = {
      x: [-1, drawn.length], y: [-4, 7], xticks: [], yticks: ticks([-4, 7], 6), xlabel: "simulated experiments, by their mean", ylabel: "difference, in deviations",
      draw: ({ dot, line }) => {
        line([[-1, 0], [drawn.length, 0]], "axis");
        drawn.forEach(([mean, half], at) => {
          const seen = Math.abs(mean) > half;
          line([[at, Math.max(-4, mean - half)], [at, Math.min(7, mean + half)]], `line ${seen ? "cut" : "gray"}`);
          dot(at, mean, seen ? "cut" : "hollow");
        });
      },
    };
    return {
      svg: picture(width, `${seeds} seeds: the interval excludes 0 in ${found} of experiments`, [panel]),
      alt: `Forty simulated experiments of ${seeds} pairs, true difference ${true_} s, and their intervals of `
        + `${percent(confidence)}. Of 4,000 such experiments ${found} exclude 0.`,
    };
  }

  return { StepByStep, WindowsExplorer, CutDocuments, WeightsExplorer, SharedTree, ExperimentExplorer };
})();
