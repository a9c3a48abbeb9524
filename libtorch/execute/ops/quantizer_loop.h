// One pass over a float32 tensor and parameters that broadcast to it: the forward of the quantizers.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>

#include "base/processor.h"

namespace crumb::libtorch {

/// A tensor of outer x channels x inner elements, in memory order, whose parameters vary by channel only.
struct Rows {
  std::int64_t channels = 1;
  std::int64_t inner = 1;
  at::MemoryFormat order = at::MemoryFormat::Contiguous;
};

/// The memory order in which the elements have no gaps, if it is one of LibTorch's.
inline at::MemoryFormat order_of(const at::Tensor& x) {
  if (!x.is_contiguous()) {
    if (x.is_contiguous(at::MemoryFormat::ChannelsLast)) return at::MemoryFormat::ChannelsLast;
    if (x.is_contiguous(at::MemoryFormat::ChannelsLast3d)) return at::MemoryFormat::ChannelsLast3d;
  }
  return at::MemoryFormat::Contiguous;
}

/// Parameters brought to one number each, or one a channel (all of them where inner is 1), contiguous.
template <std::size_t Count>
struct RowParameters {
  Rows rows;
  std::array<at::Tensor, Count> tensors;
  std::array<const float*, Count> data{};
  std::array<std::int64_t, Count> step{};  ///< 0: one number
};

/// The axis of x along which a parameter varies: -1 where it is one number, -2 where it has more than one
/// axis or is not of x's size there. Sizes align at the end.
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

/// Nothing where the loop does not apply: a tensor is not float32 on the CPU, or the result is larger than x.
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
    if (shared == 1) result.rows.order = order_of(x);
    if (result.rows.order == at::MemoryFormat::Contiguous) {
      for (std::int64_t i = shared + 1; i < x.dim(); ++i) result.rows.inner *= x.size(i);
    }
  } else {
    result.rows.order = order_of(x);
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
    } else if (result.rows.inner == 1 && result.rows.channels > 1) {
      t = t.reshape({1}).expand({result.rows.channels});
      result.step[k] = 1;
    }
    result.tensors[k] = t.contiguous();
    result.data[k] = result.tensors[k].template const_data_ptr<float>();
  }
  return result;
}

// The loop may overwrite its input: no element depends on another one.
#if defined(__clang__)
#define CRUMB_NO_DEPENDENCES _Pragma("clang loop vectorize(assume_safety)")
#else
#define CRUMB_NO_DEPENDENCES _Pragma("GCC ivdep")
#endif

/// Behind the parameters of a function for map_rows, so that the loops take it in.
#define CRUMB_LANE __attribute__((always_inline))

namespace lane {

// Loops that GCC and Clang turn into vector instructions, for the machine's eight lanes where it has them. No
// instruction rounds otherwise than those of four lanes do (nothing is contracted).

/// All elements have the same parameters.
template <std::size_t Count, class Function>
[[gnu::always_inline]] inline void row_loop(const float* from, float* to, std::int64_t count,
                                            const std::array<float, Count>& p, Function f) {
  CRUMB_NO_DEPENDENCES
  for (std::int64_t i = 0; i < count; ++i) to[i] = f(from[i], p);
}

/// Every element has its own parameters.
template <std::size_t Count, class Function>
[[gnu::always_inline]] inline void column_loop(const float* from, float* to, std::int64_t count,
                                               const std::array<const float*, Count>& columns, Function f) {
  CRUMB_NO_DEPENDENCES
  for (std::int64_t i = 0; i < count; ++i) {
    std::array<float, Count> p;
    for (std::size_t k = 0; k < Count; ++k) p[k] = columns[k][i];
    to[i] = f(from[i], p);
  }
}

#if defined(__x86_64__)
template <class Parameters, class Function>
[[gnu::target("avx2")]] void wide_loop(const float* from, float* to, std::int64_t count, const Parameters& p,
                                       Function f) {
  if constexpr (std::is_same_v<typename Parameters::value_type, float>) {
    row_loop(from, to, count, p, f);
  } else {
    column_loop(from, to, count, p, f);
  }
}
inline bool is_wide() {
  static const bool wide = may_use(Isa::kAvx2);
  return wide;
}
#endif

template <class Parameters, class Function>
void loop(const float* from, float* to, std::int64_t count, const Parameters& p, Function f) {
#if defined(__x86_64__)
  if (is_wide()) return wide_loop(from, to, count, p, f);
#endif
  if constexpr (std::is_same_v<typename Parameters::value_type, float>) {
    row_loop(from, to, count, p, f);
  } else {
    column_loop(from, to, count, p, f);
  }
}

}  // namespace lane

#undef CRUMB_NO_DEPENDENCES

/// f(x[i], parameters of i) for every element; written over x where it may be. The function is
/// CRUMB_LANE, or stays a call for every element.
template <std::size_t Count, class Function>
at::Tensor map_rows(const at::Tensor& values, const RowParameters<Count>& parameters, Function f,
                    bool overwrite = false) {
  const Rows& rows = parameters.rows;
  const at::Tensor x = values.detach().contiguous(rows.order);
  const at::Tensor out = overwrite ? x : at::empty_like(x);
  const float* from = x.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  at::parallel_for(0, x.numel(), at::internal::GRAIN_SIZE, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t row = i / rows.inner, channel = row % rows.channels;
      std::int64_t stop = 0;
      if (rows.inner == 1) {
        stop = std::min(end, i + rows.channels - channel);
        std::array<const float*, Count> columns;
        for (std::size_t k = 0; k < Count; ++k) {
          columns[k] = parameters.data[k] + channel * parameters.step[k];
        }
        lane::loop(from + i, to + i, stop - i, columns, f);
      } else {
        stop = std::min(end, (row + 1) * rows.inner);
        std::array<float, Count> p;
        for (std::size_t k = 0; k < Count; ++k) p[k] = parameters.data[k][channel * parameters.step[k]];
        lane::loop(from + i, to + i, stop - i, p, f);
      }
      i = stop;
    }
  });
  return out;
}

}  // namespace crumb::libtorch
