"""Binary masks in COCO's encodings: run lengths, compressed strings, polygons, packed bits."""
