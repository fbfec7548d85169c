"""The explorer: a page in which a person moves hyperparameters and sees the model change.

model    a table, a setting, and the model of a setting
session  from a setting to its model: kernels, warm starts, searches; nothing of the web
section  the plane of a decision map, for any number of inputs
panels   models, rows and evidence surfaces as data for the page
code     the Python code that makes the same model
messages settings as a page sends them, checked
desk     one open page: previews while a person drags, exact results at rest, the newest setting only
server   the web server on 127.0.0.1, its token and its checks

`gpclass explore FILE --target NAME` runs it.
"""

from .model import Setting, Table
from .session import Session

__all__ = ["Session", "Setting", "Table"]
