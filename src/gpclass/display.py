"""HTML of fitted estimators in notebooks: a table of what was learned, above scikit-learn's diagram."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

Facts = Sequence[tuple[str, str]]  # names and values as text

# colours are those of the page, so that light and dark themes need no settings
STYLE = """<style>
table.gpclass-learned {border-collapse: collapse; margin: 0 0 0.6em 0; color: inherit; background: none; font-size: 0.95em}
table.gpclass-learned caption {text-align: left; font-weight: 600; padding: 0.2em 0; color: inherit; caption-side: top}
table.gpclass-learned tr {background: none !important}
table.gpclass-learned th, table.gpclass-learned td {text-align: left !important; vertical-align: top; padding: 0.15em 1.2em
  0.15em 0; border: 0; border-bottom: 1px solid rgba(128, 128, 128, 0.3); background: none; color: inherit; max-width: 46em;
  white-space: normal; overflow-wrap: anywhere}
table.gpclass-learned th {font-weight: normal; opacity: 0.7; white-space: nowrap}
</style>"""


class ShowsLearned:
    """Adds a table of what was learned to the HTML of a fitted estimator. It comes before scikit-learn's `BaseEstimator`."""

    def _learned_facts(self) -> Facts:
        """Return what was learned as names and values; empty before the fit."""
        raise NotImplementedError

    def _repr_html_inner(self) -> str:
        return self._learned_html() + super()._repr_html_inner()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._learned_html() + bundle["text/html"]
        return bundle

    def _learned_html(self) -> str:
        facts = self._learned_facts()
        if not facts:
            return ""
        rows = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in facts)
        caption = f"<caption>{escape(type(self).__name__)}: what was learned</caption>"
        return f'{STYLE}<table class="gpclass-learned">{caption}<tbody>{rows}</tbody></table>'
