// One drawing that changes while one scrolls: the step in the middle of the window says in which state it is.

(() => {
  for (const walk of document.querySelectorAll(".walk")) {
    const states = JSON.parse(walk.querySelector("script").textContent);
    const svg = walk.querySelector("svg"), boxes = [...svg.querySelectorAll("rect")];
    const steps = [...walk.querySelectorAll(".step")];

    const show = (step) => {
      const { alt, rows, texts } = states[step.dataset.state];
      [...rows, ...texts].forEach((box, i) => ["x", "y", "width", "height"].forEach((name, at) => boxes[i].setAttribute(name, box[at])));
      svg.setAttribute("aria-label", alt);
      walk.dataset.state = step.dataset.state;
      for (const other of steps) other.classList.toggle("now", other === step);
    };

    // a line at two thirds of the window's height: on a phone the drawing is above it
    const watch = new IntersectionObserver((seen) => {
      const now = seen.find(({ isIntersecting }) => isIntersecting);
      if (now) show(now.target);
    }, { rootMargin: "-66% 0px -34% 0px" });
    for (const step of steps) watch.observe(step);
    show(steps[0]);
  }
})();
