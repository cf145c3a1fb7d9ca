"""The workbook: figures, explorers, exercises, parameters and the command line."""
