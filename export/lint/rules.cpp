// The table of rules. Fixes run in this order, again until nothing is left for them.
#include "export/lint/checks.h"

namespace crumb::exporting {
namespace {

namespace c = checks;

constexpr unsigned kQ = static_cast<unsigned>(Profile::kQonnx), kF = static_cast<unsigned>(Profile::kFinn),
                   kH = static_cast<unsigned>(Profile::kHls4ml),
                   kO = static_cast<unsigned>(Profile::kOnnxruntime);

constexpr const char* kYes = "yes";
constexpr const char* kNo = "no";

constexpr Rule kRules[] = {
    // How the file is written.
    {"opset-order", kQ | kF | kH, "the first operator set imported is ONNX's own", "import \"\" first", kYes,
     c::opset_order},
    {"domain-import", kQ | kF | kH | kO, "every domain of a node is imported", "add it to opset_import", kYes,
     c::domain_imports},
    {"legacy-domain", kQ | kF | kH, "QONNX's operators are of domain qonnx.custom_op.general",
     "replace onnx.brevitas, finn and the like", kYes, c::legacy_domains},
    {"ir-version", kQ | kF | kH | kO, "the IR version is at most 13, for FINN 10", "write IR version 8",
     "unless small types need it", c::ir_version},
    {"model-function", kQ | kF | kH, "the model defines no functions of its own", "inline them", kYes,
     c::functions},
    {"initializer-input", kQ | kF | kH, "initializers are not listed as inputs",
     "keep them as initializers only", kYes, c::initializers_as_inputs},
    {"unused-initializer", kH, "every initializer is taken by a node", "drop it", kYes,
     c::unused_initializers},
    {"node-order", kQ | kF | kH, "every node stands behind those whose values it takes", "sort the nodes",
     kYes, c::node_order},
    {"constant-node", kQ | kF | kH, "constants are initializers", "replace Constant nodes",
     "unless they hold strings", c::constant_nodes},
    {"node-name", kQ | kF | kH, "names of nodes are unique, begin with a letter and hold no '.'",
     "rename the nodes", kYes, c::node_names, c::name_nodes},
    {"cpp-name", kH, "names of inputs and nodes can be names in C++, and differ; no layer is called 'input'",
     "rename them", kYes, c::hls4ml_names, c::rename_for_hls4ml},
    {"empty-input", kQ | kF | kH, "no input of a Resize is a constant without elements", "leave it out",
     "from operator set 13 on", c::optional_inputs, c::leave_out_inputs},
    {"empty-output", kQ | kF | kH, "every output of a node has a name", "name it", kYes, c::optional_outputs,
     c::name_outputs},
    {"static-shape", kQ | kF | kH, "every shape is known in numbers",
     "bind the dimensions: crumb export --shape NAME=1x3x32x32", kNo, c::static_shapes},
    {"value-info", kQ | kF | kH, "the file states type and shape of every value, and right", "infer shapes",
     kYes, c::stated_shapes, c::infer},

    // The whole graph.
    {"onnx-opset", kF, "ONNX's operator set is at most 21", "export for an older operator set", kNo,
     c::opset_version},
    {"qonnx-opset", kQ | kF, "QONNX's operator set is 1, or 2 where a Trunc has six inputs",
     "import the version that Trunc's inputs are of", "unless Truncs differ", c::qonnx_version,
     c::set_qonnx_version},
    {"operator", kQ | kF | kH | kO, "the tool has every operator", "rewrite the network without it", kNo,
     c::operators},
    {"float32", kQ | kF | kH, "what is a float is float32", "convert the network to float32", kNo,
     c::float32},
    {"annotation-type", kQ | kF | kH,
     "finn_datatype names a type that the values are of; integers only on integers",
     "drop the annotation, or take SCALEDINT<n>", kYes, c::annotation_types, c::drop_annotations},
    {"annotation-text", kQ | kF | kH,
     "layouts and sparsities are lists and dictionaries of names and numbers", "drop the annotation", kYes,
     c::annotation_texts, c::drop_texts},

    // Every quantizer.
    {"intquant", kQ | kF | kH, "integer quantizers are called Quant", "rename IntQuant", kYes, c::old_names,
     c::rename_old},
    {"quantizer-inputs", kQ | kF | kH, "a quantizer has all its inputs",
     "add scale, zero point and bit width", kNo, c::input_count},
    {"quantizer-attributes", kQ | kF | kH, "a quantizer has all its attributes written",
     "write signed, narrow and rounding_mode", "unless signed or narrow", c::attributes, c::add_attributes},
    {"rounding-mode-case", kQ | kF | kH, "rounding modes are in capitals", "write ROUND, FLOOR, ...", kYes,
     c::mode_spelling, c::spell_modes},
    {"rounding-mode", kQ | kF | kH, "the tool has the rounding mode", "quantize with ROUND",
     "HALF_EVEN to ROUND; FINN: as thresholds", c::rounding_mode, c::spell_modes},
    {"parameter-constant", kQ | kF | kH, "parameters of quantizers are constants (for qonnx: the widths)",
     "fold the constants (crumb passes)", kNo, c::constant_parameters},
    {"parameter-type", kQ | kF | kH, "parameters of quantizers are float32", "convert them",
     "where float32 holds them", c::parameter_types, c::rewrite_types},
    {"bitwidth-scalar", kQ | kF | kH, "bit widths are one number of shape []", "drop the axes",
     "unless they differ", c::scalar_bits, c::make_bits_scalar},
    {"bitwidth-whole", kF | kH, "bit widths are whole numbers", "quantize to whole bits", kNo, c::whole_bits},
    {"zeropt-scalar", kQ | kF | kH, "a zero point that is one number is given once", "write it with shape []",
     kYes, c::scalar_zeropt, c::make_zeropt_scalar},
    {"scale-value", kQ | kF | kH, "scales are finite and not 0; for FINN and hls4ml positive",
     "choose another scale", kNo, c::finite_scale},
    {"parameter-axes", kQ | kF | kH, "a scale or zero point of several numbers has as many axes as the data",
     "put axes of 1 before", kYes, c::parameter_axes, c::add_axes},
    {"parameter-shape", kQ | kF | kH, "scale and zero point broadcast to the data",
     "write one number, or one for "
     "each channel",
     kNo, c::broadcast},
    {"unsigned-narrow", kH, "narrow is for signed quantizers", "quantize with narrow=0", kNo,
     c::unsigned_narrow},
    {"one-bit", kF | kH, "one signed bit is a BipolarQuant", "replace the Quant",
     "where scales are in (0, 1]", c::one_bit, c::make_bipolar},

    // Layers.
    {"gemm", kF | kH, "dense layers are MatMul and Add", "split the Gemm", kYes, c::gemms, c::split_gemms},
    {"conv-bias", kQ | kF | kH,
     "a convolution has no bias input (for qonnx: no quantized one; for hls4ml: none where scales of its "
     "weight differ)",
     "add the bias behind it", "where the rank is known", c::conv_biases, c::take_out_biases},
    {"constant-operand", kF | kH, "of an Add, Mul or MatMul the constant is the second input",
     "swap the inputs", "unless MatMul", c::constant_operands, c::swap_operands},
    {"batch-constant", kH, "a constant that is added or multiplied has no axis for the batch",
     "drop its first axes", "where they are 1", c::batch_constants, c::drop_batch_axes},
    {"average-pool", kF | kH, "an AveragePool ends in Trunc; for hls4ml there is none",
     "take a convolution or a MaxPool", kNo, c::average_pools},
    {"trunc", kF,
     "Trunc ends AveragePool, Mul by the size of the kernel, FLOOR (or AveragePool alone, version 2)",
     "write the pattern exactly", kNo, c::truncs},
    {"channels-last", kH, "Conv, BatchNormalization and pools are channels-last",
     "crumb passes channels-last", "on three or four axes", c::layouts, c::put_channels_last},
    {"pool-axes", kH, "a MaxPool has two axes, and rounds sizes down", "give it a second axis of 1",
     "where shapes are known and no window reaches beyond the end", c::max_pools, c::give_pools_two_axes},
    {"conv-attributes", kF | kH,
     "a Conv has strides, pads and group written and no auto_pad (hls4ml: kernel_shape and dilations too; "
     "FINN: a pool "
     "strides and pads)",
     "write them", "where shapes are known", c::conv_attributes, c::write_conv_attributes},
    {"conv-group", kF | kH,
     "a Conv has one group, or one for each channel (FINN: and as many outputs, and two axes)",
     "split the convolution; give one axis a second of 1", kNo, c::conv_groups},
    {"reshape-target", kH, "the target of a Reshape is a constant", "fold the constants",
     "where the shape is known", c::reshapes, c::fix_reshapes},
    {"transpose-perm", kH, "a Transpose has perm written", "write perm", "where the rank is known",
     c::transposes, c::write_perms},
    {"concat-rank", kH, "a Concat has at most four axes, batch included", "join fewer axes", kNo, c::concats},
    {"pad-value", kH, "a Pad pads with 0", "pad with 0", kNo, c::pads},
    {"resize", kH, "a Resize has a roi of one number, and as many rows as columns", "add a roi of one 0",
     "the roi, unless it crops", c::resizes, c::add_rois},
    {"table-operator", kH, "no number comes from a table: a Softmax, Sigmoid or Tanh is not exact there",
     "leave a last Softmax out; take Relu", kNo, c::table_operators, nullptr, Severity::kWarning},
    {"threshold-layout", kQ | kF, "a MultiThreshold of three axes says its data_layout", "write data_layout",
     kNo, c::threshold_layouts},

    // Weights.
    {"weight-transpose", kF | kH, "a quantized weight is not transposed", "transpose the weight in the file",
     "where parameters allow", c::weight_transposes, c::fold_weight_transposes},
    {"weight-fork", kF, "a quantized weight has one consumer, and shares no initializer",
     "give each consumer a quantizer", "unless an output", c::weight_forks, c::copy_weights},
    {"weight-consumer", kF | kH, "a quantized weight goes into a layer that takes its scale",
     "scale by tensor or by channel", kNo, c::weight_consumers},
    {"weight-scale", kF | kH, "a weight has one scale, or one for each output channel (hls4ml: of a Conv)",
     "scale by tensor or by channel", "where all are one number", c::weight_scales, c::use_common_scale},
    {"weight-rounding", kQ | kF | kH, "weights are rounded with ROUND", "store rounded weights",
     "where rounding again keeps them", c::weight_rounding, c::round_weights},

    // Activations, and zero points and scales of both.
    {"zeropt-zero", kF | kH, "zero points are 0", "quantize symmetrically",
     "of weights; FINN: of activations as thresholds", c::zero_points, c::remove_zero_points},
    {"activation-sign", kF, "behind Relu a quantizer has signed=0 and narrow=0, elsewhere signed=1",
     "put a Relu before it, or quantize with a sign", "signed behind Relu; as thresholds",
     c::activation_signs, c::unsign_after_relu},
    {"activation-bits", kF, "an activation has at most 8 bits", "quantize to fewer bits", kNo,
     c::activation_bits},
    {"activation-scale", kF | kH, "an activation has one scale (FINN: or one for each channel on axis 1)",
     "scale by tensor", "where all are one number", c::activation_scales, c::use_common_scale},
    {"bipolar-scale", kF | kH, "a BipolarQuant has scale 1 (FINN: of activations)", "multiply behind it",
     "of activations", c::bipolar_scales, c::split_bipolar_scales},
    {"power-of-two", kH, "scales are powers of two", "quantize with scale=e8m0, or --profile hls4ml", kNo,
     c::power_of_two_scales, nullptr, Severity::kApproximate},
    {"residual-scale", kF, "an Add of two quantized values adds equal scales", "share the quantizer's scale",
     kNo, c::residual_scales},

    {"round-tie", kF, "no activation lies half way between two codes: FINN's thresholds round such ties up",
     "quantize with round=half_up and no sign", "as thresholds of our own, up to 8 bits", c::rounded_ties,
     c::write_thresholds, Severity::kWarning},

    // QuantizeLinear and its like.
    {"qdq-tie", kO, "zero points of QuantizeLinear are even, or exact ties differ from QONNX",
     "take zero points that are even", kNo, c::qdq_ties},
    {"qdq-opset", kO, "ONNX's operator set has what QuantizeLinear, DequantizeLinear and Clip need",
     "export for a newer operator set", kNo, c::qdq_versions},
};

}  // namespace

std::span<const Rule> rules() { return kRules; }

}  // namespace crumb::exporting
