"""Parse XML from files of others."""

from __future__ import annotations

from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from permafrost.data.files.opening import UnreadableImage

#: most levels of elements in elements
DEEPEST = 32


def parse_xml(data: bytes) -> Element:
    """The root element of a document without document type and entities.

    Raises
    ------
    UnreadableImage : it is not XML, declares a type or entities, or is nested too deeply.
    """
    builder, parser, depth = TreeBuilder(), expat.ParserCreate(), 0

    def refuse(*_) -> None:
        raise UnreadableImage("declares a document type or entities, which is not allowed")

    def start(tag: str, attributes: dict) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise UnreadableImage(f"has elements nested more than {DEEPEST} deep")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    try:
        parser.Parse(data, True)
    # an encoding that Python lacks, or that is not one byte per character
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise UnreadableImage(f"is no XML ({error})" if data.strip() else "is empty") from error
    return builder.close()
