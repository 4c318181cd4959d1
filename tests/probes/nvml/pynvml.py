"""A stand-in for nvidia-ml-py where there is no GPU: two devices, a MIG-capable one if asked, faults by environment.

FAKE_NVML: comma-separated: ``mismatch`` (nvmlInit fails), ``lost`` (device 1 falls off the bus at the third sample),
``hang`` (the second sample never ends), ``unified`` (no memory figures), ``mig`` (device 0 is split in two),
``mig-hidden`` (the same, and we may not see its parts, nor what the whole holds).
"""

import os
import time

MODES = set(os.environ.get("FAKE_NVML", "").split(","))
NVML_TEMPERATURE_GPU = 0
NVML_CLOCK_SM = 1
NVML_CLOCK_MEM = 2
NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
NVML_VOLATILE_ECC = 0
NVML_PCIE_UTIL_TX_BYTES = 0
NVML_PCIE_UTIL_RX_BYTES = 1
NVML_ERROR_GPU_IS_LOST = 15
NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
NVML_ERROR_UNINITIALIZED = 1
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_RESET_REQUIRED = 16
nvmlMemory_v2 = 0x2000028
rounds = 0


class NVMLError(Exception):
    def __init__(self, value, words):
        super().__init__(words)
        self.value = value


class NVMLLibraryMismatchError(Exception):
    pass


class Record:
    def __init__(self, **values):
        self.__dict__.update(values)


def not_supported(*_):
    raise NVMLError(3, "Not Supported")


def not_permitted(*_):
    raise NVMLError(4, "Insufficient Permissions")


def nvmlInit():
    if "mismatch" in MODES:
        raise NVMLError(18, "Driver/library version mismatch")


def nvmlSystemGetDriverVersion():
    return "580.0"


def nvmlDeviceGetCount():
    return 2


def nvmlDeviceGetHandleByIndex(index):
    global rounds
    rounds += index == 0
    if "hang" in MODES and rounds == 2:
        time.sleep(3600)
    if "lost" in MODES and index == 1 and rounds >= 3:
        raise NVMLError(15, "GPU is lost")
    return index


def nvmlDeviceGetName(handle):
    return "NVIDIA Test GPU"


def nvmlDeviceGetUUID(handle):
    return f"GPU-{handle}"


def nvmlDeviceGetPciInfo(handle):
    return Record(busId=f"00000000:{handle:02X}:00.0")


def nvmlDeviceGetMemoryInfo(handle, version=None):
    if "unified" in MODES:
        not_supported()
    if "mig-hidden" in MODES and handle == 0:
        not_permitted()
    if version:
        return Record(used=(10 + rounds) << 20, total=1000 << 20, reserved=7 << 20)
    return Record(used=(17 + rounds) << 20, total=1000 << 20)


def nvmlDeviceGetUtilizationRates(handle):
    return Record(gpu=5, memory=1)


def nvmlDeviceGetPowerUsage(handle):
    return 85500


def nvmlDeviceGetEnforcedPowerLimit(handle):
    return 600000


def nvmlDeviceGetTemperature(handle, sensor):
    return 38


def nvmlDeviceGetClockInfo(handle, clock):
    return 1980 if clock == NVML_CLOCK_SM else 3201


def nvmlDeviceGetPerformanceState(handle):
    return 0


def nvmlDeviceGetCurrentClocksEventReasons(handle):
    return 4


nvmlDeviceGetTotalEccErrors = not_supported


def nvmlDeviceGetCurrPcieLinkGeneration(handle):
    return 5


nvmlDeviceGetMaxPcieLinkGeneration = nvmlDeviceGetCurrPcieLinkGeneration


def nvmlDeviceGetCurrPcieLinkWidth(handle):
    return 8


def nvmlDeviceGetMaxPcieLinkWidth(handle):
    return 16


def nvmlDeviceGetPcieThroughput(handle, counter):
    return 2000 if counter == NVML_PCIE_UTIL_RX_BYTES else 1000


def nvmlDeviceGetTotalEnergyConsumption(handle):
    return 5_000_000


def nvmlDeviceGetMigMode(handle):
    return (int(bool(MODES & {"mig", "mig-hidden"}) and handle == 0), 0)


def nvmlDeviceGetMaxMigDeviceCount(handle):
    return 2


def nvmlDeviceGetMigDeviceHandleByIndex(handle, number):
    if "mig-hidden" in MODES:
        not_permitted()
    return 10 + number


def nvmlDeviceGetComputeRunningProcesses(handle):
    return [Record(pid=os.getpid(), usedGpuMemory=5 << 20)] if handle == 0 else []


nvmlDeviceGetGraphicsRunningProcesses = not_supported
