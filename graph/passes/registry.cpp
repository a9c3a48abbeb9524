#include <algorithm>

#include "graph/edit.h"
#include "graph/onnx/expand_functions.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/opset.h"
#include "graph/passes/passes.h"
#include "graph/passes/to_float32.h"

namespace crumb::graph {
namespace {

template <Graph (*Run)(Graph)>
Graph plain(Graph graph, const Engine*) {
  return Run(std::move(graph));
}

Graph expanded(Graph graph, const Engine* engine) { return expand_functions(std::move(graph), *engine); }

Graph folded(Graph graph, const Engine* engine) { return fold_constants(std::move(graph), *engine); }

Graph norms_folded(Graph graph, const Engine*) { return fold_norms(std::move(graph)); }

template <int Target>
Graph at_opset(Graph graph, const Engine*) {
  return with_opset(std::move(graph), Target);
}

template <Ends Kept>
Graph in_float32(Graph graph, const Engine*) {
  return to_float32(std::move(graph), Kept);
}

template <bool InputsToo>
Graph last(Graph graph, const Engine*) {
  return channels_last(std::move(graph), InputsToo);
}

constexpr Pass kPasses[] = {
    {"infer-shapes", "types and shapes of every value", plain<infer_shapes>},
    {"expand-functions", "operators that are not known by the body that the standard gives them", expanded,
     true},
    {"fold-constants", "compute what depends on constants only; quantizers stay", folded, true},
    {"plain-constants", "Constant nodes become initializers", plain<plain_constants>},
    {"fold-batch-norm", "batch normalization into the weights before it", plain<fold_batch_norm>},
    {"fold-norms", "gains of norms into the matrices behind them", norms_folded, false, fold_norms},
    {"gemm-to-matmul", "Gemm becomes MatMul and Add", plain<gemm_to_matmul>},
    {"matmul-to-gemm", "MatMul and Add become Gemm", plain<matmul_to_gemm>},
    {"extract-conv-bias", "the bias of a convolution becomes an Add", plain<extract_conv_bias>},
    {"remove-identities", "drop what changes nothing", plain<remove_identities>},
    {"fold-transposes", "transposes of constants into the constants", plain<fold_transposes>},
    {"channels-last", "convolutions and pools with channels last, as hls4ml wants them", last<false>},
    {"channels-last-inputs", "channels-last, and the inputs with it", last<true>},
    {"unroll-recurrent", "LSTM, GRU and RNN as cells of plain operators, step by step",
     plain<unroll_recurrent>},
    {"readable-names", "short unique names for nodes and values", plain<readable_names>},
    {"to-float32", "float16, bfloat16 and float64 become float32", in_float32<Ends::kFloat32>},
    {"to-float32-keep-io", "to-float32, but inputs and outputs keep their types", in_float32<Ends::kKept>},
    {"opset-13", "as operator set 13 of ONNX writes it, which most tools take", at_opset<13>},
    {"opset-17", "as operator set 17 of ONNX writes it", at_opset<17>},
    {"opset-21", "as operator set 21 of ONNX writes it", at_opset<21>},
    {"tidy", "sort the nodes and drop what no output needs", plain<tidy>},
};

}  // namespace

Graph tidy(Graph graph) {
  drop_unused(graph);
  return sorted(std::move(graph));
}

std::span<const Pass> all_passes() { return kPasses; }

const Pass* find_pass(std::string_view name) {
  const auto* found = std::ranges::find(kPasses, name, &Pass::name);
  return found == std::end(kPasses) ? nullptr : found;
}

}  // namespace crumb::graph
