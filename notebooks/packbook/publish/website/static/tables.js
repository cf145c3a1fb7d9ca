// On a phone, a table that is wider than the screen, or that squeezes its words into a narrow column, becomes a list: the
// cells of a row stand below one another, each after the name of its column. A classic script, so that pages opened as files can run it.

(() => {
  const NARROW = matchMedia("(max-width: 560px)");
  const MOST_LINES = 6; // of a cell

  function nameCells(table) {
    const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, at) => {
        cell.dataset.column = names[at];
        cell.classList.toggle("nothing", !cell.textContent.trim() && !cell.querySelector("img, svg"));
      });
    }
  }

  function squeezes(table) {
    return [...table.querySelectorAll("tbody td")].some((cell) =>
      cell.clientHeight > (MOST_LINES + 0.9) * parseFloat(getComputedStyle(cell).lineHeight)
      && cell.clientWidth < table.clientWidth / 2);
  }

  function stackWhereNeeded(box) {
    const table = box.querySelector("table");
    table.classList.remove("stacked");
    if (NARROW.matches && (box.scrollWidth > box.clientWidth || squeezes(table))) table.classList.add("stacked");
  }

  const boxes = [...document.querySelectorAll(".pst-scrollable-table-container, .cell_output .output.text_html:has(table)")]
    .filter((box) => box.querySelector("thead th") && !box.querySelector("[colspan], [rowspan]"));
  const stack = () => boxes.forEach(stackWhereNeeded);
  boxes.forEach((box) => nameCells(box.querySelector("table")));
  stack();
  NARROW.addEventListener("change", stack);
})();
