// DFT, STFT and windows.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/threads/parallel.h"
#include "runtime/exact/by_double.h"
#include "runtime/exact/fourier.h"
#include "runtime/ops/families.h"
#include "runtime/ops/one_integer.h"

namespace crumb::runtime {
namespace {
using exact::Complex;
using exact::Fourier;

/// Samples with one or two parts, real and imaginary, behind the last axis.
class Signal {
 public:
  Signal(const Array& x, std::size_t parts) : x_(&x), parts_(parts) {}

  std::size_t parts() const { return parts_; }
  Complex at(std::size_t i) const { return {number(i * parts_), parts_ == 2 ? number(i * parts_ + 1) : 0}; }

 private:
  double number(std::size_t i) const {
    return x_->carrier() == Carrier::kDouble ? x_->values<double>()[i]
                                             : static_cast<double>(x_->values<float>()[i]);
  }

  const Array* x_;
  std::size_t parts_;
};

void put(Array& to, std::size_t i, double number) {
  if (to.carrier() == Carrier::kDouble)
    to.writable<double>()[i] = number;
  else
    to.writable<float>()[i] = static_cast<float>(number);
}

void expect_floats(const Call& call, std::size_t i) {
  const Carrier carrier = call.in(i).carrier();
  if (carrier != Carrier::kFloat && carrier != Carrier::kDouble)
    call.fail("input " + std::to_string(i) + ": expected floats, found " + text_of(call.in(i)));
}

/// The parts of a signal whose last axis has them.
std::size_t parts_of(const Call& call, const Array& x) {
  expect_floats(call, 0);
  const std::int64_t parts = x.rank() >= 2 ? x.dim(x.rank() - 1) : 0;
  if (parts != 1 && parts != 2) call.fail("expected a last axis of 1 or 2 parts, found " + text_of(x));
  return static_cast<std::size_t>(parts);
}

/// One transform after the other: what each takes, and what comes of it.
class Transforms {
 public:
  Transforms(std::size_t length, bool is_inverse, bool is_half)
      : fourier_(length), is_inverse_(is_inverse), is_half_(is_half) {}

  std::size_t length() const { return fourier_.length(); }
  std::size_t multiplications() const { return fourier_.multiplications(); }
  /// Elements that a transform gives: half of them say the rest of what comes of real numbers.
  std::size_t made() const { return is_half_ && !is_inverse_ ? length() / 2 + 1 : length(); }
  bool makes_reals() const { return is_half_ && is_inverse_; }

  /// `samples` is overwritten.
  void run(std::vector<Complex>& samples, std::vector<Complex>& to) const {
    if (makes_reals()) mirror(samples);
    if (is_inverse_) conjugate(samples);
    fourier_.transform(samples, to);
    if (!is_inverse_) return;
    conjugate(to);
    const auto size = static_cast<double>(length());
    for (Complex& x : to) x = {x.real / size, x.imaginary / size};
  }

 private:
  static void conjugate(std::vector<Complex>& x) {
    for (Complex& one : x) one.imaginary = -one.imaginary;
  }
  /// What the second half is where real numbers come of all.
  void mirror(std::vector<Complex>& x) const {
    x[0].imaginary = 0;
    if (length() % 2 == 0) x[length() / 2].imaginary = 0;
    for (std::size_t k = 1; k < length() - k; ++k) x[length() - k] = {x[k].real, -x[k].imaginary};
  }

  const Fourier fourier_;
  const bool is_inverse_, is_half_;
};

std::size_t length_of(const Call& call, std::int64_t length) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  if (length < 1 || length > kMost)
    call.fail("expected a length from 1 to " + std::to_string(kMost) + ", found " + std::to_string(length));
  call.spend({static_cast<std::size_t>(length)});
  return static_cast<std::size_t>(length);
}

Kernel dft(const NodeFacts& facts) {
  const bool is_inverse = facts.int_or("inverse", 0) != 0, is_half = facts.int_or("onesided", 0) != 0;
  const bool has_axis_input = facts.version() >= 20;
  const std::int64_t attribute = has_axis_input ? -2 : facts.int_or("axis", 1);
  return [=](Call& call) {
    const Array x = call.in(0);
    const Signal signal(x, parts_of(call, x));
    const std::int64_t asked = has_axis_input && call.has(2) ? one_integer(call, 2, "axis") : attribute;
    const auto axis = static_cast<std::size_t>(call.usual_axis(asked, x.rank()));
    if (axis + 1 == x.shape().size())
      call.fail("cannot transform along the axis of real and imaginary parts");
    const std::int64_t there = x.shape()[axis];
    std::int64_t wanted = is_inverse && is_half ? 2 * (there - 1) : there;
    if (call.has(1)) wanted = one_integer(call, 1, "dft_length");
    const Transforms transforms(length_of(call, wanted), is_inverse, is_half);
    Ints shape = x.shape();
    shape[axis] = static_cast<std::int64_t>(transforms.made());
    shape.back() = transforms.makes_reals() ? 1 : 2;
    std::size_t outer = 1, inner = 1;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i)
      if (i != axis) (i < axis ? outer : inner) *= static_cast<std::size_t>(shape[i]);
    call.spend({outer, inner, transforms.multiplications()});
    Array& made = call.make(0, x.type(), shape);
    const auto taken = std::min(static_cast<std::size_t>(there), transforms.length());
    const std::size_t parts = transforms.makes_reals() ? 1 : 2;
    parallel_for(outer * inner, 1, call.threads(), [&](std::size_t begin, std::size_t end) {
      std::vector<Complex> samples, to(transforms.length());
      for (std::size_t line = begin; line < end; ++line) {
        const std::size_t o = line / inner, in = line % inner;
        samples.assign(transforms.length(), {});
        for (std::size_t k = 0; k < taken; ++k)
          samples[k] = signal.at((o * static_cast<std::size_t>(there) + k) * inner + in);
        transforms.run(samples, to);
        for (std::size_t k = 0; k < transforms.made(); ++k) {
          const std::size_t at = ((o * transforms.made() + k) * inner + in) * parts;
          put(made, at, to[k].real);
          if (parts == 2) put(made, at + 1, to[k].imaginary);
        }
      }
    });
  };
}

/// Frames of a signal [batch, length, parts] or, as onnxruntime takes it, [batch, length].
Kernel stft(const NodeFacts& facts) {
  const bool is_half = facts.int_or("onesided", 1) != 0;
  return [=](Call& call) {
    const Array x = call.in(0);
    if (x.rank() != 2 && x.rank() != 3) call.fail("input 0: expected rank 2 or 3, found " + text_of(x));
    if (x.rank() == 2) expect_floats(call, 0);
    const Signal signal(x, x.rank() == 2 ? 1 : parts_of(call, x));
    const std::int64_t step = one_integer(call, 1, "frame_step"), samples = x.dim(1);
    std::int64_t asked = call.has(2) ? static_cast<std::int64_t>(call.in(2).size()) : samples;
    if (call.has(3)) asked = one_integer(call, 3, "frame_length");
    if (step < 1 || asked < 1 || asked > samples)
      call.fail("cannot cut frames of " + std::to_string(asked) + " every " + std::to_string(step) +
                " from " + text_of(x));
    const Transforms transforms(length_of(call, asked), false, is_half);
    std::vector<double> window(transforms.length(), call.has(2) ? 0 : 1);
    if (call.has(2)) {
      expect_floats(call, 2);
      if (call.in(2).rank() != 1 || call.in(2).size() > window.size())
        call.fail("the window is " + text_of(call.in(2)) + ", of a frame of " + std::to_string(asked));
      const Signal weights(call.in(2), 1);
      for (std::size_t i = 0; i < call.in(2).size(); ++i) window[i] = weights.at(i).real;
    }
    const auto batch = static_cast<std::size_t>(x.dim(0)),
               frames = static_cast<std::size_t>((samples - asked) / step + 1);
    call.spend({batch, frames, transforms.multiplications()});
    Array& made = call.make(
        0, x.type(),
        {x.dim(0), static_cast<std::int64_t>(frames), static_cast<std::int64_t>(transforms.made()), 2});
    parallel_for(batch * frames, 1, call.threads(), [&](std::size_t begin, std::size_t end) {
      std::vector<Complex> taken(transforms.length()), to(transforms.length());
      for (std::size_t frame = begin; frame < end; ++frame) {
        const std::size_t first = frame / frames * static_cast<std::size_t>(samples) +
                                  frame % frames * static_cast<std::size_t>(step);
        for (std::size_t i = 0; i < taken.size(); ++i) {
          const Complex sample = signal.at(first + i);
          taken[i] = {sample.real * window[i], sample.imaginary * window[i]};
        }
        transforms.run(taken, to);
        for (std::size_t k = 0; k < transforms.made(); ++k) {
          const std::size_t at = (frame * transforms.made() + k) * 2;
          put(made, at, to[k].real);
          put(made, at + 1, to[k].imaginary);
        }
      }
    });
  };
}

/// A window a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N); N is one less where the window is symmetric.
template <int kOver, int kA0, int kA1, int kA2>
Kernel window(const NodeFacts& facts) {
  const auto type = graph::element_type_of(facts.int_or("output_datatype", 1));
  if (!type || (carrier_of(*type) != Carrier::kFloat && carrier_of(*type) != Carrier::kDouble))
    facts.fail("output_datatype is no float's");
  const bool is_periodic = facts.int_or("periodic", 1) != 0;
  return [type = *type, is_periodic](Call& call) {
    const std::int64_t size = one_integer(call, 0, "size");
    if (size < 0) call.fail("expected a size of 0 or more, found " + std::to_string(size));
    Array& made = call.make(0, type, {size});
    const auto count = static_cast<std::uint64_t>(size), period = is_periodic ? count : count - 1;
    const double over = kOver;
    for (std::uint64_t i = 0; i < count; ++i) {
      const double once = period == 0 ? 1 : exact::turn_of(i % period, period).cosine,
                   twice = period == 0 ? 1 : exact::turn_of(2 * i % period, period).cosine;
      put(made, i, count == 1 ? 1 : kA0 / over - once * (kA1 / over) + twice * (kA2 / over));
    }
  };
}

}  // namespace

std::span<const OperatorRow> signal_operators() {
  static constexpr OperatorRow kRows[] = {
      {"DFT", dft},
      {"STFT", stft},
      {"HannWindow", window<2, 1, 1, 0>},
      {"HammingWindow", window<46, 25, 21, 0>},
      {"BlackmanWindow", window<100, 42, 50, 8>},
  };
  return kRows;
}

}  // namespace crumb::runtime
