// Products of matrices of codes that are both computed, as attention's are (lower/domain.h, Products).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "base/threads/parallel.h"
#include "runtime/integer/byte_products.h"
#include "runtime/integer/byte_weights.h"
#include "runtime/integer/window_bytes.h"
#include "runtime/ops/broadcast.h"
#include "runtime/ops/code_scale.h"
#include "runtime/ops/integer_bytes.h"
#include "runtime/ops/integer_sums.h"

namespace crumb::runtime {
namespace {

using integer::kGroup;
using integer::kLanes;
using integer::kMostVectors;
using integer::kVectorBytes;

constexpr std::size_t kRowsTogether = 32;  // whose sums are there at a time

/// The sizes of a product, and where its parts lie.
struct Shape {
  std::size_t rows = 0, terms = 0, columns = 0;
  std::size_t groups() const { return integer::groups_of(terms); }
  std::size_t width() const { return groups() * kGroup; }
  std::size_t vectors() const { return integer::vectors_of(columns); }
};

/// Memory of one thread for the operands of a product.
struct Packed {
  std::vector<std::uint8_t> rows, vectors, staged;
  std::vector<std::int32_t> starts;
};

class CodeProducts {
 public:
  explicit CodeProducts(const NodeFacts& facts)
      : zero_(static_cast<int>(facts.int_or("zero", 0))),
        other_zero_(static_cast<int>(facts.int_or("other_zero", 0))) {
    const auto least = static_cast<int>(facts.int_or("least", 0)),
               most = static_cast<int>(facts.int_or("most", 255));
    bytes_ = integer::bytes_of(least, most);
    const Array* factor = facts.constant(2);
    if (least > most || bytes_.most > 255 || std::abs(zero_) > kMostZero ||
        std::abs(other_zero_) > kMostZero || !factor || factor->type() != ElementType::kDouble ||
        factor->size() != 1)
      facts.fail("it is no product of codes");
    factor_ = factor->values<double>()[0];
  }

  void run(Call& call) const {
    const Array x = call.in(0), w = call.in(1);
    for (const Array* one : {&x, &w}) with_codes(call, *one, []<class T>() {});
    if (x.rank() < 2 || w.rank() < 2 || x.dim(x.rank() - 1) != w.dim(w.rank() - 2))
      call.fail("cannot multiply " + text_of(x) + " by " + text_of(w));
    const Ints x_outer(x.shape().begin(), x.shape().end() - 2),
        w_outer(w.shape().begin(), w.shape().end() - 2);
    const Ints* outers[] = {&x_outer, &w_outer};
    const Ints outer = broadcast_shape(call, outers);
    Ints made_shape = outer;
    made_shape.push_back(x.dim(x.rank() - 2));
    made_shape.push_back(w.dim(w.rank() - 1));
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    const Shape shape{size(made_shape[outer.size()]), size(w.dim(w.rank() - 2)), size(made_shape.back())};
    const auto out = call.make(0, ElementType::kFloat, made_shape).writable<float>();
    if (out.empty()) return;
    call.spend({out.size(), shape.terms});
    std::vector<std::array<std::size_t, 2>> pairs;
    for_broadcast(outer, outers, [&](std::size_t, const Offsets& at, const Offsets& step, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) pairs.push_back({at[0] + i * step[0], at[1] + i * step[1]});
    });
    const bool is_wide = shape.terms > kMostTerms;
    parallel_for(
        pairs.size(), 1, threads_for(call, out.size() * shape.terms),
        [&](std::size_t begin, std::size_t end) {
          Packed packed;
          for (std::size_t i = begin; i < end; ++i) {
            const auto* const a =
                reinterpret_cast<const std::uint8_t*>(x.data()) + pairs[i][0] * shape.rows * shape.terms;
            const auto* const b =
                reinterpret_cast<const std::uint8_t*>(w.data()) + pairs[i][1] * shape.terms * shape.columns;
            float* const y = out.data() + i * shape.rows * shape.columns;
            if (is_wide) {
              multiply_wide(shape, a, x.carrier() == Carrier::kInt8, b, w.carrier() == Carrier::kInt8, y);
            } else {
              multiply(shape, a, b, packed, y);
            }
          }
        });
  }

 private:
  static constexpr int kMostZero = 255;
  /// Bounds sums of (code - zero) * (code - zero), whose factors are up to 510 and 128.
  static constexpr std::size_t kMostTerms = std::numeric_limits<std::int32_t>::max() / (510 * 128) - 1;

  void multiply(const Shape& shape, const std::uint8_t* a, const std::uint8_t* b, Packed& packed,
                float* y) const {
    pack_columns(shape, b, packed);
    pack_rows(shape, a, packed);
    alignas(64) std::int32_t sums[kRowsTogether * kMostVectors * kLanes];
    constexpr std::size_t kColumns = kMostVectors * kLanes;
    const integer::Way way = integer::way_of_any_bytes(shape.groups());
    for (std::size_t vector = 0; vector < shape.vectors(); vector += kMostVectors) {
      const std::size_t column = vector * kLanes, columns = std::min(kColumns, shape.columns - column);
      for (std::size_t first = 0; first < shape.rows; first += kRowsTogether) {
        const std::size_t count = std::min(kRowsTogether, shape.rows - first);
        integer::multiply_bytes(
            way, integer::InVectors::kWeights,
            {.rows = count,
             .vectors = std::min(kMostVectors, shape.vectors() - vector),
             .groups = shape.groups(),
             .row = reinterpret_cast<const std::byte*>(packed.rows.data() + first * shape.width()),
             .row_stride = shape.width(),
             .vector = reinterpret_cast<const std::byte*>(packed.vectors.data() +
                                                          vector * shape.groups() * kVectorBytes),
             .start = packed.starts.data() + column,
             .y = sums,
             .y_stride = kColumns});
        constexpr double kNothing = 0;
        for (std::size_t r = 0; r < count; ++r) {
          integer::floats_of(integer::Channels::kOne, &factor_, &kNothing, sums + r * kColumns, columns,
                             y + (first + r) * shape.columns + column);
        }
      }
    }
  }

  /// Codes less the offset, so that none is negative, in rows of whole groups.
  void pack_rows(const Shape& shape, const std::uint8_t* a, Packed& packed) const {
    packed.rows.assign(shape.rows * shape.width(), 0);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      for (std::size_t k = 0; k < shape.terms; ++k)
        packed.rows[r * shape.width() + k] =
            static_cast<std::uint8_t>(a[r * shape.terms + k] - bytes_.offset);
    }
  }

  /// Codes less their zero point, in vectors, and what the sums begin with.
  void pack_columns(const Shape& shape, const std::uint8_t* b, Packed& packed) const {
    const std::size_t whole = shape.vectors() * kLanes;
    packed.vectors.resize(shape.vectors() * shape.groups() * kVectorBytes);
    packed.staged.resize(kGroup * whole);
    packed.starts.assign(whole, 0);
    for (std::size_t g = 0; g < shape.groups(); ++g) {
      std::ranges::fill(packed.staged, std::uint8_t{0});
      for (std::size_t i = 0; i < kGroup && g * kGroup + i < shape.terms; ++i) {
        const std::uint8_t* const from = b + (g * kGroup + i) * shape.columns;
        std::uint8_t* const to = packed.staged.data() + i * whole;
        for (std::size_t c = 0; c < shape.columns; ++c) {
          to[c] = static_cast<std::uint8_t>(from[c] - other_zero_);
          packed.starts[c] += static_cast<std::int8_t>(to[c]);
        }
      }
      for (std::size_t v = 0; v < shape.vectors(); v += kMostVectors) {
        const std::uint8_t* rows[kGroup];
        for (std::size_t i = 0; i < kGroup; ++i) rows[i] = packed.staged.data() + i * whole + v * kLanes;
        integer::interleave(rows, std::min(kMostVectors, shape.vectors() - v),
                            packed.vectors.data() + (v * shape.groups() + g) * kVectorBytes,
                            shape.groups() * kVectorBytes);
      }
    }
    for (std::int32_t& start : packed.starts) start *= bytes_.offset - zero_;
  }

  /// By the definition, where 32 bits may not hold a sum.
  void multiply_wide(const Shape& shape, const std::uint8_t* a, bool a_is_signed, const std::uint8_t* b,
                     bool b_is_signed, float* y) const {
    const auto code = [](std::uint8_t byte, bool is_signed) -> int {
      return is_signed ? static_cast<std::int8_t>(byte) : byte;
    };
    for (std::size_t r = 0; r < shape.rows; ++r) {
      for (std::size_t c = 0; c < shape.columns; ++c) {
        std::int64_t sum = 0;
        for (std::size_t k = 0; k < shape.terms; ++k) {
          sum += std::int64_t{code(a[r * shape.terms + k], a_is_signed) - zero_} *
                 (code(b[k * shape.columns + c], b_is_signed) - other_zero_);
        }
        y[r * shape.columns + c] = static_cast<float>(static_cast<double>(sum) * factor_);
      }
    }
  }

  int zero_, other_zero_;
  integer::Bytes bytes_;
  double factor_ = 1;
};

}  // namespace

Kernel code_products(const NodeFacts& facts) {
  return [product = CodeProducts(facts)](Call& call) { product.run(call); };
}

}  // namespace crumb::runtime
