// Low-rank adapters as nodes of a network (LoRA, Hu et al. 2021, arXiv:2106.09685), so that whatever runs, trains, packs or
// exports a graph does it with them.
//
// A product y = MatMul(x, W) with an adapter called NAME becomes
//
//   down = MatMul(x, MODULE.NAME.lora_A)        lora_A [in, rank]
//   scaled = Mul(down, MODULE.NAME.lora_scale)  one number
//   up = MatMul(scaled, MODULE.NAME.lora_B)     lora_B [rank, out]
//   y = Add(MatMul(x, W), up)
//
// MODULE being the constant W's name without ".weight"; beside a Gemm alike. W stays as it is, codes too. Several adapters stack. The constants are
// float32; or float16 or bfloat16 ones behind a Cast; or codes, int8 with a scale for each of the rank (lora_A) and of the
// outputs (lora_B).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/adapters/adapter.h"
#include "graph/branches.h"
#include "graph/graph.h"

namespace crumb::graph {

enum class AdapterType : std::uint8_t { kFloat32, kFloat16, kBfloat16, kInt8 };

/// "f32", "f16", "bf16", "int8"; Error, with the four, for other names.
AdapterType adapter_type_named(std::string_view name);
std::string_view name_of(AdapterType type);

/// A product that an adapter can stand beside: MatMul of something and a constant matrix that is its second input, or Gemm,
/// neither scaled nor of a transposed input, whose matrix only products take.
struct LinearProduct {
  std::size_t node = 0;
  std::string weight, module;
  std::size_t in = 0, out = 0;
  bool is_transposed = false;  ///< the matrix lies [out, in]
};

/// In the graph's order; adapters' own are none. A matrix that several nodes take is one for each. of_tables: of matrices
/// that are looked up in, too, as heads are that share the embeddings' table.
std::vector<LinearProduct> linear_products(const Graph& graph, bool of_tables = false);

/// The adapter beside every product of its modules, those included that are in there. Names: letters, digits, "-" and "_".
/// Throws Error where the graph has an adapter of that name, the name is none, a module has no product or two matrices, or the
/// shapes differ; it names the module. `beside` gets what came, product by product.
Graph add_adapter(Graph graph, const Adapter& adapter, const std::string& name,
                  AdapterType type = AdapterType::kFloat32, std::vector<Branch>* beside = nullptr);

/// The names of the graph's adapters, the innermost first.
std::vector<std::string> adapter_names(const Graph& graph);

/// Its numbers as they are now. Throws Error where the graph has no adapter of that name (those that it has are named).
Adapter adapter_of(const Graph& graph, const std::string& name);

/// What its numbers are kept as. Throws the same.
AdapterType adapter_type(const Graph& graph, const std::string& name);

/// Without it. Throws the same.
Graph drop_adapter(Graph graph, const std::string& name);
/// Without those that it has, if any.
Graph without_adapters(Graph graph);

/// Whether a constant of that name is an adapter's.
bool is_of_adapter(std::string_view constant);

/// The updates of one layer are added to its matrix [out, in], in double, and the sum is rounded once.
/// Precondition: their sizes are the matrix'.
void merge(std::span<const LowRankUpdate> updates, std::span<float> matrix);

/// What putting an adapter into codes did to one matrix, as squared norms over that of the matrix with its update.
struct MergedLayer {
  std::string module;
  double update = 0;  ///< of what the adapter adds
  double error = 0;   ///< of what rounding to the grid takes again
};

struct MergedGraph {
  Graph graph;
  std::vector<MergedLayer> layers;
};

/// All adapters go into the matrices that they stand beside, which are quantized by `spec`, or where that is empty by their own
/// specs, scales anew; those in floats stay so then, and cost nothing. Throws Error where there is no adapter, and
/// what quantize_constant() does.
MergedGraph merge_adapters(Graph graph, const std::string& spec = {});

}  // namespace crumb::graph
