// On a phone, a table that is wider than the screen becomes a list: the cells of a row stand below one another, each
// after the name of its column. A classic script, so that pages opened as files can run it.

(() => {
  const NARROW = matchMedia("(max-width: 560px)");

  function nameCells(table) {
    const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, at) => {
        cell.dataset.column = names[at];
        cell.classList.toggle("nothing", !cell.textContent.trim() && !cell.querySelector("img, svg"));
      });
    }
  }

  function stackWhereNeeded(box) {
    const table = box.querySelector("table");
    table.classList.remove("stacked");
    if (NARROW.matches && box.scrollWidth > box.clientWidth) table.classList.add("stacked");
  }

  const boxes = [...document.querySelectorAll(".pst-scrollable-table-container, .cell_output .output.text_html:has(table)")]
    .filter((box) => box.querySelector("thead th") && !box.querySelector("[colspan], [rowspan]"));
  const stack = () => boxes.forEach(stackWhereNeeded);
  boxes.forEach((box) => nameCells(box.querySelector("table")));
  stack();
  NARROW.addEventListener("change", stack);
})();
