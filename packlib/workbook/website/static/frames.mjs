// The controls of an explorer's frames: a slider for each, and the picture that belongs to their places.

for (const figure of document.querySelectorAll("figure.frames")) {
  const { controls, first, pictures } = JSON.parse(figure.querySelector("script").textContent);
  const image = figure.querySelector("img");
  const places = [...first];
  const said = document.createElement("p");
  said.className = "visually-hidden";
  said.setAttribute("role", "status");

  controls.forEach(({ label, values }, at) => {
    const row = document.createElement("label");
    const name = document.createElement("span");
    const slider = document.createElement("input");
    const value = document.createElement("output");
    name.textContent = label;
    Object.assign(slider, { type: "range", min: 0, max: values.length - 1, step: 1, value: places[at] });
    const tell = () => {
      value.textContent = values[places[at]];
      slider.setAttribute("aria-valuetext", values[places[at]]);
    };
    slider.addEventListener("input", () => {
      places[at] = Number(slider.value);
      tell();
      const picture = pictures[places.join("-")];
      image.src = picture.src;
      image.alt = picture.alt;
      said.textContent = picture.alt;
    });
    tell();
    row.append(name, slider, value);
    figure.querySelector(".controls").append(row);
  });
  figure.append(said);
}
