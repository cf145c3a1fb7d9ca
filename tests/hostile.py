"""Texts that others may put into names and cells, and what a page must not make of them."""

from html.parser import HTMLParser

IMAGE = "<img src=x onerror=alert(1)>"
HOSTILE = (
    IMAGE,
    "<svg onload=alert(1)>",
    "</title></script><script>alert(1)</script>",
    "<!-- --><script>alert(1)",
    "[c](javascript:alert(1))",
    "$x$ and $$\\frac{",
    "\\(x\\) `code` *strong* | cell",
    "\"onfocus='alert(1)' autofocus x=\"",
    "{x} {0} %s &lt;b&gt;",
    "two\nlines\n\n# and a heading",
    "a long name " * 420,
)
# A name that a file may have: no slash, at most 255 bytes.
FILE_NAME = f'{IMAGE} [c](javascript:alert(1)) $x$ {{x}} "q"\n\n# b'


class Elements(HTMLParser):
    """The start tags of a page with their attributes, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    @property
    def names(self) -> set[str]:
        return {tag for tag, _ in self.tags}

    def faults(self) -> list[str]:
        """What a name has made of itself: a script, a handler, a picture from elsewhere, a harmful link."""
        return [
            f"<{tag} {attributes}>"
            for tag, attributes in self.tags
            if (tag == "script")
            or any(name.startswith("on") or name == "autofocus" for name in attributes)
            or (tag == "img" and not attributes["src"].startswith("data:"))
            or (attributes.get("href") or "").startswith("javascript:")
        ]
