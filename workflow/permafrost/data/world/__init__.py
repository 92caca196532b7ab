"""A small procedural world, seen by a Sentinel-2-like camera: data without a download.

``spectra``: reflectance of materials; ``fields``: noise and parcels; ``covers``: how each land cover
mixes materials; ``scene``: where the covers lie and how a scene is lit; ``cuts``: chips of scenes.
"""
