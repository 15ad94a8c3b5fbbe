"""Distances on the globe, from sites' coordinates. Pure."""

from __future__ import annotations

import math

from topologies.model import Site

EARTH_RADIUS_KM = 6371.0088
"""Mean radius (IUGG); the great circle errs by at most 0.5 % against the ellipsoid."""

FIBRE_KM_PER_S = 299_792.458 / 1.468
"""Speed of light in single-mode fibre of group index 1.468 (ITU-T G.652 at 1550 nm)."""


def great_circle_km(a: Site, b: Site) -> float | None:
    """Kilometres between two sites along the surface (haversine formula); None if one of them has no coordinates."""
    if a.latitude is None or a.longitude is None or b.latitude is None or b.longitude is None:
        return None
    lat_a, lat_b = math.radians(a.latitude), math.radians(b.latitude)
    half_lat, half_lon = (lat_b - lat_a) / 2, math.radians(b.longitude - a.longitude) / 2
    chord = math.sin(half_lat) ** 2 + math.cos(lat_a) * math.cos(lat_b) * math.sin(half_lon) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(chord)))


def fibre_delay_s(length_km: float) -> float:
    """One-way delay of light in a fibre of that length, in seconds: a lower bound, cables take detours."""
    return length_km / FIBRE_KM_PER_S
