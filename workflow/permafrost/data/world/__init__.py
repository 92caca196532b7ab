"""A small simulated world, seen from a satellite or an aircraft: data without a download.

From a satellite: ``spectra``, reflectance of materials; ``fields``, noise and parcels; ``covers``,
materials of each land cover; ``scene``, layout and illumination of a scene; ``cuts``, chips of
scenes; ``pairs``, a scene before and after a change; ``farmland``, fields of crops on several
dates; ``land``, any of the three.

From an aircraft: ``plots``, ground and objects of each land cover; ``things``, ``shapes``,
``stands``, the kinds of objects, their shapes and positions; ``canvas``, which of them are visible;
``aerial``, the whole view; ``photograph``, light, shadow and camera; ``crowns``, the ground truth.
"""
