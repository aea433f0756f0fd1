"""Training in two processes, and distributed tensors: translated and eager end with the same results."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.divided

HERE = os.path.dirname(os.path.abspath(__file__))


def results_of(program, arguments, processes, tmp_path):
    launch = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", str(processes)]
    command = [*launch, "--log_dir", str(tmp_path), os.path.join(HERE, program), *arguments, str(tmp_path / "result")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout.decode()
    return [json.loads((tmp_path / f"result.{rank}.json").read_text()) for rank in range(processes)]


@pytest.mark.parametrize("wrapper", ["DataParallel", "fleet"])
def test_training_in_two_processes(wrapper, tmp_path):
    results = results_of("distributed_training.py", [wrapper], 2, tmp_path)
    for result in results:
        # The model is one graph and the loss another: the collective call between them is the only break.
        assert result["counts"]["graphs"] >= 2 and result["counts"]["hits"] > 0 and result["counts"]["fallbacks"] == 0
        np.testing.assert_allclose(result["translated"]["losses"], result["eager"]["losses"], rtol=1e-5)
        for ours, eager in zip(result["translated"]["parameters"], result["eager"]["parameters"]):
            np.testing.assert_allclose(ours, eager, rtol=1e-5, atol=1e-6)
    first, second = results
    assert first["translated"]["losses"] != second["translated"]["losses"]  # each had its own part of the data
    assert first["translated"]["parameters"] == second["translated"]["parameters"]


@pytest.mark.parametrize("processes", [1, 2])
def test_distributed_tensors(processes, tmp_path):
    # Graphs of every size would be programs, but those of distributed tensors are called one by one.
    for result in results_of("distributed_tensors.py", [], processes, tmp_path):
        assert len(result) == 31
        for name, found in result.items():
            assert found["first"] == found["expected"], name
            assert found["second"] == found["expected"], name
            counts = found["counts"]
            translations = 2 if name == "training" or name.startswith("breaks") else 1
            expected = {"translations": translations, "graphs": translations, "hits": translations, "fallbacks": {}}
            assert {key: counts[key] for key in expected} == expected, name
            assert counts["replayed"] == counts["graphs"], name
            assert len(counts["breaks"]) == (1 if name.startswith("breaks") else 0), name
