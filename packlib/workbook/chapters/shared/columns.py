"""Explorers with many controls: two columns of them, so that controls and picture fit on a screen together."""

import ipywidgets as widgets

from packlib.workbook.explorers import Explorer


def in_two_columns(explorer: Explorer) -> None:
    """Let the controls stand in two columns above the picture."""
    for control in explorer.widgets.values():
        control.layout.width, control.style.description_width = "24em", "9em"
    heading, *rows, picture = explorer.box.children
    columns = widgets.HBox([widgets.VBox(rows[at::2]) for at in range(2)])
    explorer.box.children = [heading, columns, picture]
