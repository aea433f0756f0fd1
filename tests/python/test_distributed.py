"""Data-parallel training in two processes: translated and eager end with the same parameters."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "distributed_training.py")


@pytest.mark.parametrize("wrapper", ["DataParallel", "fleet"])
def test_training_in_two_processes(wrapper, tmp_path):
    launch = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--log_dir", str(tmp_path)]
    command = [*launch, PROGRAM, wrapper, str(tmp_path / "result")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout.decode()
    results = [json.loads((tmp_path / f"result.{rank}.json").read_text()) for rank in range(2)]
    for result in results:
        # The model is one graph and the loss another: the collective call between them is the only break.
        assert result["counts"]["graphs"] >= 2 and result["counts"]["hits"] > 0 and result["counts"]["fallbacks"] == 0
        np.testing.assert_allclose(result["translated"]["losses"], result["eager"]["losses"], rtol=1e-5)
        for ours, eager in zip(result["translated"]["parameters"], result["eager"]["parameters"]):
            np.testing.assert_allclose(ours, eager, rtol=1e-5, atol=1e-6)
    first, second = results
    assert first["translated"]["losses"] != second["translated"]["losses"]  # each had its own part of the data
    assert first["translated"]["parameters"] == second["translated"]["parameters"]
