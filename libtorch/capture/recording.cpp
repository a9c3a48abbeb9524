#include "libtorch/capture/recording.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::libtorch {
namespace {

namespace jit = torch::jit;
using Tensors = std::vector<at::Tensor>;

std::shared_ptr<jit::Graph> record(const Recording::Forward& forward, const Tensors& inputs,
                                   const std::vector<NamedState>& states) {
  const at::AutoGradMode gradients(true);  // without, fused inference operators would run
  const jit::tracer::NoWarn no_warnings;
  jit::Stack stack(inputs.begin(), inputs.end());
  const auto run = [&](const jit::Stack& given) {
    const auto& state = jit::tracer::getTracingState();
    for (const NamedState& one : states) {
      jit::Value* value = state->graph->addInput();
      value->inferTypeFrom(one.tensor);
      state->setValue(one.tensor, value);
    }
    Tensors x;
    for (const c10::IValue& value : given) x.push_back(value.toTensor());
    const Tensors outputs = forward(x);
    if (outputs.empty()) throw Error("the module gives no tensor");
    return jit::Stack(outputs.begin(), outputs.end());
  };
  try {
    const auto names = [](const at::Tensor&) { return std::string(); };
    return jit::tracer::trace(std::move(stack), run, names, true, false).first->graph;
  } catch (const c10::Error& error) {
    constexpr std::size_t kMost = 300;  // LibTorch may print a tensor
    std::string why = error.what_without_backtrace();
    if (why.size() > kMost) why = why.substr(0, kMost) + " ...";
    throw Error("the module cannot be recorded: " + why);
  }
}

[[noreturn]] void refuse_twins(const jit::Node* node, const std::string& found) {
  throw Error(
      "the module runs other operators for another batch size: " + std::string(node->kind().toQualString()) +
      " at one, " + found + " at the other; record it for one size (batch_axes of -1)");
}

}  // namespace

Recording::Recording(const Forward& forward, const Runs& runs, const std::vector<NamedState>& states)
    : inputs_(runs.inputs.at(0).size()) {
  first_ = record(forward, runs.inputs[0], states);
  if (runs.inputs.size() == 1) return;
  second_ = record(forward, runs.inputs[1], states);
  const auto pair = [&](auto a, auto b, const jit::Node* node) {
    if (a.size() != b.size()) refuse_twins(node, "one with other results");
    for (std::size_t i = 0; i < a.size(); ++i) twins_[a[i]] = b[i];
  };
  pair(first_->inputs(), second_->inputs(), first_->param_node());
  auto b = second_->nodes().begin();
  for (const jit::Node* a : std::as_const(*first_).nodes()) {
    if (b == second_->nodes().end()) refuse_twins(a, "none");
    if ((*b)->kind() != a->kind()) refuse_twins(a, b->kind().toQualString());
    if ((*b)->inputs().size() != a->inputs().size()) refuse_twins(a, "one with other inputs");
    for (std::size_t i = 0; i < a->inputs().size(); ++i) {
      if (twins_.at(a->input(i)) != b->input(i)) refuse_twins(a, "one with other inputs");
    }
    pair(a->outputs(), (*b)->outputs(), a);
    ++b;
  }
  if (b != second_->nodes().end()) refuse_twins(*b, "none");
  if (first_->outputs().size() != second_->outputs().size()) {
    throw Error("the module gives another number of outputs for another batch size");
  }
}

Seen Recording::seen(const Value* value) const {
  const auto sizes_of = [](const Value* of) {
    const auto type = of->type()->cast<c10::TensorType>();
    if (type) {
      if (auto sizes = type->sizes().concrete_sizes()) return *sizes;
    }
    if (const auto constant = jit::toIValue(of); constant && constant->isTensor()) {
      return constant->toTensor().sizes().vec();
    }
    throw Error("the shape of " + quote_text(of->debugName()) + " was not recorded");
  };
  Seen seen;
  const auto type = value->type()->cast<c10::TensorType>();
  if (type && type->scalarType()) {
    seen.type = *type->scalarType();
  } else if (const auto constant = jit::toIValue(value); constant && constant->isTensor()) {
    seen.type = constant->toTensor().scalar_type();
  }
  const std::vector<std::int64_t> a = sizes_of(value);
  const std::vector<std::int64_t> b = second_ ? sizes_of(twins_.at(value)) : a;
  if (a.size() != b.size()) throw Error("the rank of a tensor follows the batch size");
  for (std::size_t i = 0; i < a.size(); ++i) seen.sizes.push_back({a[i], b[i]});
  return seen;
}

std::vector<c10::IValue> Recording::constants(const Value* value) const {
  const auto a = jit::toIValue(value);
  if (!a) return {};
  if (!second_) return {*a, *a};
  const auto b = jit::toIValue(twins_.at(value));
  if (!b) return {};
  return {*a, *b};
}

Number Recording::number(const Value* value) const {
  const auto both = constants(value);
  if (both.empty() || !both[0].isInt() || !both[1].isInt()) {
    throw Error("a size is computed from the values of a tensor");
  }
  return {both[0].toInt(), both[1].toInt()};
}

}  // namespace crumb::libtorch
