// The checks and fixes that the table in rules.cpp names, by the file that holds them. Internal to
// export/lint.
#pragma once

#include "export/lint/subject.h"

namespace crumb::exporting::checks {

using Check = void(const Subject& subject, Report& report);
using Fix = Graph(Graph graph, Profile profile);

// file.cpp: how the file is written
Check opset_order, domain_imports, legacy_domains, ir_version, functions, initializers_as_inputs,
    unused_initializers, node_order, constant_nodes, stated_shapes;

// names.cpp
Check node_names, hls4ml_names;
Fix name_nodes, rename_for_hls4ml;

// graph.cpp and annotations.cpp: shapes, types, operators
Check static_shapes, float32, operators, opset_version, qonnx_version, annotation_types, annotation_texts;
Fix infer, set_qonnx_version, drop_annotations, drop_texts;

// quantizers.cpp: what every quantizer needs
Check old_names, input_count, attributes, rounding_mode, mode_spelling, constant_parameters, parameter_types,
    scalar_bits, scalar_zeropt, whole_bits, finite_scale, parameter_axes, broadcast, unsigned_narrow;
Fix rename_old, add_attributes, spell_modes, rewrite_types, make_bits_scalar, make_zeropt_scalar, add_axes;

// weights.cpp
Check weight_forks, weight_consumers, weight_transposes, weight_scales, weight_rounding;
Fix copy_weights, fold_weight_transposes, use_common_scale, round_weights;

// activations.cpp
Check zero_points, one_bit, activation_signs, activation_bits, activation_scales, bipolar_scales,
    power_of_two_scales, residual_scales;
Fix remove_zero_points, make_bipolar, unsign_after_relu, split_bipolar_scales;

// finn_activations.cpp: what FINN makes of quantizers, and thresholds that are ours
Check rounded_ties;
Fix write_thresholds;
/// Whether write_thresholds writes the quantizer, where FINN would take it for something else.
bool can_be_thresholds(const Subject& subject, const Node& node);
/// ROUND, and what is the same without a sign (quantizers.cpp).
bool finn_takes_rounding(const Node& node);

// layers.cpp: products and sums
Check gemms, conv_biases, constant_operands, batch_constants;
Fix split_gemms, take_out_biases, swap_operands, drop_batch_axes;

// optional_values.cpp: inputs and outputs that are left out
Check optional_inputs, optional_outputs;
Fix leave_out_inputs, name_outputs;

// pools.cpp: average pools and Trunc; max pools for hls4ml
Check average_pools, truncs, max_pools;
Fix give_pools_two_axes;

// hls4ml.cpp: what its parser wants of single operators
Check layouts, conv_attributes, conv_groups, reshapes, transposes, concats, pads, resizes, table_operators;
Fix put_channels_last, write_conv_attributes, fix_reshapes, write_perms, add_rois;

// qdq.cpp: QuantizeLinear and its like; MultiThreshold
Check threshold_layouts, qdq_ties, qdq_versions;

}  // namespace crumb::exporting::checks
