// Einsum of one or two operands: sums of products over the labels that the output does not have, by
// exact/products.h, in the order in which those labels appear.
#include <algorithm>
#include <map>

#include "base/checked_size.h"
#include "runtime/exact/products.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

/// Labels are letters; the axes of an ellipsis are characters from 1 on, the last axis the lowest.
using Labels = std::string;

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  bool has_output = false;
};

Equation equation_of(const NodeFacts& facts) {
  std::string text = facts.text_or("equation", "");
  std::erase(text, ' ');
  Equation made;
  const std::size_t arrow = text.find("->");
  made.has_output = arrow != std::string::npos;
  if (made.has_output) made.output = text.substr(arrow + 2);
  std::string left = text.substr(0, arrow);
  for (std::size_t at = 0; at != std::string::npos;) {
    const std::size_t comma = left.find(',', at);
    made.inputs.push_back(left.substr(at, comma == std::string::npos ? comma : comma - at));
    at = comma == std::string::npos ? comma : comma + 1;
  }
  if (made.inputs.size() > 2 || made.inputs.size() != facts.node.inputs.size())
    facts.fail("sums of " + std::to_string(made.inputs.size()) + " operands are not there");
  for (std::string word : {made.inputs.front(), made.inputs.back(), made.output}) {
    const std::size_t dots = word.find("...");
    if (dots != std::string::npos) word.erase(dots, 3);
    const bool plain =
        std::ranges::all_of(word, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
    if (!plain) facts.fail("its equation " + text + " is none");
  }
  return made;
}

/// Each axis' label. `axes` are those that an ellipsis stands for.
Labels labels_of(const std::string& word, std::size_t axes) {
  const std::size_t dots = word.find("...");
  if (dots == std::string::npos) return word;
  Labels made = word.substr(0, dots);
  for (std::size_t i = axes; i > 0; --i) made += static_cast<char>(i);
  return made + word.substr(dots + 3);
}

/// An operand's elements by the indices of its labels; an axis of size 1 broadcasts.
struct Operand {
  Labels labels;
  std::map<char, std::int64_t> steps;
  const float* data = nullptr;

  bool has(char label) const { return steps.contains(label); }
};

struct Sizes {
  Labels labels;
  Ints sizes;
};

/// The operand with the labels of these groups as its axes, row-major.
std::vector<float> gathered(const Call& call, const Operand& operand,
                            std::initializer_list<const Sizes*> groups) {
  Ints shape, steps;
  for (const Sizes* group : groups) {
    for (std::size_t i = 0; i < group->labels.size(); ++i) {
      const auto step = operand.steps.find(group->labels[i]);
      shape.push_back(group->sizes[i]);
      steps.push_back(step == operand.steps.end() ? 0 : step->second);
    }
  }
  Array counted(ElementType::kFloat, shape);  // throws where there are too many
  call.spend({counted.size()});
  std::vector<float> made;
  made.reserve(counted.size());
  for_offsets(shape, steps, 0, [&](std::int64_t at) { made.push_back(operand.data[at]); });
  return made;
}

std::size_t product(const Sizes& group) {
  return static_cast<std::size_t>(product_of(group.sizes, 0, group.sizes.size()));
}

/// The operands of an equation, and what their labels mean.
struct Operands {
  std::vector<Operand> all;
  std::map<char, std::int64_t> sizes;
  Labels order;                   ///< in which labels appear
  std::size_t ellipsis_axes = 0;  ///< the most that an operand's ellipsis stands for

  std::ptrdiff_t count(char label) const {
    std::ptrdiff_t found = 0;
    for (const Operand& operand : all) found += std::ranges::count(operand.labels, label);
    return found;
  }
};

/// Adds the axis of an operand to what its label means. A label that one operand has twice walks the
/// diagonal.
void add_axis(const Call& call, char label, std::int64_t size, std::int64_t step, Operands& to) {
  if (to.order.find(label) == std::string::npos) to.order += label;
  std::int64_t& known = to.sizes.try_emplace(label, 1).first->second;
  if (size != 1 && known != 1 && known != size)
    call.fail("its inputs do not agree: " + std::to_string(known) + " and " + std::to_string(size));
  if (size != 1) known = size;
  to.all.back().steps[label] += size == 1 ? 0 : step;
}

Operands operands_of(const Call& call, const Equation& equation) {
  Operands made;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    const std::string& word = equation.inputs[i];
    const Ints& shape = call.in(i).shape();
    const bool has_dots = word.find("...") != std::string::npos;
    const std::size_t letters = word.size() - (has_dots ? 3 : 0);
    const bool fits =
        has_dots ? letters <= shape.size() && shape.size() - letters < 'A' : letters == shape.size();
    if (!fits) call.fail("its input " + text_of(call.in(i)) + " is not " + word);
    const std::size_t axes = shape.size() - letters;
    if (has_dots) made.ellipsis_axes = std::max(made.ellipsis_axes, axes);
    Operand& operand = made.all.emplace_back();
    operand.data = call.floats(i).data();
    operand.labels = labels_of(word, axes);
    const Ints steps = strides_of(shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      add_axis(call, operand.labels[axis], shape[axis], steps[axis], made);
  }
  return made;
}

/// The labels of the output. Where the equation does not say them: those that appear once, in the order of
/// the alphabet, behind those of the ellipsis.
Labels output_of(const Equation& equation, const Operands& operands) {
  Labels output = labels_of(equation.output, operands.ellipsis_axes);
  if (equation.has_output) return output;
  for (const char label : operands.order) {
    if (operands.count(label) == 1 || label < 'A') output += label;
  }
  std::ranges::sort(output, [](char a, char b) { return a < 'A' && b < 'A' ? a > b : a < b; });
  return output;
}

/// Labels by what the product of matrices does with them: those of both operands and the output are `batch`,
/// those of the output and the first `rows`, and the second `columns`; those that the output has not are
/// `terms`.
struct ProductLabels {
  Sizes batch, rows, columns, terms;
};

ProductLabels product_labels(const Call& call, const Operands& operands, const Labels& output) {
  ProductLabels made;
  const auto add = [&](Sizes& to, char label) {
    to.labels += label;
    to.sizes.push_back(operands.sizes.at(label));
  };
  for (const char label : output) {
    if (!operands.sizes.contains(label) || std::ranges::count(output, label) > 1)
      call.fail("its output has a label that is in no input, or one twice");
    const bool in_first = operands.all[0].has(label),
               in_second = operands.all.size() > 1 && operands.all[1].has(label);
    add(in_first && in_second ? made.batch : in_first ? made.rows : made.columns, label);
  }
  for (const char label : operands.order) {
    if (output.find(label) == std::string::npos) add(made.terms, label);
  }
  return made;
}

/// [batch, rows, columns]: the products of x [batch, rows, terms] and w [batch, columns, terms].
Array batched_product(const Call& call, const ProductLabels& by, const std::vector<float>& x,
                      const std::vector<float>& w) {
  Ints shape;
  for (const Sizes* group : {&by.batch, &by.rows, &by.columns})
    shape.insert(shape.end(), group->sizes.begin(), group->sizes.end());
  const std::size_t b = product(by.batch), m = product(by.rows), n = product(by.columns),
                    k = product(by.terms);
  strides_of(shape);  // throws where it has too many elements
  call.spend({b, m, n, k});
  Array made(ElementType::kFloat, shape);
  float* const y = made.writable<float>().data();
  for (std::size_t i = 0; i < b && made.size() > 0; ++i) {
    exact::multiply({.rows = m,
                     .columns = n,
                     .terms = k,
                     .x = x.data() + i * m * k,
                     .x_stride = k,
                     .w = w.data() + i * n * k,
                     .w_stride = k,
                     .y = y + i * m * n,
                     .y_row = n},
                    call.threads());
  }
  return made;
}

void sum_products(Call& call, const Equation& equation) {
  const Operands operands = operands_of(call, equation);
  const Labels output = output_of(equation, operands);
  const ProductLabels by = product_labels(call, operands, output);
  const std::vector<float> x = gathered(call, operands.all[0], {&by.batch, &by.rows, &by.terms});
  const float one = 1;
  const Operand ones{.labels = {}, .steps = {}, .data = &one};
  const std::vector<float> w =
      gathered(call, operands.all.size() > 1 ? operands.all[1] : ones, {&by.batch, &by.columns, &by.terms});
  const Array made = batched_product(call, by, x, w);
  const Labels made_labels = by.batch.labels + by.rows.labels + by.columns.labels;
  const Ints made_steps = strides_of(made.shape());
  Ints shape, steps;
  for (const char label : output) {
    shape.push_back(operands.sizes.at(label));
    steps.push_back(made_steps[made_labels.find(label)]);
  }
  const float* const y = made.values<float>().data();
  float* to = call.make(0, call.in(0).type(), shape).writable<float>().data();
  for_offsets(shape, steps, 0, [&](std::int64_t at) { *to++ = y[at]; });
}

Kernel einsum(const NodeFacts& facts) {
  return [equation = equation_of(facts)](Call& call) { sum_products(call, equation); };
}

}  // namespace

std::span<const OperatorRow> einsum_operators() {
  static constexpr OperatorRow kRows[] = {{"Einsum", einsum, Takes::kFloats}};
  return kRows;
}

}  // namespace crumb::runtime
