from packlib.workbook.chapters.n00_tour.lesson import RowsExplorer, check

__all__ = ["RowsExplorer", "check"]
