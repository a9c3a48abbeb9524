// Matrix products and contractions in registers: which rows of inputs meet which rows of a weight.
#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "analysis/accumulator/register_call.h"

namespace crumb::analysis {
namespace {

std::size_t unsigned_of(std::int64_t size) { return static_cast<std::size_t>(size); }

Sizes joined(Sizes shape, const Sizes& more) {
  shape.insert(shape.end(), more.begin(), more.end());
  return shape;
}

/// The axes before the last two.
Sizes stack_of(const Sizes& shape) {
  return {shape.begin(), shape.end() - std::min<std::ptrdiff_t>(2, std::ssize(shape))};
}

/// By a constant weight, the matrices of a batch one after the other.
RegisterSums by_constant(const RegisterCall& call, Integers x, bool is_transposed) {
  SimulatedLayer& layer = call.layer;
  const Sizes& w = layer.weight_shape();
  const bool first = layer.weight_first(), vector = x.rank() == 1;
  if (x.rank() == 0 || w.empty()) call.fail("cannot multiply numbers without axes");
  if (vector) x.shape.insert(first ? x.shape.end() : x.shape.begin(), 1);
  if (is_transposed != first) x = transposed(x);
  if (x.from_end(1) != static_cast<std::int64_t>(layer.length())) {
    call.fail("rows of " + std::to_string(x.from_end(1)) + " inputs do not fit rows of " +
              std::to_string(layer.length()) + " terms");
  }
  const Sizes stack = stack_of(w), batch = broadcast_shape(stack_of(x.shape), stack);
  const std::int64_t channels = w.size() == 1 ? 1 : first ? w[w.size() - 2] : w.back();
  x = spread(x, joined(batch, {x.from_end(2), x.from_end(1)}));
  RegisterSums made{{joined(batch, {x.from_end(2), channels}), {}}, {joined(batch, {1, channels}), {}}};
  std::vector<std::int64_t>& sums = made.sums.values;
  sums.resize(elements_of(made.sums.shape));
  // Which of the weight's matrices each of the batch meets.
  const std::vector<std::int64_t> which = spread(counted(stack), batch).values;
  const std::size_t count = unsigned_of(channels);
  if (elements_of(stack) == 1) {
    layer.multiply(x.values, 0, count, sums, call.threads);
  } else {
    for (std::size_t i = 0; i < which.size(); ++i) {
      const std::size_t a = x.values.size() / which.size(), b = sums.size() / which.size();
      layer.multiply(std::span(x.values).subspan(i * a, a), unsigned_of(which[i]) * count, count,
                     std::span(sums).subspan(i * b, b), call.threads);
    }
  }
  for (const std::int64_t matrix : which) {
    const auto scales = std::span(layer.result_scale()).subspan(unsigned_of(matrix) * count, count);
    made.scale.values.insert(made.scale.values.end(), scales.begin(), scales.end());
  }
  const auto as_result = [&](auto y) {
    if (first) y = transposed(y);
    if (w.size() == 1) y = without_axis(std::move(y), first ? 2 : 1);
    if (vector) y = without_axis(std::move(y), first || w.size() == 1 ? 1 : 2);
    return y;
  };
  return {as_result(std::move(made.sums)), as_result(std::move(made.scale))};
}

/// One matrix by another: rows of x by rows of w, both of so many terms, into [rows of x, rows of w].
struct OneProduct {
  std::span<const std::int64_t> x, w;
  std::size_t terms, channels;
  std::span<std::int64_t> sums;
};

/// a by b as MatMul multiplies them, matrix by matrix.
Integers by_matrices(const RegisterCall& call, Integers a, Integers b,
                     const std::function<void(const OneProduct& product)>& multiply) {
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (a.rank() == 0 || b.rank() == 0) call.fail("cannot multiply numbers without axes");
  if (row) a.shape.insert(a.shape.begin(), 1);
  if (column) b.shape.push_back(1);
  if (a.from_end(1) != b.from_end(2)) {
    call.fail("matrices with rows of " + std::to_string(a.from_end(1)) + " and columns of " +
              std::to_string(b.from_end(2)) + " numbers cannot be multiplied");
  }
  const std::int64_t rows = a.from_end(2), terms = a.from_end(1), channels = b.from_end(1);
  const Sizes batch = broadcast_shape(stack_of(a.shape), stack_of(b.shape));
  a = spread(a, joined(batch, {rows, terms}));
  b = spread(transposed(b), joined(batch, {channels, terms}));
  Integers made{joined(batch, {rows, channels}), {}};
  made.values.resize(elements_of(made.shape));
  const std::size_t left = unsigned_of(rows * terms), right = unsigned_of(channels * terms),
                    results = unsigned_of(rows * channels);
  for (std::size_t i = 0; i < elements_of(batch); ++i) {
    multiply({std::span(a.values).subspan(i * left, left), std::span(b.values).subspan(i * right, right),
              unsigned_of(terms), unsigned_of(channels),
              std::span(made.values).subspan(i * results, results)});
  }
  if (column) made = without_axis(std::move(made), 1);
  if (row) made = without_axis(std::move(made), column ? 1 : 2);
  return made;
}

/// Codes of a weight that is computed, of so many rows.
void set_rows(SimulatedLayer& layer, std::vector<std::int64_t> codes, std::size_t terms, std::size_t rows) {
  layer.set_codes(std::move(codes), {static_cast<std::int64_t>(terms), static_cast<std::int64_t>(rows)});
}

Integers by_computed(const RegisterCall& call, Integers a, Integers b) {
  return by_matrices(call, std::move(a), std::move(b), [&](const OneProduct& product) {
    set_rows(call.layer, {product.w.begin(), product.w.end()}, product.terms, product.channels);
    call.layer.multiply(product.x, 0, product.channels, product.sums, call.threads);
  });
}

/// Terms that are whether two bits are the same; each channel has its own.
Integers by_matches(const RegisterCall& call) {
  const Integers a = call.codes_of(0, false), b = call.codes_of(1, true);
  const auto is_bit = [](std::int64_t code) { return code == 0 || code == 1; };
  if (!std::ranges::all_of(a.values, is_bit) || !std::ranges::all_of(b.values, is_bit))
    call.fail("takes bits, 0 and 1, found other numbers");
  return by_matrices(call, a, b, [&](const OneProduct& product) {
    const std::size_t terms = product.terms, channels = product.channels;
    if (call.layer.has_computed_weight())
      set_rows(call.layer, std::vector<std::int64_t>(product.w.size(), 1), terms, channels);
    std::vector<std::int64_t> matches(product.x.size()),
        column(channels == 0 ? 0 : product.sums.size() / channels);
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t i = 0; i < matches.size(); ++i)
        matches[i] = product.x[i] == product.w[c * terms + i % terms] ? 1 : 0;
      call.layer.multiply(matches, c, 1, column, call.threads);
      for (std::size_t r = 0; r < column.size(); ++r) product.sums[r * channels + c] = column[r];
    }
  });
}

/// Axes of labels, in the order that is wanted; what is not there is new, and sizes of 1 spread.
template <class T>
LaidOut<T> arranged(LaidOut<T> x, std::string labels, const std::string& wanted,
                    const std::map<char, std::int64_t>& sizes) {
  Sizes order, shape;
  for (const char label : wanted) {
    if (labels.find(label) == std::string::npos) {
      x.shape.push_back(1);
      labels += label;
    }
  }
  for (const char label : wanted) {
    order.push_back(static_cast<std::int64_t>(labels.find(label)));
    shape.push_back(sizes.at(label));
  }
  return spread(permuted(x, order), shape);
}

}  // namespace

RegisterSums multiply_in_registers(const RegisterCall& call) {
  const auto is_transposed = [&](std::size_t operand) {
    return call.node.is("Gemm") && call.node.int_or(operand == 0 ? "transA" : "transB", 0) != 0;
  };
  if (call.rule().matches) return {by_matches(call), {{}, {1.0}}};
  if (!call.layer.has_computed_weight())
    return by_constant(call, call.codes_of(call.input_at(), false), is_transposed(call.input_at()));
  const auto straight = [&](std::size_t operand, bool is_weight) {
    Integers x = call.codes_of(operand, is_weight);
    return is_transposed(operand) && x.rank() >= 2 ? transposed(x) : x;
  };
  return {by_computed(call, straight(0, false), straight(1, true)), one_scale_of(call.layer)};
}

/// For each row of the weight (its labels that are not summed over), a matrix by a vector.
RegisterSums contract_in_registers(const RegisterCall& call) {
  SimulatedLayer& layer = call.layer;
  const Contraction equation = contraction_of(call.node).take(graph::text_of(call.node));
  const std::size_t at = call.input_at();
  const std::string &x_labels = at == 0 ? equation.a : equation.b,
                    &w_labels = at == 0 ? equation.b : equation.a;
  const Integers x = call.codes_of(at, false);
  const Sizes& weight = call.in(call.place_of(1 - at)).shape();
  std::map<char, std::int64_t> sizes, own;  // of both operands; of the weight
  const auto note_sizes = [&](const std::string& labels, const Sizes& shape) {
    if (labels.size() != shape.size()) call.fail("its equation does not fit its operands");
    for (std::size_t i = 0; i < shape.size(); ++i) sizes[labels[i]] = std::max(sizes[labels[i]], shape[i]);
  };
  note_sizes(x_labels, x.shape);
  note_sizes(w_labels, weight);
  std::string kept, summed;  // of the weight
  Sizes rows;
  own = sizes;
  for (std::size_t i = 0; i < w_labels.size(); ++i) {
    own[w_labels[i]] = weight[i];
    const bool is_summed = equation.summed.find(w_labels[i]) != std::string::npos;
    (is_summed ? summed : kept) += w_labels[i];
    if (!is_summed) rows.push_back(weight[i]);
  }
  std::string free;  // of the input alone
  for (const char label : x_labels) {
    if (w_labels.find(label) == std::string::npos) free += label;
  }
  const std::size_t terms = layer.length();
  if (layer.has_computed_weight()) {
    set_rows(layer, arranged(call.codes_of(1 - at, true), w_labels, kept + summed, own).values, terms,
             elements_of(rows));
  }
  // The input's matrices for each row of the weight: a batch label of both picks one.
  const Integers inputs = arranged(x, x_labels, kept + free + summed, sizes);
  Sizes places, shape;
  for (const char label : kept) places.push_back(sizes.at(label));
  shape = places;
  for (const char label : free) shape.push_back(sizes.at(label));
  const std::vector<std::int64_t> which = spread(counted(rows), places).values;
  RegisterSums made{{shape, {}}, {shape, {}}};
  made.sums.values.resize(elements_of(shape));
  const std::size_t of_free = which.empty() ? 0 : made.sums.values.size() / which.size();
  if (inputs.values.size() != which.size() * of_free * terms)
    call.fail("sums of " + std::to_string(terms) + " terms do not fit its operands");
  for (std::size_t i = 0; i < which.size(); ++i) {
    layer.multiply(std::span(inputs.values).subspan(i * of_free * terms, of_free * terms),
                   unsigned_of(which[i]), 1, std::span(made.sums.values).subspan(i * of_free, of_free),
                   call.threads);
    const double scale = layer.has_computed_weight() ? one_scale_of(layer).values[0]
                                                     : layer.result_scale()[unsigned_of(which[i])];
    made.scale.values.insert(made.scale.values.end(), of_free, scale);
  }
  return {arranged(std::move(made.sums), kept + free, equation.out, sizes),
          arranged(std::move(made.scale), kept + free, equation.out, sizes)};
}

}  // namespace crumb::analysis
