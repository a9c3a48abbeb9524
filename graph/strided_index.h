// Finds the elements of one tensor in another, one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "graph/tensor.h"

namespace crumb::graph {

/// Walks the elements of a tensor row by row and gives for each the index of its value in another tensor,
/// which is row-major too.
class StridedIndex {
 public:
  /// The tensor has shape `whole`; the other has shape `part` and broadcasts to it. Nothing where it does
  /// not.
  static std::optional<StridedIndex> broadcast(std::span<const std::int64_t> whole,
                                               std::span<const std::int64_t> part);
  /// The tensor is the other one, of shape `from`, transposed: its axis i is axis perm[i] of `from`.
  /// Precondition: is_permutation.
  static StridedIndex permuted(std::span<const std::int64_t> from, std::span<const std::int64_t> perm);

  std::size_t at() const { return at_; }
  void next();
  void move_to(std::size_t element);  ///< to where that many calls of next() lead from the first element

 private:
  std::vector<std::int64_t> sizes_, steps_, indices_;
  std::size_t at_ = 0;
};

/// Whether perm holds 0 to rank - 1, each once.
bool is_permutation(std::span<const std::int64_t> perm, std::size_t rank);

/// Returns the permutation that undoes `perm`. Precondition: is_permutation.
std::vector<std::int64_t> inverse(std::span<const std::int64_t> perm);

/// Returns the shape of a tensor whose axis i is axis perm[i] of `shape`. Precondition: is_permutation.
std::vector<std::int64_t> permuted_shape(std::span<const std::int64_t> shape,
                                         std::span<const std::int64_t> perm);

/// `to` [columns, rows] is the transpose of `from` [rows, columns].
template <class T>
void transpose(const T* from, std::size_t rows, std::size_t columns, T* to) {
  constexpr std::size_t kSquare = 16;  // whose lines of both stay in the first-level cache
  for (std::size_t r = 0; r < rows; r += kSquare) {
    for (std::size_t c = 0; c < columns; c += kSquare) {
      for (std::size_t i = r; i < std::min(rows, r + kSquare); ++i)
        for (std::size_t k = c; k < std::min(columns, c + kSquare); ++k)
          to[k * rows + i] = from[i * columns + k];
    }
  }
}

/// Whether the permutation exchanges the last two axes and nothing else: it transposes matrices.
bool transposes_matrices(std::span<const std::int64_t> perm);

/// Returns the elements of a tensor of shape `shape` after that transpose, row by row. Precondition:
/// is_permutation.
template <class T>
std::vector<T> permuted(const std::vector<T>& values, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> perm) {
  if (std::is_trivially_copyable_v<T> && transposes_matrices(perm)) {
    std::vector<T> made(values.size());
    const auto rows = static_cast<std::size_t>(shape[shape.size() - 2]),
               columns = static_cast<std::size_t>(shape.back());
    for (std::size_t at = 0; at < values.size(); at += rows * columns)
      transpose(values.data() + at, rows, columns, made.data() + at);
    return made;
  }
  std::vector<T> made;
  made.reserve(values.size());
  StridedIndex index = StridedIndex::permuted(shape, perm);
  for (std::size_t i = 0; i < values.size(); ++i, index.next()) made.push_back(values[index.at()]);
  return made;
}

/// Returns the transposed constant: axis i is axis perm[i] of `tensor`. An unread tensor stays unread, and
/// transposing it back returns the tensor from before, so that no element is moved. Preconditions:
/// is_permutation, elements of whole bytes.
Tensor transposed(const Tensor& tensor, std::span<const std::int64_t> perm);

/// Returns the same where it is how the tensor is stored, so that no element is moved; else nothing.
std::optional<Tensor> transposed_as_stored(const Tensor& tensor, std::span<const std::int64_t> perm);

/// Returns [columns, rows] of a matrix [rows, columns].
std::vector<float> transposed(const std::vector<float>& values, std::size_t rows, std::size_t columns);

/// Whether transposed() accepts the tensor: its elements are whole bytes.
bool can_transpose(const Tensor& tensor);

}  // namespace crumb::graph
