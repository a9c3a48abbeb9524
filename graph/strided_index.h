// Where the elements of one tensor lie in another, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/tensor.h"

namespace crumb::graph {

/// Walks the elements of a tensor row by row and says for each where its value lies in another one, which is
/// row-major too.
class StridedIndex {
 public:
  /// The tensor has shape `whole`, and the other, of shape `part`, broadcasts to it; nothing where it does not.
  static std::optional<StridedIndex> broadcast(std::span<const std::int64_t> whole,
                                               std::span<const std::int64_t> part);
  /// The tensor is the other one, of shape `from`, with axis i where perm[i] was. Precondition: is_permutation.
  static StridedIndex permuted(std::span<const std::int64_t> from, std::span<const std::int64_t> perm);

  std::size_t at() const { return at_; }
  void next();
  void move_to(std::size_t element);  ///< to where next() comes in so many steps from the first

 private:
  std::vector<std::int64_t> sizes_, steps_, place_;
  std::size_t at_ = 0;
};

/// 0 to rank - 1, each once.
bool is_permutation(std::span<const std::int64_t> perm, std::size_t rank);

/// The permutation that undoes it. Precondition: is_permutation.
std::vector<std::int64_t> inverse(std::span<const std::int64_t> perm);

/// The shape of a tensor whose axis i was axis perm[i]. Precondition: is_permutation.
std::vector<std::int64_t> permuted_shape(std::span<const std::int64_t> shape,
                                         std::span<const std::int64_t> perm);

/// The elements of that tensor, row by row, of those of the tensor of shape `shape`. Precondition: is_permutation.
template <class T>
std::vector<T> permuted(const std::vector<T>& values, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> perm) {
  std::vector<T> made;
  made.reserve(values.size());
  StridedIndex index = StridedIndex::permuted(shape, perm);
  for (std::size_t i = 0; i < values.size(); ++i, index.next()) made.push_back(values[index.at()]);
  return made;
}

/// The constant with its axes in another order. Preconditions: is_permutation, elements of whole bytes.
Tensor transposed(const Tensor& tensor, std::span<const std::int64_t> perm);

/// [columns, rows] of a matrix [rows, columns].
std::vector<float> transposed(const std::vector<float>& values, std::size_t rows, std::size_t columns);

/// Whether `transposed` takes it: its elements are whole bytes.
bool can_transpose(const Tensor& tensor);

}  // namespace crumb::graph
