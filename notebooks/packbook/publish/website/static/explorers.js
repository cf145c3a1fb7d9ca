// The controls of explorers, and what they move: a drawing of drawings.js, or one of the pictures that were made for them.

(() => {
  const make = (tag, attributes = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), attributes);
    node.append(...children);
    return node;
  };

  // A control that calls `moved` with the place of its new value.
  function slider(control, moved) {
    const value = make("output");
    const input = make("input", { type: "range", min: 0, max: control.values.length - 1, step: 1, value: control.at });
    const tell = () => {
      value.textContent = control.values[control.at][0];
      input.setAttribute("aria-valuetext", value.textContent);
    };
    input.addEventListener("input", () => {
      moved(Number(input.value));
      tell();
    });
    tell();
    const limit = (most) => { // it goes from 0 to so many
      control.values = Array.from({ length: most + 1 }, (_, n) => [String(n), n]);
      control.at = Math.min(control.at, most);
      Object.assign(input, { max: most, value: control.at });
      tell();
    };
    return { node: make("label", {}, make("span", { textContent: control.label }), input, value), input, limit };
  }

  function checkBox(control, moved) {
    const input = make("input", { type: "checkbox", checked: control.at === 1 });
    input.addEventListener("input", () => moved(Number(input.checked)));
    return { node: make("label", {}, make("span", { textContent: control.label }), input) };
  }

  let groups = 0;

  function buttons(control, moved) {
    const name = `explorer-${++groups}`;
    const options = control.values.map(([text], at) => {
      const input = make("input", { type: "radio", name, checked: at === control.at });
      input.addEventListener("input", () => moved(at));
      return make("label", {}, input, ` ${text}`);
    });
    return { node: make("fieldset", {}, make("legend", { textContent: control.label }), ...options) };
  }

  // A button that moves a slider a step at a time, from the start if it stands at its end.
  function player(input) {
    const button = make("button", { type: "button", textContent: "Play the steps" });
    let timer = 0;
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      button.textContent = "Play the steps";
    };
    const to = (at) => {
      input.value = at;
      input.dispatchEvent(new Event("input"));
    };
    button.onclick = () => {
      if (timer) return stop();
      if (input.value === input.max) to(0);
      button.textContent = "Stop";
      timer = setInterval(() => (input.value === input.max ? stop() : to(Number(input.value) + 1)), 1500);
    };
    return button;
  }

  function mount(figure) {
    const { draw, controls, data } = JSON.parse(figure.querySelector("script").textContent);
    const drawing = Drawings[draw];
    const [place, said] = [figure.querySelector(".picture"), make("p", { className: "visually-hidden" })];
    said.setAttribute("role", "status");
    const values = () => Object.fromEntries(controls.map(({ name, values, at }) => [name, values[at][1]]));

    const show = () => {
      if (!drawing) {
        const picture = data[controls.map(({ at }) => at).join("-")];
        place.querySelector("a").href = picture.src;
        return Object.assign(place.querySelector("img"), picture).alt;
      }
      const { svg, alt } = drawing(data, values(), Math.min(800, place.clientWidth || 800));
      svg.setAttribute("aria-label", alt);
      place.replaceChildren(svg);
      return alt;
    };

    // How far a slider goes may depend on the other controls.
    const limit = () => {
      for (const [name, most] of Object.entries(drawing?.limits?.(data, values()) ?? {})) made[name].limit(most);
    };
    const made = {};
    for (const control of controls) {
      const kind = { range: slider, radio: buttons, checkbox: checkBox }[control.kind];
      made[control.name] = kind(control, (at) => {
        control.at = at;
        limit();
        said.textContent = show();
      });
    }
    const nodes = Object.values(made).map(({ node }) => node);
    if (drawing?.plays) nodes.push(player(made[drawing.plays].input));
    figure.querySelector(".controls").replaceChildren(...nodes);
    figure.append(said);
    limit();
    if (drawing) {
      show();
      new ResizeObserver(show).observe(place);
    }
  }

  for (const figure of document.querySelectorAll("figure.explorer")) mount(figure);
})();
