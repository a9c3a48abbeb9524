"""Networks and quantized networks that others made, in one folder: what the qonnx package carries, and the shapes of its zoo's
TFC networks (tfc_networks.py), which no package has, with drawn weights."""

import importlib.util
import shutil
from pathlib import Path

import onnx
import tfc_networks

# Where they lie in the package, and what they are called here.
CARRIED = {
    "eltwise_chanlast_testcase.onnx": "eltwise_chanlast_testcase.onnx",
    "residual_block_clean.onnx": "residual_block_clean.onnx",
    "matmul_update/sdp.onnx": "sdp_float.onnx",
    "mnist-conv/model.onnx": "mnist_conv_float.onnx",
    "mnist-conv/test_data_set_0/input_0.pb": "mnist_conv_float.input_0.pb",
    "mnist-conv/test_data_set_0/output_0.pb": "mnist_conv_float.output_0.pb",
    "bsd300x3-espcn/nn_resize/float_model.onnx": "espcn_nn_resize_float.onnx",
    "bsd300x3-espcn/nn_resize/quant_model.onnx": "espcn_nn_resize_quant.onnx",
    "bsd300x3-espcn/subpixel/float_model.onnx": "espcn_subpixel_float.onnx",
    "bsd300x3-espcn/subpixel/quant_model.onnx": "espcn_subpixel_quant.onnx",
    "bsd300x3-espcn/test_data/input_0.pb": "espcn_input_0.pb",
    "floatquant_exec/qonnx_act_weight_fp8.onnx": "floatquant_fp8_e4m3.onnx",
    "floatquant_exec/test_data/input.npy": "floatquant_fp8_e4m3.input.npy",
    "floatquant_exec/test_data/output.npy": "floatquant_fp8_e4m3.output.npy",
    "floatquant_exec/test_data/activation.npz": "floatquant_fp8_e4m3.activation.npz",
}


def package():
    """The folder of the qonnx package's networks; None where it is not installed."""
    found = importlib.util.find_spec("qonnx")  # not imported: that takes a second
    return None if found is None else Path(found.submodule_search_locations[0]) / "data" / "onnx"


def write(folder):
    """Fills `folder`: NAME.onnx, and the samples that come with some. FileNotFoundError where qonnx's package lacks one."""
    folder.mkdir(parents=True, exist_ok=True)
    for there, here in CARRIED.items():
        shutil.copyfile(package() / there, folder / here)
    for name in tfc_networks.BITS:
        onnx.save(tfc_networks.tfc(name), folder / f"{name}.onnx")
    onnx.save(tfc_networks.thresholds(), folder / "tfc_1w1a_multithreshold.onnx")
