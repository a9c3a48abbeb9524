#include "graph/strided_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace crumb::graph {
namespace {

/// Elements from one index of an axis to the next.
std::vector<std::int64_t> steps_of(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> steps(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) steps[i - 1] = steps[i] * shape[i];
  return steps;
}

}  // namespace

std::optional<StridedIndex> StridedIndex::broadcast(std::span<const std::int64_t> whole,
                                                    std::span<const std::int64_t> part) {
  if (part.size() > whole.size()) return {};
  StridedIndex index;
  index.sizes_.assign(whole.begin(), whole.end());
  index.steps_.assign(whole.size(), 0);
  index.indices_.assign(whole.size(), 0);
  const auto steps = steps_of(part);
  const std::size_t before = whole.size() - part.size();
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != 1 && part[i] != whole[i + before]) return {};
    if (part[i] != 1) index.steps_[i + before] = steps[i];
  }
  return index;
}

StridedIndex StridedIndex::permuted(std::span<const std::int64_t> from, std::span<const std::int64_t> perm) {
  StridedIndex index;
  const auto steps = steps_of(from);
  for (const std::int64_t axis : perm) {
    index.sizes_.push_back(from[static_cast<std::size_t>(axis)]);
    index.steps_.push_back(steps[static_cast<std::size_t>(axis)]);
  }
  index.indices_.assign(perm.size(), 0);
  return index;
}

void StridedIndex::next() {
  auto at = static_cast<std::int64_t>(at_);
  for (std::size_t axis = sizes_.size(); axis-- > 0;) {
    at += steps_[axis];
    if (++indices_[axis] < sizes_[axis]) break;
    at -= steps_[axis] * sizes_[axis];
    indices_[axis] = 0;
  }
  at_ = static_cast<std::size_t>(at);
}

void StridedIndex::move_to(std::size_t element) {
  auto rest = static_cast<std::int64_t>(element);
  std::int64_t at = 0;
  for (std::size_t axis = sizes_.size(); axis-- > 0; rest /= sizes_[axis]) {
    indices_[axis] = rest % sizes_[axis];
    at += indices_[axis] * steps_[axis];
  }
  at_ = static_cast<std::size_t>(at);
}

bool is_permutation(std::span<const std::int64_t> perm, std::size_t rank) {
  std::vector<std::int64_t> sorted(perm.begin(), perm.end()), axes(rank);
  std::ranges::sort(sorted);
  std::iota(axes.begin(), axes.end(), 0);
  return sorted == axes;
}

std::vector<std::int64_t> inverse(std::span<const std::int64_t> perm) {
  std::vector<std::int64_t> made(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) {
    made[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  }
  return made;
}

std::vector<std::int64_t> permuted_shape(std::span<const std::int64_t> shape,
                                         std::span<const std::int64_t> perm) {
  std::vector<std::int64_t> made;
  for (const std::int64_t axis : perm) made.push_back(shape[static_cast<std::size_t>(axis)]);
  return made;
}

bool transposes_matrices(std::span<const std::int64_t> perm) {
  if (perm.size() < 2) return false;
  const auto last = static_cast<std::int64_t>(perm.size()) - 1;
  return perm.back() == last - 1 && perm[perm.size() - 2] == last &&
         std::ranges::is_sorted(perm.first(perm.size() - 2));
}

std::optional<Tensor> transposed_as_stored(const Tensor& tensor, std::span<const std::int64_t> perm) {
  if (!tensor.origin()) return std::nullopt;
  const std::vector<std::int64_t> axes = permuted_shape(tensor.origin()->perm, perm);
  if (!std::ranges::is_sorted(axes)) return std::nullopt;
  return tensor.origin()->tensor;
}

Tensor transposed(const Tensor& tensor, std::span<const std::int64_t> perm) {
  if (std::ranges::is_sorted(perm)) return tensor;
  if (const Tensor::Origin* origin = tensor.origin())
    return transposed(origin->tensor, permuted_shape(origin->perm, perm));
  std::vector<std::int64_t> axes(perm.begin(), perm.end());
  if (tensor.is_unread() && tensor.type() == ElementType::kFloat)
    return Tensor::unread_transpose(
        {tensor, axes}, [tensor, axes] { return permuted(tensor.to_floats(), tensor.shape(), axes); });
  std::vector<std::int64_t> shape = permuted_shape(tensor.shape(), perm);
  auto read = [tensor, axes] {
    const std::size_t size = info(tensor.type()).bits / 8;
    const HeldBytes held = tensor.held();
    std::vector<std::byte> bytes(held.bytes().size());
    StridedIndex index = StridedIndex::permuted(tensor.shape(), axes);
    for (std::size_t to = 0; to < bytes.size(); to += size, index.next()) {
      std::memcpy(bytes.data() + to, held.bytes().data() + index.at() * size, size);
    }
    return bytes;
  };
  if (tensor.is_unread()) return Tensor::unread(tensor.type(), std::move(shape), std::move(read));
  return {tensor.type(), std::move(shape), read()};
}

std::vector<float> transposed(const std::vector<float>& values, std::size_t rows, std::size_t columns) {
  const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(rows),
                                          static_cast<std::int64_t>(columns)};
  return permuted(values, shape, std::array<std::int64_t, 2>{1, 0});
}

bool can_transpose(const Tensor& tensor) { return info(tensor.type()).bits >= 8; }

}  // namespace crumb::graph
