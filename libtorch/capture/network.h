// The graph that a capture builds: nodes are appended, equal constants are shared.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "libtorch/capture/recording.h"

namespace crumb::libtorch {

inline constexpr std::int64_t kOpset =
    21;  ///< of captured graphs: GroupNormalization by channels came with it

using Attributes = std::map<std::string, graph::Attribute>;
using Ints = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

class Network {
 public:
  /// The batch is the size of that axis of that input; an empty name: nothing follows a batch.
  Network(Number batch, std::string input, std::int64_t axis)
      : batch_(batch), batch_input_(std::move(input)), batch_axis_(axis) {}

  /// Sets the beginning of the names of nodes and values that are added from now on.
  void label(const std::string& name) { label_ = name; }

  std::string add(const std::string& op, const Names& inputs, const Attributes& attributes = {});
  Names add_many(const std::string& op, const Names& inputs, const Attributes& attributes,
                 std::size_t outputs);

  std::string ints(const Ints& values);                              ///< a constant of rank 1
  std::string index(std::int64_t value);                             ///< a constant of rank 0, int64
  std::string scalar(const at::Scalar& value, at::ScalarType type);  ///< of rank 0
  std::string tensor(const at::Tensor& constant, const std::string& requested = "constant");

  /// Sizes as a tensor of rank 1: a constant, or computed from the batch. Throws Error for numbers that are
  /// not n * batch + m.
  std::string sizes(const std::vector<Number>& numbers);
  graph::Dim dim(const Number& number, const std::string& batch_name) const;

  // What many conversions need.
  std::string cast(const std::string& value, at::ScalarType to);
  std::string reshape(const std::string& value, const std::vector<Number>& from,
                      const std::vector<Number>& to);
  std::string transpose(const std::string& value, const Ints& order);
  std::string unsqueeze(const std::string& value, const Ints& axes);
  std::string squeeze(const std::string& value, const Ints& axes);
  std::string slice(const std::string& value, std::int64_t axis, std::int64_t begin, std::int64_t end);

  std::string unused(const std::string& requested);  ///< a free name, which is taken afterwards

  graph::Graph graph;

 private:
  std::string batch();

  Number batch_;
  std::string batch_input_;
  std::int64_t batch_axis_;
  std::string label_ = "value", batch_value_;
  std::map<std::string, std::int64_t> taken_;
  std::map<Ints, std::string> ints_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> sizes_;
};

inline std::vector<Number> fixed(const Ints& values) {
  std::vector<Number> numbers;
  for (const std::int64_t value : values) numbers.push_back({value, value});
  return numbers;
}

/// 0, 1, ..., rank - 1.
Ints axes_up_to(std::int64_t rank);

}  // namespace crumb::libtorch
