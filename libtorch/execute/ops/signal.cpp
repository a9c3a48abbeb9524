// DFT, STFT, windows, MelWeightMatrix.
#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

std::int64_t whole_number(const Call& call, std::size_t i, const char* what) {
  const Ints values = call.ints(i);
  expect_length(call, what, values.size(), 1);
  return values[0];
}

double real_number(const Call& call, std::size_t i, const char* what) {
  expect_length(call, what, static_cast<std::size_t>(call.tensor(i).numel()), 1);
  return call.tensor(i).item<double>();
}

/// The type that the attribute output_datatype names.
ElementType named_type(const Call& call) {
  const auto type = graph::element_type_of(call.int_or("output_datatype", 1));
  if (!type || !(graph::is_float(*type) || graph::is_integer(*type)))
    call.fail("output_datatype is not a number's");
  return *type;
}

/// A signal whose last axis holds real and, perhaps, imaginary parts; without that axis.
at::Tensor signal_of(const Call& call, at::Tensor x) {
  expect_least_rank(call, 0, 2);
  if (x.size(-1) != 1 && x.size(-1) != 2) {
    call.fail("expected a last axis of 1 or 2 parts, found " + text_of(call.in(0)));
  }
  x = x.to(at::kDouble);  // what cancels out has to be 0 in single precision
  return x.size(-1) == 1 ? x.squeeze(-1) : at::complex(x.select(-1, 0), x.select(-1, 1));
}

at::Tensor transformed(const at::Tensor& x, std::int64_t length, std::int64_t axis, bool half) {
  if (half && !x.is_complex()) return at::fft_rfft(x, length, axis);
  const at::Tensor whole = at::fft_fft(x, length, axis);
  return half ? whole.slice(axis, 0, length / 2 + 1) : whole;
}

Outputs parts_of(const Call& call, const at::Tensor& made) {
  return like_input(call,
                    at::view_as_real(made.is_complex() ? made : at::complex(made, at::zeros_like(made))));
}

Outputs dft(const Call& call) {
  const at::Tensor x = signal_of(call, call.tensor(0));
  const bool inverse = call.int_or("inverse", 0) != 0, half = call.int_or("onesided", 0) != 0;
  const std::int64_t asked = call.version() < 20 ? call.int_or("axis", 1)
                             : call.has(2)       ? whole_number(call, 2, "axis")
                                                 : -2;
  const std::int64_t axis = usual_axis(call, asked, x.dim() + 1);
  if (axis == x.dim()) call.fail("cannot transform along the axis of real and imaginary parts");
  std::int64_t length = inverse && half ? 2 * (x.size(axis) - 1) : x.size(axis);
  if (call.has(1)) length = whole_number(call, 1, "dft_length");
  if (length < 1) call.fail("expected a dft_length of 1 or more, found " + std::to_string(length));
  if (!inverse) return parts_of(call, transformed(x, length, axis, half));
  if (half) return like_input(call, at::fft_irfft(x, length, axis).unsqueeze(-1));
  return parts_of(call, at::fft_ifft(x, length, axis));
}

Outputs stft(const Call& call) {
  const bool has_parts = call.tensor(0).dim() != 2;  // onnxruntime takes signals without that axis, too
  if (has_parts) expect_rank(call, 0, 3);
  const at::Tensor x = signal_of(call, has_parts ? call.tensor(0) : call.tensor(0).unsqueeze(-1));
  const std::int64_t step = whole_number(call, 1, "frame_step");
  std::int64_t length = call.has(2) ? call.tensor(2).numel() : x.size(1);
  if (call.has(3)) length = whole_number(call, 3, "frame_length");
  if (step < 1 || length < 1 || length > x.size(1)) {
    call.fail("cannot cut frames of " + std::to_string(length) + " every " + std::to_string(step) + " from " +
              text_of(call.in(0)));
  }
  at::Tensor frames = x.unfold(1, length, step);
  if (call.has(2)) {
    expect_rank(call, 2, 1);
    const std::int64_t missing = length - call.tensor(2).numel();
    if (missing < 0) call.fail("the window is longer than a frame of " + std::to_string(length));
    const auto real = x.is_complex() ? c10::toRealValueType(x.scalar_type()) : x.scalar_type();
    frames = frames * at::constant_pad_nd(call.tensor(2).to(real), {0, missing});
  }
  return parts_of(call, transformed(frames, length, 2, call.int_or("onesided", 1) != 0));
}

/// A window a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N); N is one less where the window is symmetric.
template <int kOver, int kA0, int kA1, int kA2>
Outputs window(const Call& call) {
  const ElementType type = named_type(call);
  const std::int64_t size = whole_number(call, 0, "size");
  if (size < 0) call.fail("expected a size of 0 or more, found " + std::to_string(size));
  const std::int64_t period = call.int_or("periodic", 1) != 0 ? size : size - 1;
  const auto options = at::TensorOptions().dtype(at::kDouble).device(call.tensor(0).device());
  if (size == 1) return {wrapped(at::ones({1}, options), type)};
  const at::Tensor angle = at::arange(size, options) * (2 * std::numbers::pi / static_cast<double>(period));
  const double over = kOver;
  return {wrapped(kA0 / over - angle.cos() * (kA1 / over) + (angle * 2).cos() * (kA2 / over), type)};
}

Outputs mel_weight_matrix(const Call& call) {
  const ElementType type = named_type(call);
  const std::int64_t bins = whole_number(call, 0, "num_mel_bins"),
                     length = whole_number(call, 1, "dft_length");
  const std::int64_t rate = whole_number(call, 2, "sample_rate");
  const double lower = real_number(call, 3, "lower_edge_hertz"),
               upper = real_number(call, 4, "upper_edge_hertz");
  constexpr std::int64_t kMost = 1 << 24;
  if (bins < 1 || bins > kMost || length < 1 || length > kMost || rate < 1 || !(lower >= 0) ||
      !(upper >= lower)) {
    call.fail("expected counts above 0 and edges in ascending order");
  }
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const std::int64_t rows = length / 2 + 1;
  const double step = (mel(upper) - mel(lower)) / static_cast<double>(bins + 2);
  Ints edges;
  for (std::int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + mel(lower)) / 2595) - 1);
    const double edge = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    if (!(edge <= static_cast<double>(rows))) call.fail("upper_edge_hertz is above half the sample rate");
    edges.push_back(static_cast<std::int64_t>(std::max(edge, 0.0)));
  }
  at::Tensor matrix = at::zeros({rows, bins}, at::TensorOptions().dtype(at::kDouble));
  auto* cells = matrix.data_ptr<double>();
  for (std::int64_t i = 0; i < bins; ++i) {
    const std::int64_t low = edges[static_cast<std::size_t>(i)],
                       middle = edges[static_cast<std::size_t>(i) + 1];
    const std::int64_t high = edges[static_cast<std::size_t>(i) + 2];
    if (middle >= rows) call.fail("upper_edge_hertz is above half the sample rate");
    if (low == middle) cells[middle * bins + i] = 1;
    for (std::int64_t j = low; j <= middle && low < middle; ++j) {
      cells[j * bins + i] = static_cast<double>(j - low) / static_cast<double>(middle - low);
    }
    for (std::int64_t j = middle; j < high; ++j) {
      cells[j * bins + i] = static_cast<double>(high - j) / static_cast<double>(high - middle);
    }
  }
  return {wrapped(matrix.to(call.tensor(0).device()), type)};
}

constexpr OperatorRow kSignalRows[] = {
    {"DFT", dft},
    {"STFT", stft},
    {"HannWindow", window<2, 1, 1, 0>},
    {"HammingWindow", window<46, 25, 21, 0>},
    {"BlackmanWindow", window<100, 42, 50, 8>},
    {"MelWeightMatrix", mel_weight_matrix},
};

}  // namespace

std::span<const OperatorRow> signal_operators() { return kSignalRows; }

}  // namespace crumb::libtorch
