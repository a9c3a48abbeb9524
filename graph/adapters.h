// Low-rank adapters as nodes of a network (LoRA, Hu et al. 2021, arXiv:2106.09685), so that whatever runs,
// trains, packs or exports a graph does it with them.
//
// A product y = MatMul(x, W) with an adapter called NAME becomes
//
//   down = MatMul(x, MODULE.NAME.lora_A)        lora_A [in, rank]
//   scaled = Mul(down, MODULE.NAME.lora_scale)  one number
//   up = MatMul(scaled, MODULE.NAME.lora_B)     lora_B [rank, out]
//   y = Add(MatMul(x, W), up)
//
// MODULE is the name of the constant W without ".weight". A Gemm gets the same nodes. W does not change, even
// if it is kept as codes. Several adapters stack. The adapter's constants are float32; or float16 or bfloat16
// followed by a Cast; or int8 codes with one scale for each rank (lora_A) or each output (lora_B).
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

/// Returns the type of "f32", "f16", "bf16" or "int8". Throws Error, which lists the four, for other names.
AdapterType adapter_type_named(std::string_view name);
std::string_view name_of(AdapterType type);

/// A product that can have an adapter: MatMul whose second input is a constant matrix, or Gemm that is not
/// scaled, does not transpose x, and whose matrix only products take.
struct LinearProduct {
  std::size_t node = 0;
  std::string weight, module;
  std::size_t in = 0, out = 0;
  bool is_transposed = false;  ///< the matrix is stored as [out, in]
};

/// Returns the products in the graph's order, without those of adapters. A matrix that several nodes take
/// gives one product for each node. of_tables: also products whose matrix Gather looks up, such as a head
/// that shares the embeddings' table.
std::vector<LinearProduct> linear_products(const Graph& graph, bool of_tables = false);

/// Adds the adapter to every product of its modules, also where these have other adapters. Names consist of
/// letters, digits, "-" and "_". Throws Error, which names the module, where the graph already has an adapter
/// of that name, the name is not valid, a module has no product or two matrices, or the shapes differ.
/// `beside` receives the added branches, product by product.
Graph add_adapter(Graph graph, const Adapter& adapter, const std::string& name,
                  AdapterType type = AdapterType::kFloat32, std::vector<Branch>* beside = nullptr);

/// Returns the names of the graph's adapters, the innermost first.
std::vector<std::string> adapter_names(const Graph& graph);

/// Returns the adapter's current numbers. Throws Error, which lists the graph's adapters, where none has that
/// name.
Adapter adapter_of(const Graph& graph, const std::string& name);

/// Returns the type in which the adapter is stored. Throws as adapter_of() does.
AdapterType adapter_type(const Graph& graph, const std::string& name);

/// Returns the graph without that adapter. Throws as adapter_of() does.
Graph drop_adapter(Graph graph, const std::string& name);
/// Returns the graph without any adapter; it may have none.
Graph without_adapters(Graph graph);

/// Whether a constant of that name belongs to an adapter.
bool is_of_adapter(std::string_view constant);

/// Adds the updates of one layer to its matrix [out, in], in double, and rounds the sum once. Precondition:
/// the updates and the matrix have the same sizes.
void merge(std::span<const LowRankUpdate> updates, std::span<float> matrix);

/// What merging adapters into a quantized matrix changed: squared norms over the squared norm of the matrix
/// with its update.
struct MergedLayer {
  std::string module;
  double update = 0;  ///< of the adapter's update
  double error = 0;   ///< of the rounding to the grid
};

struct MergedGraph {
  Graph graph;
  std::vector<MergedLayer> layers;
};

/// Merges every adapter into the matrix of its product, and quantizes that matrix by `spec`, with new scales.
/// If `spec` is empty, quantized matrices keep their own specs and float matrices stay float, without error.
/// Throws Error where the graph has no adapter, and as quantize_constant() does.
MergedGraph merge_adapters(Graph graph, const std::string& spec = {});

}  // namespace crumb::graph
