"""What a WAN is: sites, links, built-in WANs and the file format. Pure; imports nothing else of this project."""

from topologies.errors import InputError, RingroadError
from topologies.model import Edge, EdgeProperties, Link, Site, Wan

__all__ = ["Edge", "EdgeProperties", "InputError", "Link", "RingroadError", "Site", "Wan"]
