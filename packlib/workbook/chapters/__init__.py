"""What each notebook brings along; one folder a notebook, found by its number.

The notebook `01_padding_waste` belongs to the folder `n01_padding_waste`, a package with

    PARAMETERS   names and kinds of its parameters, but `seed` and `quick`, which every notebook has

Its `lesson`, which loads what the lesson needs, defines

    check        an `Exercises` with solutions
    QUESTIONS    a `Questions`: what is to be guessed; `reveal = QUESTIONS.reveal`

and its `Explorer` classes, each of which can be made without arguments. The words of exercises and questions stand
beside it in `exercises.toml` and `questions.toml`. `figures` draws, `runs` computes and trains.
What several chapters use is in `shared`, in files named for their idea; no chapter imports another.
"""
