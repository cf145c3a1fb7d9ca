"""The static site of the workbook: `make site`, and what its pages need besides the notebooks."""
