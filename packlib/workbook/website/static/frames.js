// The controls of an explorer's frames: a slider or a check box for each, and the picture that belongs to their places.

for (const figure of document.querySelectorAll("figure.frames")) {
  const { controls, first, pictures } = JSON.parse(figure.querySelector("script").textContent);
  const image = figure.querySelector("img");
  const places = [...first];
  const said = document.createElement("p");
  said.className = "visually-hidden";
  said.setAttribute("role", "status");

  const control = ({ label, values }, at) => {
    const row = document.createElement("label");
    const name = document.createElement("span");
    const input = document.createElement("input");
    const value = document.createElement("output");
    const yesOrNo = values.length === 2 && values[0] === "no" && values[1] === "yes";
    name.textContent = label;
    if (yesOrNo) Object.assign(input, { type: "checkbox", checked: places[at] === 1 });
    else Object.assign(input, { type: "range", min: 0, max: values.length - 1, step: 1, value: places[at] });
    const tell = () => {
      if (yesOrNo) return;
      value.textContent = values[places[at]];
      input.setAttribute("aria-valuetext", values[places[at]]);
    };
    input.addEventListener("input", () => {
      places[at] = Number(yesOrNo ? input.checked : input.value);
      tell();
      const picture = pictures[places.join("-")];
      image.src = picture.src;
      image.alt = picture.alt;
      said.textContent = picture.alt;
    });
    tell();
    row.append(name, input, value);
    return row;
  };
  figure.querySelector(".controls").replaceChildren(...controls.map(control));
  figure.append(said);
}
