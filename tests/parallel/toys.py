"""The toy corpus of ``tests/train`` for tests here, and what a training of it has left."""

import importlib.util
from pathlib import Path

import torch

_spec = importlib.util.spec_from_file_location("toy_corpus", Path(__file__).parents[1] / "train" / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
make_toy, write_set = _module.toy, _module.write_set


def assert_same_model(one, other):
    """``final.pt`` of two configurations is the same to the bit."""
    a, b = (torch.load(config.out / "final.pt", weights_only=True)["state"] for config in (one, other))
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name
