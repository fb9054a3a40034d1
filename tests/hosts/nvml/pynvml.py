"""The part of NVML that scripts/hosts uses, answered from the JSON in FAKE_NVML; first on PYTHONPATH it is the library.

A card is {"name", "memory_gib"}, where it is busy with "used_gib" and "pids". With "sick" its memory cannot be read.
FAKE_DRIVER holds the driver's version and CUDA's as NVML gives it, "580.65.06 13000".
"""

import json
import os
from types import SimpleNamespace

nvmlMemory_v2 = 2


class NVMLError(Exception):
    pass


def nvmlInit():
    if "FAKE_NVML" not in os.environ:
        raise NVMLError("NVML Shared Library Not Found")


def nvmlShutdown():
    pass


def nvmlSystemGetDriverVersion():
    return os.environ["FAKE_DRIVER"].split()[0]


def nvmlSystemGetCudaDriverVersion_v2():
    return int(os.environ["FAKE_DRIVER"].split()[1])


def nvmlDeviceGetCount():
    return len(json.loads(os.environ["FAKE_NVML"]))


def nvmlDeviceGetHandleByIndex(index):
    return index, json.loads(os.environ["FAKE_NVML"])[index]


def nvmlDeviceGetUUID(handle):
    return f"GPU-0000-{handle[0]}"


def nvmlDeviceGetName(handle):
    return handle[1]["name"]


def nvmlDeviceGetMemoryInfo(handle, version=None):
    if "sick" in handle[1]:
        raise NVMLError(handle[1]["sick"])
    reserved = 0 if version == nvmlMemory_v2 else 3  # what the driver keeps; only version 2 tells it apart
    used = handle[1].get("used_gib", 0) + reserved
    return SimpleNamespace(total=int(handle[1]["memory_gib"] * 2**30), used=int(used * 2**30))


def nvmlDeviceGetComputeRunningProcesses(handle):
    return [SimpleNamespace(pid=pid) for pid in handle[1].get("pids", [])]
