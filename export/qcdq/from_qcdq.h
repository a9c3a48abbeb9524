// QuantizeLinear -> Clip -> DequantizeLinear, and DequantizeLinear of constants, as QONNX's quantizers.
//
// What is understood, whoever wrote it: QuantizeLinear and DequantizeLinear with equal scales and zero points
// (left out: 0; the type left out: uint8), one Clip or several and Casts that lose nothing between them,
// several DequantizeLinear behind one QuantizeLinear; DequantizeLinear of initializers of every integer type
// and of float8 and float4, behind a Clip or not; scales of one axis and of blocks; and the forms of
// to_qcdq.h for one bit. The width, the sign and `narrow` are those whose range is exactly what Clip and
// container leave.
#pragma once

#include "export/qcdq/to_qcdq.h"
#include "graph/graph.h"

namespace crumb::exporting {

/// The graph with Quant, BipolarQuant and FloatQuant (domain kQonnxDomain, every attribute written, width and
/// single zero point of no axes, scales of full rank) in place of these; sorted, shapes inferred. Constants
/// become (code - zero point) * scale in float32, rounding ROUND; that this gives every code again is
/// checked. `report->ties`: quantizers of activations with a zero point. Operators on integers
/// (graph/onnx/integer_operators.h) become DequantizeLinear, a float operator and QuantizeLinear first, and
/// what moves codes moves values.
///
/// Throws one Error that names every node that has no such form, and why: ranges that no width says ([-3,
/// 10]), scales that differ, integers computed by other nodes (DynamicQuantizeLinear, the int32 of
/// ConvInteger, ...), types other than float32.
graph::Graph from_qcdq(graph::Graph graph, QcdqReport* report = nullptr);

/// The same of a graph that has such nodes, and another graph as it is; so, too, where from_qcdq() throws: for those
/// who look at what is understood (QLinearConv and its like stay).
graph::Graph in_qonnx(graph::Graph graph);

}  // namespace crumb::exporting
