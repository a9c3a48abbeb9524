// Einsum of one or two operands: sums of products over the labels that the output has not, by exact/products.h, in the
// order in which those labels appear.
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

/// An operand's elements at places of labels; an axis of size 1 is there at every place.
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

/// The operand with the labels as its axes, row by row.
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
  for_places(shape, steps, 0, [&](std::int64_t at) { made.push_back(operand.data[at]); });
  return made;
}

std::size_t product(const Sizes& group) {
  return static_cast<std::size_t>(product_of(group.sizes, 0, group.sizes.size()));
}

void sum_products(Call& call, const Equation& equation) {
  std::vector<Operand> operands;
  std::map<char, std::int64_t> sizes;
  Labels order;  // in which they appear
  std::size_t dots = 0;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    const std::string& word = equation.inputs[i];
    const Ints& shape = call.in(i).shape();
    const bool has_dots = word.find("...") != std::string::npos;
    const std::size_t letters = word.size() - (has_dots ? 3 : 0);
    const bool fits =
        has_dots ? letters <= shape.size() && shape.size() - letters < 'A' : letters == shape.size();
    if (!fits) call.fail("its input " + text_of(call.in(i)) + " is not " + word);
    const std::size_t axes = shape.size() - letters;
    if (has_dots) dots = std::max(dots, axes);
    Operand& operand = operands.emplace_back();
    operand.data = call.floats(i).data();
    operand.labels = labels_of(word, axes);
    const Ints steps = strides_of(shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const char label = operand.labels[axis];
      if (order.find(label) == std::string::npos) order += label;
      std::int64_t& size = sizes.try_emplace(label, 1).first->second;
      if (shape[axis] != 1 && size != 1 && size != shape[axis])
        call.fail("its inputs do not agree: " + std::to_string(size) + " and " + std::to_string(shape[axis]));
      if (shape[axis] != 1) size = shape[axis];
      operand.steps[label] +=
          shape[axis] == 1 ? 0 : steps[axis];  // a label that is there twice: the diagonal
    }
  }
  Labels output = labels_of(equation.output, dots);
  if (!equation.has_output) {  // what is there once, in the order of the alphabet
    for (const char label : order) {
      std::ptrdiff_t count = 0;
      for (const Operand& operand : operands) count += std::ranges::count(operand.labels, label);
      if (count == 1 || label < 'A') output += label;
    }
    std::ranges::sort(output, [](char a, char b) { return a < 'A' && b < 'A' ? a > b : a < b; });
  }
  Sizes batch, rows, columns, terms;
  const auto add = [&](Sizes& to, char label) {
    to.labels += label;
    to.sizes.push_back(sizes.at(label));
  };
  for (const char label : output) {
    if (!sizes.contains(label) || std::ranges::count(output, label) > 1)
      call.fail("its output has a label that is in no input, or one twice");
    const bool in_first = operands[0].has(label), in_second = operands.size() > 1 && operands[1].has(label);
    add(in_first && in_second ? batch : in_first ? rows : columns, label);
  }
  for (const char label : order) {
    if (output.find(label) == std::string::npos) add(terms, label);
  }
  const std::vector<float> x = gathered(call, operands[0], {&batch, &rows, &terms});
  const float one = 1;
  const Operand ones{.labels = {}, .steps = {}, .data = &one};
  const std::vector<float> w =
      gathered(call, operands.size() > 1 ? operands[1] : ones, {&batch, &columns, &terms});
  Ints shape, made_shape;
  for (const Sizes* group : {&batch, &rows, &columns})
    made_shape.insert(made_shape.end(), group->sizes.begin(), group->sizes.end());
  const Labels made_labels = batch.labels + rows.labels + columns.labels;
  const Ints made_steps = strides_of(made_shape);
  Ints steps;
  for (const char label : output) {
    shape.push_back(sizes.at(label));
    steps.push_back(made_steps[made_labels.find(label)]);
  }
  const std::size_t b = product(batch), m = product(rows), n = product(columns), k = product(terms);
  call.spend({b, m, n, k});
  Array made(ElementType::kFloat, made_shape);
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
  float* to = call.make(0, call.in(0).type(), shape).writable<float>().data();
  for_places(shape, steps, 0, [&](std::int64_t at) { *to++ = y[at]; });
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
