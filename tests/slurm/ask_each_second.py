"""Have Snakemake ask for its jobs each second: the plugin of Slurm waits ten seconds longer whenever none has ended."""

import asyncio
import sys

if "snakemake" in sys.orig_argv:
    from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

    RemoteExecutor.sleep = lambda self: asyncio.sleep(1)
