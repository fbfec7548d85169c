"""A small table with numbers, text, booleans and labels."""

import pandas as pd

FRAME = pd.DataFrame(
    {
        "age": [31, 42, 58, 24, 47, 39],
        "dose": [0.5, 1.25, 0.75, 2.0, 1.5, 1.0],
        "colour": ["red", "blue", "red", "green", "blue", "red"],
        "smoker": [True, False, False, True, True, False],
        "class": ["ill", "well", "ill", "well", "ill", "well"],
    }
)
