"""The library that lets a CPU build of PyTorch have a CUDA device, built with g++ and loaded before torch."""

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "fake-gpu"


def missing() -> str:
    """Return what keeps the guard from being built here; "" if nothing does."""
    if sys.platform != "linux":
        return "it is for Linux"
    if list((_torch() / "lib").glob("libtorch_cuda*")):
        return "this build of PyTorch has CUDA itself"
    return "" if _compiler() else "no C++ compiler is here (g++ or clang++)"


def load() -> None:
    """Build the guard for this version of PyTorch, if that has not been done, and load it."""
    assert "torch" not in sys.modules, "the guard must be loaded before torch"
    source, torch = HERE / "guard.cpp", _torch()
    identity = str(torch).encode() + (torch / "version.py").read_bytes() + source.read_bytes()
    library = BUILD / f"{hashlib.sha256(identity).hexdigest()[:16]}.so"
    if not library.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        unfinished = library.with_suffix(f".{os.getpid()}")
        folders = [f"-I{torch}/include", f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib"]
        flags = ["-std=c++20", "-O0", "-shared", "-fPIC", *folders, "-lc10", "-ltorch_cpu"]
        subprocess.run([_compiler() or "", str(source), *flags, "-o", str(unfinished)], check=True)
        unfinished.replace(library)
    assert ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL).fake_cuda() == 1


def _torch() -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _compiler() -> str | None:
    return shutil.which("g++") or shutil.which("clang++")
