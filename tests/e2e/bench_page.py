"""Reads a page of `ops/bench --html` as a browser would, for the tests of it."""

import xml.etree.ElementTree


def texts_of(page):
    """Each text of the page, as a reader sees it; fails unless the page is well-formed."""
    root = xml.etree.ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    return root, [text.strip() for text in root.itertext() if text.strip()]


def check_page(test, page, document):
    """Every figure, key and text of the JSON is on the page, and nothing of it lies elsewhere."""
    root, texts = texts_of(page)
    cells = {"".join(cell.itertext()) for cell in root.iter() if cell.tag in ("td", "th", "summary")}

    def walk(value):
        if isinstance(value, dict):
            for key, item in value.items():
                test.assertIn(str(key), cells)
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, str):
            test.assertTrue(value in cells or value.strip() in texts or not value.strip(), value)
        else:
            test.assertIn({None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool)
                          else repr(value), cells)

    walk(document)
    elsewhere = [(element.tag, name, value) for element in root.iter() for name, value in element.attrib.items()
                 if name in ("src", "href", "data", "action") or "url(" in value]
    test.assertEqual(elsewhere, [])
    test.assertNotIn("@import", page)
    test.assertEqual([element.tag for element in root.iter() if element.tag in ("script", "link", "img", "iframe")], [])
    return root
