// One pass over a float32 tensor beside parameters that broadcast to it: the forward of the quantizers.
#pragma once

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <optional>

namespace crumb::torch_ops {

/// A tensor of outer x channels x inner elements whose parameters vary by channel alone.
struct Rows {
  std::int64_t channels = 1;
  std::int64_t inner = 1;
};

/// Parameters brought to one number each or one a channel, contiguous.
template <std::size_t Count>
struct RowParameters {
  Rows rows;
  std::array<at::Tensor, Count> tensors;
  std::array<const float*, Count> data{};
  std::array<std::int64_t, Count> step{};  ///< 0: one number
};

/// The axis of x along which a parameter varies: -1 where it is one number, -2 where it has more than one axis
/// or is not of x's size there. Sizes align at the end.
inline std::int64_t varying_axis(const at::Tensor& x, const at::Tensor& parameter) {
  std::int64_t axis = -1;
  for (std::int64_t i = 0; i < parameter.dim(); ++i) {
    if (parameter.size(i) == 1) continue;
    const std::int64_t of_x = i + x.dim() - parameter.dim();
    if (axis != -1 || of_x < 0 || parameter.size(i) != x.size(of_x)) return -2;
    axis = of_x;
  }
  return axis;
}

/// Nothing where the loop does not apply: something is not float32 on the CPU, or the result is larger than x.
template <std::size_t Count>
std::optional<RowParameters<Count>> row_parameters(const at::Tensor& x,
                                                   const std::array<at::Tensor, Count>& parameters) {
  const auto fits = [&](const at::Tensor& t) {
    return t.scalar_type() == at::kFloat && t.device().is_cpu() && t.dim() <= x.dim();
  };
  if (!fits(x)) return std::nullopt;
  RowParameters<Count> result;
  result.rows.inner = std::max<std::int64_t>(x.numel(), 1);
  std::int64_t shared = -1;
  bool each = false;  // parameters for every element
  for (std::size_t k = 0; k < Count; ++k) {
    if (!fits(parameters[k])) return std::nullopt;
    const std::int64_t axis = varying_axis(x, parameters[k]);
    if (axis == -1) continue;
    if (axis == -2 || (shared != -1 && shared != axis)) each = true;
    shared = axis;
  }
  if (each) {
    result.rows = {std::max<std::int64_t>(x.numel(), 1), 1};
  } else if (shared >= 0) {
    result.rows.channels = std::max<std::int64_t>(x.size(shared), 1);
    result.rows.inner = 1;
    for (std::int64_t i = shared + 1; i < x.dim(); ++i) result.rows.inner *= x.size(i);
  }
  for (std::size_t k = 0; k < Count; ++k) {
    at::Tensor t = parameters[k].detach();
    if (t.numel() != 1) {
      if (each) {
        const auto sizes = x.sizes();
        for (std::int64_t i = 0; i < t.dim(); ++i) {
          const std::int64_t size = sizes[static_cast<std::size_t>(i + x.dim() - t.dim())];
          if (t.size(i) != 1 && t.size(i) != size) return std::nullopt;
        }
        t = t.expand(sizes);
      }
      result.step[k] = 1;
    }
    result.tensors[k] = t.contiguous();
    result.data[k] = result.tensors[k].template const_data_ptr<float>();
  }
  return result;
}

/// f(x[i], parameters of i) for every element.
template <std::size_t Count, class Function>
at::Tensor map_rows(const at::Tensor& values, const RowParameters<Count>& parameters, Function f) {
  const at::Tensor x = values.detach().contiguous();
  at::Tensor out = at::empty_like(x);
  const float* from = x.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  const std::int64_t channels = parameters.rows.channels, inner = parameters.rows.inner;
  const auto load = [&](std::int64_t channel) {
    std::array<float, Count> p;
    for (std::size_t k = 0; k < Count; ++k) p[k] = parameters.data[k][channel * parameters.step[k]];
    return p;
  };
  at::parallel_for(0, x.numel(), at::internal::GRAIN_SIZE, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t row = i / inner;
      std::int64_t channel = row % channels;
      if (inner == 1) {
        const std::int64_t stop = std::min(end, i + channels - channel);
        for (; i < stop; ++i) to[i] = f(from[i], load(channel++));
      } else {
        const std::int64_t stop = std::min(end, (row + 1) * inner);
        const auto p = load(channel);
        for (; i < stop; ++i) to[i] = f(from[i], p);
      }
    }
  });
  return out;
}

}  // namespace crumb::torch_ops
