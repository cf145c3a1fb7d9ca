// Packing rules for the game and for the front page. A classic script, so that pages opened as files can run it.

const Packing = (() => {
  const fallingly = (lengths) => [...lengths].sort((a, b) => b - a);
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

  // How many sequences there are of each length, from long to short.
  function counted(lengths) {
    const counts = new Map();
    for (const length of lengths) counts.set(length, (counts.get(length) ?? 0) + 1);
    return [...counts].sort(([a], [b]) => b - a);
  }

  // From long to short, each sequence goes into the pack with the least space that is enough. All copies of a length
  // are placed at once: `counts` has pairs of a length and how many there are, and groups of equal packs come back.
  function lpfhpGroups(counts, slots) {
    const open = new Map(); // groups by the space that is left in their packs, newest last
    const spaces = []; // that have an open group, ascending
    const closed = [];
    const at = (space) => {
      let [low, high] = [0, spaces.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (spaces[middle] < space) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    const put = (space, lengths, count) => {
      if (space === 0) closed.push({ lengths, count });
      else if (open.has(space)) open.get(space).push({ lengths, count });
      else {
        spaces.splice(at(space), 0, space);
        open.set(space, [{ lengths, count }]);
      }
    };
    const take = (space) => {
      const group = open.get(space).pop();
      if (!open.get(space).length) {
        open.delete(space);
        spaces.splice(at(space), 1);
      }
      return group;
    };
    for (let [length, left] of counts) {
      const copies = (n) => Array(n).fill(length);
      while (left && at(length) < spaces.length) {
        const space = spaces[at(length)];
        const { lengths, count } = take(space);
        const each = Math.min(Math.floor(space / length), left);
        const filled = Math.min(count, Math.floor(left / each));
        if (filled < count) put(space, lengths, count - filled);
        put(space - each * length, [...lengths, ...copies(each)], filled);
        left -= each * filled;
      }
      const each = Math.floor(slots / length);
      const full = Math.floor(left / each);
      if (full) put(slots - each * length, copies(each), full);
      if (left % each) put(slots - (left % each) * length, copies(left % each), 1);
    }
    return [...closed, ...[...open.values()].flat()];
  }

  const lpfhp = (lengths, slots) =>
    lpfhpGroups(counted(lengths), slots).flatMap(({ lengths, count }) => Array.from({ length: count }, () => [...lengths]));

  // No packing has fewer packs: the bound L2 of Martello and Toth (1990). A sequence that is longer than slots - short
  // costs a pack, since none of `short` tokens fits beside it; one under `short` costs nothing; others pay by the token.
  function bound(counts, slots) {
    const sequences = new Float64Array(slots + 2); // of at least so many tokens
    const tokens = new Float64Array(slots + 2);
    for (const [length, count] of counts) {
      sequences[length] += count;
      tokens[length] += length * count;
    }
    for (let length = slots; length >= 0; length--) {
      sequences[length] += sequences[length + 1];
      tokens[length] += tokens[length + 1];
    }
    let most = sequences[Math.floor(slots / 2) + 1];
    for (let short = 1; short <= Math.floor(slots / 2); short++) {
      const alone = slots - short + 1;
      most = Math.max(most, sequences[alone] + Math.ceil((tokens[short] - tokens[alone]) / slots));
    }
    return most;
  }

  // All copies of a length go where most space is; each copy that finds none opens a pack, which takes no other copy.
  // What comes back is the order in which sequences are placed: pairs of a length and its pack.
  function spfhpSteps(lengths, slots) {
    const filled = [];
    const steps = [];
    const rest = fallingly(lengths);
    while (rest.length) {
      const opened = [];
      for (const length = rest[0]; rest[0] === length; rest.shift()) {
        const able = filled.filter((tokens) => tokens + length <= slots);
        const pack = able.length ? filled.indexOf(Math.min(...able)) : filled.length + opened.push(length) - 1;
        if (able.length) filled[pack] += length;
        steps.push([length, pack]);
      }
      filled.push(...opened);
    }
    return steps;
  }

  function stacked(steps) {
    const packs = [];
    for (const [length, pack] of steps) (packs[pack] ??= []).push(length);
    return packs;
  }

  const spfhp = (lengths, slots) => stacked(spfhpSteps(lengths, slots));

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
  function prices(lengths, slots) {
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
  function fewest(lengths, slots, patience = 300000) {
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

  return { fallingly, sum, counted, lpfhpGroups, lpfhp, bound, spfhpSteps, stacked, spfhp, prices, fewest };
})();
