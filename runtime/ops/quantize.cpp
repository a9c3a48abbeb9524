// QuantizeLinear to integers and DequantizeLinear: with scales for the whole tensor, along an axis, or for
// blocks of it.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>

#include "base/threads/parallel.h"
#include "graph/not_finite.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kScaledAtATime = std::size_t{1} << 14;  // which are worth a thread

/// Which scale each element of an array has: runs of elements share one.
struct ScaleIndex {
  std::size_t inner = 1, along = 1,
              block = 1;  ///< elements of one index step of the axis; sizes of axis and blocks
  bool one = true, in_blocks = false;

  std::size_t operator()(std::size_t i) const {
    if (one) return 0;
    const std::size_t place = i / inner % along, outer = i / inner / along;
    const std::size_t blocks = (along + block - 1) / block;
    return in_blocks ? (outer * blocks + place / block) * inner + i % inner : place;
  }
};

ScaleIndex index_of(const Call& call, const Array& x, const Array& scale, std::int64_t requested,
                    std::int64_t block) {
  ScaleIndex index;
  if (scale.size() == 1 && block == 0) return index;
  const auto axis = static_cast<std::size_t>(call.usual_axis(requested, x.rank()));
  index.one = false;
  index.inner = static_cast<std::size_t>(product_of(x.shape(), axis + 1, x.shape().size()));
  index.along = static_cast<std::size_t>(x.shape()[axis]);
  index.in_blocks = block > 0;
  index.block = static_cast<std::size_t>(std::max<std::int64_t>(block, 1));
  Ints expected{x.shape()[axis]};
  if (block != 0) {
    expected = x.shape();
    expected[axis] = (expected[axis] + block - 1) / block;
  }
  if (block < 0 || scale.shape() != expected)
    call.fail("its scale is " + text_of(scale) + ", expected " + graph::text_of(expected));
  return index;
}

constexpr std::size_t kBlock = 512;  // elements that are floats at a time

/// Calls f(first, count) for blocks that cover so many elements; several threads may call it.
void for_blocks(const Call& call, std::size_t count, const std::function<void(std::size_t, std::size_t)>& f) {
  parallel_for(count, kScaledAtATime, call.threads(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; at += kBlock) f(at, std::min(kBlock, end - at));
  });
}

/// The nearest integer, ties to even, for numbers up to kFar. For larger numbers and NaN, a number that
/// clamping to any type's bounds treats alike.
float nearest(float x) {
  constexpr float kFar = 0x1p20F, kMagic = 0x1.8p23F;
  x = x > -kFar ? x : -kFar;
  x = x < kFar ? x : kFar;
  return (x + kMagic) - kMagic;
}

/// The numbers of a zero point; a 0 for each scale where the node has no zero point.
std::vector<float> zeros_of(const Call& call, const Array& scale) {
  if (!call.has(2)) return std::vector<float>(scale.size(), 0.0F);
  if (call.in(2).size() != scale.size())
    call.fail("its zero point is " + text_of(call.in(2)) + ", and its scale " + text_of(scale));
  std::vector<float> zeros(scale.size());
  with_carrier(call.in(2).carrier(), [&]<class T>() {
    const auto values = call.in(2).values<T>();
    std::ranges::transform(values, zeros.begin(), [](T value) { return static_cast<float>(value); });
  });
  return zeros;
}

/// The types that values are quantized to.
bool is_stored_type(ElementType type) { return graph::is_integer(type) && graph::info(type).bits <= 16; }

struct Bounds {
  float low, high;
};
Bounds bounds_of(ElementType type) {
  const auto bits = static_cast<int>(graph::info(type).bits);
  const bool is_signed = graph::info(type).kind == graph::ElementKind::kSigned;
  return {is_signed ? -std::ldexp(1.0F, bits - 1) : 0.0F, std::ldexp(1.0F, is_signed ? bits - 1 : bits) - 1};
}

/// Nearest, ties to even, then the zero point, then clamped; NaN gives the least.
Kernel quantize_linear(const NodeFacts& facts) {
  const std::int64_t axis = facts.int_or("axis", 1), block = facts.int_or("block_size", 0);
  const auto wanted = graph::element_type_of(facts.int_or("output_dtype", 0));
  const ElementType stated = facts.node.has_input(2) ? facts.type(2) : wanted.value_or(ElementType::kUint8);
  if (stated != ElementType::kUnknown && !is_stored_type(stated))
    facts.fail("to " + std::string(graph::name_of(stated)) + " is not there");
  return [=](Call& call) {
    const Array &x = call.in(0), &scale = call.in(1);
    const ElementType type = call.has(2) ? call.in(2).type() : wanted.value_or(ElementType::kUint8);
    if (!is_stored_type(type)) call.fail("cannot quantize to " + std::string(graph::name_of(type)));
    const ScaleIndex index = index_of(call, x, scale, axis, block);
    const std::vector<float> zeros = zeros_of(call, scale);
    const auto values = call.floats(0), scales = call.floats(1);
    const Bounds bounds = bounds_of(type);
    Array& made = call.make(0, type, x.shape());
    std::atomic<std::uint64_t> beyond{0};
    for_blocks(call, made.size(), [&](std::size_t first, std::size_t count) {
      if (!graph::all_finite(values.subspan(first, count)))
        beyond += graph::count_not_finite(values.subspan(first, count));
      float codes[kBlock];
      const auto code = [&](std::size_t i, std::size_t at) {
        float q = nearest(values[i] / scales[at]) + zeros[at];
        q = q > bounds.low ? q : bounds.low;
        return q < bounds.high ? q : bounds.high;
      };
      if (index.one) {
        for (std::size_t i = 0; i < count; ++i) codes[i] = code(first + i, 0);
      } else {
        for (std::size_t i = 0; i < count; ++i) codes[i] = code(first + i, index(first + i));
      }
      with_carrier(made.carrier(), [&]<class T>() {
        T* const to = made.writable<T>().data() + first;
        for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(codes[i]);
      });
    });
    graph::note_not_finite(call.node(), beyond);
  };
}

Kernel dequantize_linear(const NodeFacts& facts) {
  const std::int64_t axis = facts.int_or("axis", 1), block = facts.int_or("block_size", 0);
  return [=](Call& call) {
    const Array &x = call.in(0), &scale = call.in(1);
    const ScaleIndex index = index_of(call, x, scale, axis, block);
    const std::vector<float> zeros = zeros_of(call, scale);
    const auto scales = call.floats(1);
    const ElementType type = scale.type();
    const auto made = call.make(0, type, x.shape()).writable<float>();
    for_blocks(call, made.size(), [&](std::size_t first, std::size_t count) {
      const auto to = made.subspan(first, count);
      with_carrier(x.carrier(), [&]<class T>() {
        const T* const from = x.values<T>().data() + first;
        for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
      });
      if (index.one) {
        for (float& v : to) v = (v - zeros[0]) * scales[0];
      } else {
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t at = index(first + i);
          to[i] = (to[i] - zeros[at]) * scales[at];
        }
      }
    });
  };
}

}  // namespace

std::span<const OperatorRow> quantize_operators() {
  static constexpr OperatorRow kRows[] = {{"QuantizeLinear", quantize_linear, Takes::kFloats},
                                          {"DequantizeLinear", dequantize_linear}};
  return kRows;
}

}  // namespace crumb::runtime
