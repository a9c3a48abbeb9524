// A WeightSource's tensors as constants of a graph, for those who build it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "models/weight_source.h"

namespace crumb::models {

class ModelWeights {
 public:
  /// The source must outlive it.
  explicit ModelWeights(const WeightSource& source) : source_(source) {}
  virtual ~ModelWeights() = default;

  bool has(const std::string& name) const { return source_.has(name); }

  /// The text of a file of the checkpoint; nothing where there is no such file. Throws Error where its bytes
  /// are damaged.
  std::optional<std::string> text(const std::string& path) const { return source_.file(path); }

  /// As WeightSource says it.
  std::string why_unconfigured() const { return source_.why_unconfigured(); }

  /// Makes the tensor a constant of the graph, under its name: codes where it is quantized, else float32,
  /// which stays where it is where it is large and the source can read it later. `axes`: axis i
  /// of the constant is axis axes[i] of the tensor. Throws Error, naming tensor, found and expected, where it
  /// is missing or its shape is not `shape`. A second time it does nothing.
  /// Precondition: the axes are the same then.
  virtual void add(graph::Graph& graph, const std::string& name, const std::vector<size_t>& shape,
                   const std::vector<std::int64_t>& axes);

  /// Names of the tensors that were never added, sorted.
  std::vector<std::string> unused() const;

 protected:
  /// Makes values a constant as add does; they are of `shape`.
  static void add_floats(graph::Graph& graph, const std::string& name, const std::vector<float>& values,
                         const std::vector<size_t>& shape, const std::vector<std::int64_t>& axes);

 private:
  static void add_unread(graph::Graph& graph, const std::string& name,
                         std::function<std::vector<float>()> read, const std::vector<size_t>& shape,
                         const std::vector<std::int64_t>& axes);

  const WeightSource& source_;
  std::set<std::string> added_;
};

}  // namespace crumb::models
