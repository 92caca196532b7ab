"""A small procedural world, seen from a satellite or an aircraft: data without a download.

``spectra``: reflectance of materials; ``fields``: noise and parcels; ``covers``: how each land cover
mixes materials; ``scene``: where the covers lie and how a scene is lit; ``cuts``: chips of scenes; ``pairs``: a scene
before and after some of its land changed; ``farmland``: fields of crops on several dates; ``land``: any of the three.

From an aircraft: ``plots``: what lies and stands on each land cover; ``things``, ``shapes``, ``stands``:
what kinds of things there are, how they are built, where they find room; ``canvas``: which of them is
seen; ``aerial``: a view of all that; ``photograph``: light, shadow and camera; ``crowns``: the truth.
"""
