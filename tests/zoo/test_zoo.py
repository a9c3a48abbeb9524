"""Real networks stay close to their floats at W8A8 by default flags: as close as onnxruntime's tool leaves them, less 1 dB, and
closer than what each needs. What onnxruntime's tool gives is measured by scripts/zoo/table.py, and again here with --slow."""

import json
from pathlib import Path

import numpy as np
import pytest
import zoo

HERE = Path(__file__).parent
CLOSE = 40  # dB beyond which nobody asks which tool is better


@pytest.fixture(scope="module")
def peers():
    return json.loads((HERE / "onnxruntime.json").read_text())


def needed(network, peer):
    """dB: what the network needs, and onnxruntime's better way less 1 dB."""
    found = [db for db in (peer["all"], peer["products"]) if db is not None]
    return max([network.least_w8a8] + [min(db - 1, CLOSE) for db in found])


def named(names):
    return [pytest.param(zoo.NETWORKS[name], marks=[pytest.mark.slow] if zoo.NETWORKS[name].slow else [], id=name) for name in names]


def look(network, tmp_path):
    """The model, samples to calibrate with, runs to measure on, and their float outputs."""
    if not network.source().is_file():
        pytest.skip(f"{network.source()} is not there: scripts/setup tests (slow-tests)")
    model = network.model(tmp_path)
    measured = zoo.feeds_of(network, network.draw(2, network.measure))
    return model, network.draw(1, network.calibrate), measured, zoo.outputs_of(network, model, measured)


@pytest.mark.parametrize("network", named(zoo.NETWORKS))
def test_what_networks_are_shown_follows_from_the_seed(network):
    if not network.source().is_file():
        pytest.skip(f"{network.source()} is not there: scripts/setup tests (slow-tests)")
    first, again, other = network.draw(1, 2), network.draw(1, 2), network.draw(2, 2)
    for name, values in first.items():
        assert all(np.array_equal(a, b) for a, b in zip(values, again[name])) and np.all(np.isfinite(np.asarray(values[0])))
    assert any(not np.array_equal(a, b) for name in first for a, b in zip(first[name], other[name]))


@pytest.fixture(autouse=True)
def without_libtorch(monkeypatch):
    """Samples run on the runtime, which knows all of these networks' operators."""
    monkeypatch.setenv("CRUMB_ENGINE", "/nowhere/libcrumb_engine.so")


# Not in the ordinary run: what takes a minute or more.
HEAVY = {"paddle-recognizer", "dnsmos", "basic-pitch"}


@pytest.mark.parametrize("network", [*named([name for name in zoo.NETWORKS if name not in HEAVY]), *(pytest.param(zoo.NETWORKS[name], marks=pytest.mark.slow, id=name) for name in sorted(HEAVY))])
def test_w8a8_by_default(network, crumb_bin, peers, tmp_path):
    model, drawn, measured, reference = look(network, tmp_path)
    data = zoo.write_data(network, drawn, tmp_path / "data")
    zoo.crumb_quantize(crumb_bin, model, tmp_path / "quantized.onnx", data)
    found = zoo.worst_sqnr(network, reference, tmp_path / "quantized.onnx", measured)
    assert found >= needed(network, peers[network.name])


@pytest.mark.slow
@pytest.mark.parametrize("network", named(["paddle-recognizer", "paddle-detector"]))
def test_w4a8_by_default(network, crumb_bin, tmp_path):
    model, drawn, measured, reference = look(network, tmp_path)
    data = zoo.write_data(network, drawn, tmp_path / "data")
    zoo.crumb_quantize(crumb_bin, model, tmp_path / "quantized.onnx", data, scheme="W4A8")
    assert zoo.worst_sqnr(network, reference, tmp_path / "quantized.onnx", measured) > 9


@pytest.mark.slow
@pytest.mark.parametrize("network", [pytest.param(network, id=name) for name, network in zoo.NETWORKS.items()])
def test_figures_of_onnxruntime_are_its_own(network, peers, tmp_path):
    model, drawn, measured, reference = look(network, tmp_path)
    feeds = zoo.feeds_of(network, drawn)
    for way, operators in zoo.PEER_WAYS.items():
        found = zoo.onnxruntime_quantize(network, model, tmp_path / f"{way}.onnx", feeds, reference, measured, operators)
        expected = peers[network.name][way]
        assert (found is None) == (expected is None)
        assert found is None or found == pytest.approx(expected, abs=0.5)
