"""Make of the notebooks what others see: figures, slides, a talk and a web site.

Read first `gallery.py`, which draws the figures that slides and talk show. `website/building.py` makes the site.
"""
