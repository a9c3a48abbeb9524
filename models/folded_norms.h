// A checkpoint with the gains of its norms in the matrices behind them (graph/passes/fold_norms.h): the same
// network, off whatever grid its weights lay on. Tensors are read one at a time; the gains alone are kept.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.h"
#include "graph/passes/fold_norms.h"
#include "graph/passes/passes.h"
#include "quant/tensor_source.h"

namespace crumb::models {

class FoldedNorms {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;

  /// The source must outlive it. Of F16 and BF16 matrices it reads those that change, to see what type holds
  /// them. Throws Error, whose message begins with `name`, as graph_of_checkpoint does.
  FoldedNorms(const TensorSource& source, const std::string& name, int threads = 0);

  /// One for each norm.
  const std::vector<graph::PassRemark>& remarks() const { return remarks_; }

  /// The type of a tensor that changes: its own, F16 or BF16, where that holds every new value, else F32.
  /// Nothing for those that stay.
  std::optional<DType> changes(std::string_view name) const;

  /// The new bytes of a tensor that changes, piece by piece. Throws Error: damaged bytes; products that
  /// float32 does not hold (graph::holds_product).
  void read(std::string_view name, const Sink& sink) const;

  /// Whether a tensor's new type is wider than the published one, so that a configuration that names that has
  /// to change.
  bool is_wider() const { return is_wider_; }

 private:
  /// What becomes of a tensor.
  struct Change {
    DType dtype = DType::kF32;
    float constant = 0;      ///< of a norm, which has no gains here: all its elements
    std::size_t stride = 1;  ///< of a matrix: elements between neighbours along the axis of the gains
    std::vector<float> gains;
  };

  void plan();
  void put(const graph::Graph& graph, graph::NormFold& fold);
  void add(const std::string& name, Change change);
  bool is_held(const SourceTensor& tensor, const Change& change) const;
  void each_piece(const SourceTensor& tensor, const Change& change,
                  const std::function<void(std::span<const float>)>& use) const;

  const TensorSource& source_;
  int threads_;
  std::vector<graph::PassRemark> remarks_;
  std::map<std::string, Change, std::less<>> changes_;
  bool is_wider_ = false;
};

}  // namespace crumb::models
