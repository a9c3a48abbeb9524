#include "libtorch/execute/ops/granularity.h"

#include <ATen/ATen.h>

namespace crumb::libtorch {
namespace {

/// One number for each index of an axis.
at::Tensor along_axis(const at::Tensor& t, std::int64_t rank, std::int64_t axis) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(rank), 1);
  shape[static_cast<std::size_t>(axis)] = t.numel();
  return t.reshape(shape);
}

}  // namespace

at::Tensor beside_input(const Call& call, std::size_t i) {
  const at::Tensor& x = call.tensor(0);
  const at::Tensor& t = call.tensor(i);
  if (t.numel() == 1) return t.reshape({});
  const std::int64_t block = call.int_or("block_size", 0);
  if (block < 0) call.fail("block_size is " + std::to_string(block) + ", expected 0 or more");
  const auto refuse = [&](const std::string& expected) {
    call.fail("input " + std::to_string(i) + " is " + text_of(call.in(i)) + " beside " + text_of(call.in(0)) +
              ", expected " + expected);
  };
  if (call.version() < 13) refuse("one number");
  if (x.dim() == 0) refuse("one number");
  const std::int64_t axis = x.dim() == 1 ? 0 : usual_axis(call, call.int_or("axis", 1), x.dim());
  const std::int64_t size = x.size(axis);
  if (t.dim() == 1 && block == 0) {
    if (t.numel() != size) refuse(std::to_string(size) + " numbers");
    return along_axis(t, x.dim(), axis);
  }
  if (t.dim() != x.dim()) refuse("as many axes");
  for (std::int64_t other = 0; other < x.dim(); ++other) {
    if (other != axis && t.size(other) != x.size(other)) {
      refuse("the same sizes but for axis " + std::to_string(axis));
    }
  }
  const std::int64_t blocks = t.size(axis);
  if (blocks == size) return t;
  const std::int64_t length = block > 0 ? block : blocks == 0 ? 0 : (size + blocks - 1) / blocks;
  if (length == 0 || (size + length - 1) / length != blocks) {
    refuse("one number for each block of " + std::to_string(length) + " along axis " + std::to_string(axis));
  }
  return t.repeat_interleave(length, axis).narrow(axis, 0, size);
}

at::Tensor beside_matrix(const Call& call, std::size_t i, std::int64_t rank, Along along) {
  const at::Tensor& t = call.tensor(i);
  if (t.numel() == 1) return t.reshape({});
  return t.dim() == 1 && along == Along::kRows && rank >= 2 ? t.unsqueeze(-1) : t;
}

at::Tensor beside_channels(const Call& call, std::size_t i, std::int64_t rank, std::int64_t axis) {
  const at::Tensor& t = call.tensor(i);
  return t.numel() == 1 ? t.reshape({}) : along_axis(t, rank, axis);
}

}  // namespace crumb::libtorch
