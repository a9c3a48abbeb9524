#include "libtorch/capture/op.h"

#include <ATen/ScalarOps.h>
#include <torch/csrc/jit/ir/constants.h>

#include "base/error.h"
#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {

namespace jit = torch::jit;

std::string Op::kind() const {
  std::string kind = node_->kind().toQualString();
  if (kind.starts_with("aten::") && kind.ends_with('_') && !kind.ends_with("__")) kind.pop_back();
  return kind;
}

void Op::fail(const std::string& why) const { throw Error(why); }

const jit::Value* Op::find(const char* argument) const {
  const auto* schema = node_->maybeSchema();
  if (!schema) fail("LibTorch has no schema for it");
  const auto index = schema->argumentIndexWithName(argument);
  return index ? node_->input(static_cast<std::size_t>(*index)) : nullptr;
}

const jit::Value* Op::at(const char* argument) const {
  if (const jit::Value* value = find(argument)) return value;
  fail("this overload has no argument '" + std::string(argument) + "'");
}

bool Op::has(const char* argument) const {
  const jit::Value* value = find(argument);
  if (!value) return false;
  const auto both = recording_.constants(value);
  if (!both.empty() && both[0].isTensor() && !both[0].toTensor().defined()) return false;
  return both.empty() || !both[0].isNone();
}

bool Op::is_tensor(const char* argument) const {
  const jit::Value* value = find(argument);
  return value && value->type()->isSubtypeOf(*c10::TensorType::get());
}

bool Op::is_zeros(const char* argument, std::size_t i) const {
  const jit::Value* value = at(argument);
  if (value->node()->kind() == c10::prim::ListConstruct) value = value->node()->input(i);
  return value->node()->kind() == c10::aten::zeros;
}

std::string Op::name_of(const jit::Value* value) const {
  if (const auto known = values_.find(value); known != values_.end()) {
    if (known->second.size() != 1) fail("a list of tensors where one is expected");
    return known->second[0];
  }
  const auto both = recording_.constants(value);
  if (both.empty() || !both[0].isTensor()) fail("a value that no operator made");
  const at::Tensor a = both[0].toTensor(), b = both[1].toTensor();
  std::string name;
  if (a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.equal(b)) {
    name = net.tensor(a);
  } else if (a.dim() == 0 && b.dim() == 0 && a.scalar_type() == at::kLong) {
    name = net.squeeze(net.sizes({{a.item<std::int64_t>(), b.item<std::int64_t>()}}), {0});
  } else {
    fail("a constant tensor that is not recorded follows the batch size");
  }
  values_[value] = {name};
  return name;
}

std::string Op::tensor(const char* argument) const { return name_of(at(argument)); }

Names Op::tensors(const char* argument) const {
  const jit::Value* list = at(argument);
  if (const auto known = values_.find(list); known != values_.end()) return known->second;
  if (list->node()->kind() != c10::prim::ListConstruct) fail("a list of tensors that no operator made");
  Names names;
  for (const jit::Value* value : list->node()->inputs()) {
    const auto both = recording_.constants(value);
    const bool none =
        !both.empty() && (both[0].isNone() || (both[0].isTensor() && !both[0].toTensor().defined()));
    names.push_back(none ? "" : name_of(value));
  }
  return names;
}

std::vector<Seen> Op::seen_all(const char* argument) const {
  const jit::Value* list = at(argument);
  std::vector<Seen> all;
  if (list->node()->kind() == c10::prim::ListConstruct) {
    for (const jit::Value* value : list->node()->inputs()) {
      const bool none = value->type()->kind() == c10::TypeKind::NoneType;
      all.push_back(none ? Seen{} : recording_.seen(value));
    }
    return all;
  }
  for (const jit::Use& use : list->uses()) {  // what another operator made, taken apart somewhere
    if (use.user->kind() != c10::prim::ListUnpack) continue;
    for (const jit::Value* value : use.user->outputs()) all.push_back(recording_.seen(value));
    return all;
  }
  fail("a list of tensors whose shapes were not recorded");
}

Seen Op::seen(const char* argument) const { return recording_.seen(at(argument)); }
Seen Op::result(std::size_t i) const { return recording_.seen(node_->output(i)); }
std::size_t Op::results() const { return node_->outputs().size(); }
bool Op::wants(std::size_t i) const { return i < results() && !node_->output(i)->uses().empty(); }

std::vector<Seen> Op::seen_list() const {
  for (const jit::Use& use : node_->output()->uses()) {
    if (use.user->kind() != c10::prim::ListUnpack) continue;
    std::vector<Seen> all;
    for (const jit::Value* value : use.user->outputs()) all.push_back(recording_.seen(value));
    return all;
  }
  fail("a list of tensors of unknown length");
}

std::size_t Op::list_length() const { return seen_list().size(); }

Number Op::number(const char* argument) const { return recording_.number(at(argument)); }

std::int64_t Op::integer(const char* argument) const {
  const Number value = number(argument);
  if (!value.fixed()) fail("its '" + std::string(argument) + "' follows the batch size");
  return value.first;
}

std::int64_t Op::integer_or(const char* argument, std::int64_t otherwise) const {
  return has(argument) ? integer(argument) : otherwise;
}

std::vector<Number> Op::numbers(const char* argument) const {
  const jit::Value* list = at(argument);
  std::vector<Number> numbers;
  if (list->node()->kind() == c10::prim::ListConstruct) {
    for (const jit::Value* value : list->node()->inputs()) numbers.push_back(recording_.number(value));
    return numbers;
  }
  const auto both = recording_.constants(list);
  if (both.empty()) fail("its '" + std::string(argument) + "' is computed from the values of a tensor");
  if (both[0].isInt()) return {{both[0].toInt(), both[1].toInt()}};
  const auto a = both[0].toIntVector(), b = both[1].toIntVector();
  if (a.size() != b.size()) fail("the length of its '" + std::string(argument) + "' follows the batch size");
  for (std::size_t i = 0; i < a.size(); ++i) numbers.push_back({a[i], b[i]});
  return numbers;
}

Ints Op::ints(const char* argument) const {
  Ints ints;
  for (const Number& number : numbers(argument)) {
    if (!number.fixed()) fail("its '" + std::string(argument) + "' follows the batch size");
    ints.push_back(number.first);
  }
  return ints;
}

Ints Op::ints(const char* argument, std::size_t axes) const {
  Ints all = ints(argument);
  if (all.size() == 1) all.resize(axes, all[0]);
  return all;
}

c10::IValue Op::constant(const char* argument) const {
  const auto both = recording_.constants(at(argument));
  if (both.empty()) fail("its '" + std::string(argument) + "' is computed from the values of a tensor");
  const bool same = both[0].isDouble() && both[1].isDouble() && std::isnan(both[0].toDouble())
                        ? std::isnan(both[1].toDouble())
                        : both[0] == both[1];
  if (!both[0].isTensor() && !same) fail("its '" + std::string(argument) + "' follows the batch size");
  return both[0];
}

at::Scalar Op::scalar(const char* argument) const {
  const c10::IValue value = constant(argument);
  if (value.isTensor()) return value.toTensor().item();
  return value.toScalar();
}

double Op::real_or(const char* argument, double otherwise) const {
  return has(argument) ? real(argument) : otherwise;
}

std::vector<double> Op::reals(const char* argument) const {
  const jit::Value* list = at(argument);
  std::vector<double> reals;
  if (list->node()->kind() == c10::prim::ListConstruct) {
    for (const jit::Value* value : list->node()->inputs()) {
      const auto both = recording_.constants(value);
      if (both.empty()) fail("its '" + std::string(argument) + "' is computed from the values of a tensor");
      reals.push_back(both[0].toScalar().toDouble());
    }
    return reals;
  }
  return constant(argument).toDoubleVector();
}

bool Op::flag(const char* argument, bool otherwise) const {
  return has(argument) ? constant(argument).toBool() : otherwise;
}

std::string Op::text(const char* argument) const { return constant(argument).toStringRef(); }

std::string Op::operand(const char* argument, at::ScalarType type) const {
  const jit::Value* value = at(argument);
  if (is_tensor(argument) || values_.contains(value)) {
    const auto both = recording_.constants(value);
    if (!both.empty() && both[0].isTensor() && both[0].toTensor().dim() == 0 &&
        both[0].toTensor().equal(both[1].toTensor())) {
      return net.scalar(both[0].toTensor().item(), type);
    }
    const std::string name = name_of(value);
    return recording_.seen(value).type == type ? name : net.cast(name, type);
  }
  const auto both = recording_.constants(value);
  if (both.size() == 2 && both[0].isInt() && both[1].isInt() && both[0] != both[1]) {
    const std::string size = net.squeeze(net.sizes({recording_.number(value)}), {0});
    return type == at::kLong ? size : net.cast(size, type);
  }
  return net.scalar(scalar(argument), type);
}

at::ScalarType Op::common_type(const char* a, const char* b) const {
  const auto example = [&](const char* argument) {
    if (!is_tensor(argument)) return c10::scalar_to_tensor(scalar(argument));
    const Seen of = seen(argument);
    return at::empty(Ints(of.sizes.size(), 1), of.type);
  };
  const at::Tensor x = example(a);
  if (!is_tensor(b)) return at::result_type(x, scalar(b));
  return at::result_type(x, example(b));
}

std::int64_t Op::axis(const char* argument, std::int64_t rank) const {
  const std::int64_t axis = integer(argument);
  return axis < 0 ? axis + std::max<std::int64_t>(rank, 1) : axis;
}

Ints Op::axes(const char* argument, std::int64_t rank) const {
  Ints axes = has(argument) ? ints(argument) : Ints{};
  if (axes.empty()) return axes_up_to(rank);
  for (std::int64_t& axis : axes) {
    if (axis < 0) axis += std::max<std::int64_t>(rank, 1);
  }
  std::ranges::sort(axes);
  return axes;
}

void Op::set(std::string value, std::size_t result) { values_[node_->output(result)] = {std::move(value)}; }
void Op::set_list(Names values) { values_[node_->output()] = std::move(values); }

Convert find_conversion(std::string_view kind) {
  static const std::map<std::string_view, Convert> kAll = [] {
    std::map<std::string_view, Convert> all;
    for (const auto family : kConversionFamilies) {
      for (const ConversionRow& row : family()) all.emplace(row.kind, row.convert);
    }
    return all;
  }();
  const auto found = kAll.find(kind);
  return found == kAll.end() ? nullptr : found->second;
}

}  // namespace crumb::libtorch
