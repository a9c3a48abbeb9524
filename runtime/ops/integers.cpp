// Quantizers to codes and back, and matrix products of codes and integer weights (lower/domain.h).
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/threads/parallel.h"
#include "graph/not_finite.h"
#include "runtime/integer/products.h"
#include "runtime/lower/domain.h"
#include "runtime/ops/code_scale.h"
#include "runtime/ops/families.h"
#include "runtime/ops/integer_bytes.h"
#include "runtime/ops/integer_sums.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kCodesAtATime = std::size_t{1} << 14;  // which are worth a thread

Kernel codes(const NodeFacts& facts) {
  const ElementType type = codes_type(facts.node);
  if (!is_byte(type)) facts.fail("its codes have no type of eight bits");
  return [type, by = code_scale_of(facts.node)](Call& call) {
    const auto x = call.floats(0);
    Array& made = call.make(0, type, call.in(0).shape());
    auto* const to = reinterpret_cast<std::uint8_t*>(made.writable_data());
    std::atomic<std::uint64_t> beyond{0};
    parallel_for(x.size(), kCodesAtATime, call.threads(), [&](std::size_t begin, std::size_t end) {
      if (!integer::codes_of(by, x.data() + begin, end - begin, to + begin))
        beyond += graph::count_not_finite(x.subspan(begin, end - begin));
    });
    graph::note_not_finite(call.node(), beyond);
  };
}

Kernel quantized(const NodeFacts& facts) {
  return [by = code_scale_of(facts.node)](Call& call) {
    const auto x = call.floats(0);
    std::atomic<std::uint64_t> beyond{0};
    const auto to = call.make(0, ElementType::kFloat, call.in(0).shape()).writable<float>();
    parallel_for(x.size(), kCodesAtATime, call.threads(), [&](std::size_t begin, std::size_t end) {
      if (!integer::quantized_of(by, x.data() + begin, end - begin, to.data() + begin))
        beyond += graph::count_not_finite(x.subspan(begin, end - begin));
    });
    graph::note_not_finite(call.node(), beyond);
  };
}

Kernel values(const NodeFacts& facts) {
  return [of_node = code_scale_of(facts.node)](Call& call) {
    const Array& x = call.in(0);
    with_codes(call, x, []<class T>() {});
    integer::CodeScale by = of_node;
    by.is_signed = x.carrier() == Carrier::kInt8;
    const auto to = call.make(0, ElementType::kFloat, x.shape()).writable<float>();
    const auto* const from = reinterpret_cast<const std::uint8_t*>(x.data());
    parallel_for(to.size(), kCodesAtATime, call.threads(), [&](std::size_t begin, std::size_t end) {
      integer::values_of(by, from + begin, end - begin, to.data() + begin);
    });
  };
}

/// Rows of weights, filled up with zeros.
std::vector<std::int16_t> padded_rows(const std::int16_t* w, std::size_t rows, std::size_t terms) {
  const std::size_t width = integer::padded(terms);
  std::vector<std::int16_t> made(rows * width, 0);
  for (std::size_t r = 0; r < rows; ++r) std::copy_n(w + r * terms, terms, made.data() + r * width);
  return made;
}

Kernel integer_mat_mul(const NodeFacts& facts) {
  const Array* w = facts.constant(1);
  if (!w) facts.fail("its weights are computed");
  if (w->type() == ElementType::kInt8) return byte_mat_mul(facts);
  if (w->type() != ElementType::kInt16 || w->rank() != 2) facts.fail("cannot take weights " + text_of(*w));
  const auto outputs = static_cast<std::size_t>(w->dim(0)), terms = static_cast<std::size_t>(w->dim(1));
  return [=, zero = static_cast<int>(facts.int_or("zero", 0)), finish = Finish::of(facts, outputs),
          weights = padded_rows(w->values<std::int16_t>().data(), outputs, terms)](Call& call) {
    const Array x = call.in(0);
    if (x.rank() < 1 || x.dim(x.rank() - 1) != static_cast<std::int64_t>(terms))
      call.fail("cannot multiply " + text_of(x) + " by rows of " + std::to_string(terms));
    Ints shape = x.shape();
    shape.back() = static_cast<std::int64_t>(outputs);
    Array& made = call.make(0, finish.type(), shape);
    const std::size_t rows = terms == 0 ? made.size() / std::max<std::size_t>(outputs, 1) : x.size() / terms;
    if (made.size() == 0) return;
    call.spend({rows, outputs, terms});
    const std::size_t width = integer::padded(terms), pieces = (rows + kRowsAtATime - 1) / kRowsAtATime;
    parallel_for(
        pieces, 1, threads_for(call, rows * outputs * terms), [&](std::size_t begin, std::size_t end) {
          std::vector<std::int16_t> levels(kRowsAtATime * width, 0);
          std::vector<std::int32_t> sums(outputs * kRowsAtATime);
          for (std::size_t piece = begin; piece < end; ++piece) {
            const std::size_t first = piece * kRowsAtATime, count = std::min(rows - first, kRowsAtATime);
            with_codes(call, x, [&]<class T>() {
              const T* const from = x.values<T>().data() + first * terms;
              for (std::size_t r = 0; r < count; ++r) {
                for (std::size_t k = 0; k < terms; ++k)
                  levels[r * width + k] = static_cast<std::int16_t>(from[r * terms + k] - zero);
              }
            });
            integer::multiply({outputs, count, width, weights.data(), levels.data(), sums.data(), outputs});
            for (std::size_t r = 0; r < count; ++r) {
              finish.put(integer::Channels::kEach, 0, std::span(sums).subspan(r * outputs, outputs), made,
                         (first + r) * outputs);
            }
          }
        });
  };
}

}  // namespace

std::span<const OperatorRow> integer_operators() {
  static constexpr OperatorRow kRows[] = {
      {"Codes", codes, Takes::kFloats, kRuntimeDomain},
      {"Quantized", quantized, Takes::kFloats, kRuntimeDomain},
      {"Values", values, Takes::kAll, kRuntimeDomain},
      {"MatMul", integer_mat_mul, Takes::kAll, kRuntimeDomain},
      {"Products", code_products, Takes::kAll, kRuntimeDomain},
  };
  return kRows;
}

}  // namespace crumb::runtime
