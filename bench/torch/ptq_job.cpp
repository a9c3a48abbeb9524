#include "bench/ptq_job.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>

namespace crumb::bench {

std::vector<float> gptq_in_torch(const PtqWork& work, int threads) {
  constexpr std::int64_t kBlock = 128;
  at::set_num_threads(threads);
  const at::InferenceMode inference;
  const auto rows = static_cast<std::int64_t>(work.rows), columns = static_cast<std::int64_t>(work.columns),
             group = static_cast<std::int64_t>(work.group);
  const auto tensor = [](const std::vector<float>& values, std::int64_t a, std::int64_t b) {
    return at::from_blob(const_cast<float*>(values.data()), {a, b}, at::kFloat).clone();
  };
  at::Tensor w = tensor(work.weights, rows, columns), h = tensor(work.moments, columns, columns);
  const at::Tensor scales = tensor(work.scales, rows, columns / group);
  h.diagonal().add_(work.damping * h.diagonal().mean());
  h = at::linalg_cholesky(h);
  h = at::cholesky_inverse(h);
  const at::Tensor u = at::linalg_cholesky(h, /*upper=*/true);
  at::Tensor q = at::zeros_like(w);
  for (std::int64_t first = 0; first < columns; first += kBlock) {
    const std::int64_t count = std::min(kBlock, columns - first);
    at::Tensor part = w.narrow(1, first, count).clone(), errors = at::zeros_like(part);
    const at::Tensor factors = u.narrow(0, first, count).narrow(1, first, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const at::Tensor column = part.select(1, i), scale = scales.select(1, (first + i) / group);
      const at::Tensor rounded = at::clamp(at::round(column / scale), -work.most, work.most) * scale;
      q.select(1, first + i).copy_(rounded);
      const at::Tensor error = (column - rounded) / factors[i][i];
      part.narrow(1, i, count - i).sub_(at::outer(error, factors[i].narrow(0, i, count - i)));
      errors.select(1, i).copy_(error);
    }
    if (const std::int64_t rest = columns - first - count; rest > 0)
      w.narrow(1, first + count, rest)
          .sub_(at::matmul(errors, u.narrow(0, first, count).narrow(1, first + count, rest)));
  }
  return {q.const_data_ptr<float>(), q.const_data_ptr<float>() + q.numel()};
}

double product_in_torch(std::size_t rows, std::size_t columns, std::size_t terms, int threads) {
  at::set_num_threads(threads);
  const at::InferenceMode inference;
  const at::Tensor a = at::rand({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(terms)}),
                   b = at::rand({static_cast<std::int64_t>(terms), static_cast<std::int64_t>(columns)});
  const auto start = std::chrono::steady_clock::now();
  (void)at::matmul(a, b);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace crumb::bench
