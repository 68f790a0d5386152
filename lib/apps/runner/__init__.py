"""Notebooks executed by papermill for models and collections, and the pages that show them."""

import sys

# jsonschema, which nbformat imports, would take seconds to compile 38 grammars for international
# addresses. Notebooks hold none, and where this package is not installed, jsonschema does without
# it.
sys.modules.setdefault("rfc3987_syntax", None)
