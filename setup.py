"""Packaging of Ringroad: four packages and one command, `ringroad`."""

from setuptools import find_packages, setup

setup(
    name="ringroad",
    version="0.1.0",
    description="A wind tunnel for collectives that cross datacenters",
    license="Apache-2.0",
    python_requires=">=3.11,<3.12",
    packages=find_packages(include=["topologies*", "controller*", "workers*", "testbed*"]),
    package_data={
        "topologies": ["builtin/*.yaml"],
        "testbed.kernels": ["xstate.c", "recipe/*"],
        "testbed.live": ["*.yaml"],
        "testbed.live.web": ["coastlines.json", "NOTICE.md", "static/*", "static/vendor/*"],
    },
    # Mininet comes from apt (PyPI's lacks mnexec); Ryu needs an old setuptools to build, and os-ken is the alternative
    # to it: scripts/setup installs all three.
    install_requires=[
        "matplotlib>=3.8",
        "networkx>=3.2",
        "numba>=0.60",
        "numpy>=1.26",
        "ortools>=9.10",
        "prometheus-client>=0.20",
        "pydantic>=2.6",
        "pyroute2>=0.7.12",
        "PyYAML>=6.0",
        "rich>=13.7",
        "scipy>=1.11",
        "starlette>=0.40",
        "torch>=2.6",
        "typer>=0.12",
        "uvicorn>=0.30",
    ],
    entry_points={"console_scripts": ["ringroad=testbed.cli:main"]},
)
