"""Every ONNX file of silero-vad, four of which choose branches by If, gives what onnxruntime gives, on both engines."""

import numpy as np
import onnx
import pytest
import zoo
import zoo_samples as samples
from case_runner import case_runner
from onnx import numpy_helper

FILES = ["silero_vad", "silero_vad_16k_op15", "silero_vad_16k_sequence", "silero_vad_half", "silero_vad_op18_ifless",
         "silero_vad_openvino_16k"]  # fmt: skip


def feeds_of(file, inputs):
    """Pieces of sound for each rate and batch that the file takes, behind a state that is not empty."""
    rng = np.random.default_rng(0)
    for rate, piece in ((16000, 576), (8000, 288)):
        if rate == 8000 and "sr" not in inputs:
            continue  # files without the rate, and those of 16 kHz
        if rate == 8000 and "16k" in file:
            continue
        for batch in (1, 3):
            if batch > 1 and ("openvino" in file or "sequence" in file):
                continue
            sounds = [np.asarray(sound, np.float32) for sound in samples.voices(1, batch, 1.0)]
            known = {
                "input": np.stack([sound[4000 : 4000 + piece] for sound in sounds]),
                "state": (rng.normal(size=(2, batch, 128)) / 10).astype(np.float32),
                "sr": np.array(rate, np.int64),
                "h": np.zeros((1, 1, 128), np.float32),
                "c": np.zeros((1, 1, 128), np.float32),
            }
            if "sequence" in file:
                known["input"] = np.stack([sounds[0][at : at + piece] for at in range(0, 5000, 512)])
            yield {name: known[name] for name in inputs}


def write_case(file, folder):
    path = zoo.FOLDER / "silero_vad" / f"{file}.onnx"
    if not path.is_file():
        pytest.skip(f"{path} is not there: scripts/setup tests")
    session = zoo.session(path)
    folder.mkdir()
    (folder / "model.onnx").write_bytes(path.read_bytes())
    for i, feed in enumerate(feeds_of(file, [value.name for value in session.get_inputs()])):
        part = folder / f"test_data_set_{i}"
        part.mkdir()
        for kind, arrays in (("input", list(feed.values())), ("output", session.run(None, feed))):
            for k, array in enumerate(arrays):
                (part / f"{kind}_{k}.pb").write_bytes(numpy_helper.from_array(np.asarray(array), f"{kind}{k}").SerializeToString())


@pytest.mark.parametrize("program", ["crumb_runtime_cases", "crumb_onnx_cases"])
def test_every_file_gives_what_onnxruntime_gives(program, tmp_path):
    for file in FILES:
        write_case(file, tmp_path / file)
    graph = onnx.load(tmp_path / "silero_vad" / "model.onnx").graph
    assert any(node.op_type == "If" for node in graph.node)
    verdicts = case_runner(program, "cmake --build --preset release")([tmp_path / file for file in FILES])
    assert {v.state for v in verdicts.values()} == {"passed"}, verdicts
