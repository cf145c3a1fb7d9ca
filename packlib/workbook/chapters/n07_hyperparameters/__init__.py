from packlib.workbook.chapters.n07_hyperparameters.lesson import RecipeExplorer, check

__all__ = ["RecipeExplorer", "check"]
