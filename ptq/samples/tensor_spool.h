// A queue of lists of tensors: in memory, and beyond a number of bytes in a temporary file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

#include "graph/tensor.h"

namespace crumb::ptq {

class TensorSpool {
 public:
  explicit TensorSpool(std::uint64_t memory) : memory_(memory) {}

  /// Appends a list. Throws Error where the file cannot be created or written.
  void put(std::vector<graph::Tensor> tensors);
  /// Removes and returns the oldest list. Precondition: there is one. Throws Error where the file cannot be
  /// read.
  std::vector<graph::Tensor> take();
  bool empty() const { return items_.empty(); }

 private:
  /// A tensor; it has no bytes of its own if they are in the file.
  struct Item {
    graph::Tensor tensor;
    graph::ElementType type = graph::ElementType::kUnknown;
    std::vector<std::int64_t> shape;
    std::int64_t offset = -1;  ///< in the file
    std::uint64_t bytes = 0;
  };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::uint64_t memory_, held_ = 0;
  std::int64_t end_ = 0;  ///< of the file
  std::deque<std::vector<Item>> items_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace crumb::ptq
