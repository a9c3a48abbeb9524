#include "libtorch/capture/network.h"

#include <limits>
#include <numeric>

#include "base/error.h"
#include "libtorch/execute/typed_tensor.h"

namespace crumb::libtorch {

using graph::Tensor;

Ints axes_up_to(std::int64_t rank) {
  Ints axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

std::string Network::unused(const std::string& requested) {
  for (std::int64_t& next = taken_[requested];;) {
    const std::string name = next == 0 ? requested : requested + "_" + std::to_string(next);
    ++next;
    if (name == requested || taken_.try_emplace(name, 1).second) return name;
  }
}

Names Network::add_many(const std::string& op, const Names& inputs, const Attributes& attributes,
                        std::size_t outputs) {
  graph::Node node{.name = unused(label_ + "/" + op), .op = op, .domain = "", .version = kOpset};
  node.inputs = inputs;
  node.attributes = attributes;
  for (std::size_t i = 0; i < outputs; ++i) node.outputs.push_back(unused(label_ + "/" + op + "_out"));
  graph.nodes.push_back(node);
  return node.outputs;
}

std::string Network::add(const std::string& op, const Names& inputs, const Attributes& attributes) {
  return add_many(op, inputs, attributes, 1)[0];
}

std::string Network::ints(const Ints& values) {
  const auto [known, fresh] = ints_.try_emplace(values);
  if (fresh) {
    known->second = unused("ints");
    graph.initializers[known->second] = Tensor::ints({static_cast<std::int64_t>(values.size())}, values);
  }
  return known->second;
}

std::string Network::index(std::int64_t value) {
  const std::string name = unused("index");
  graph.initializers[name] = Tensor::scalar(value);
  return name;
}

std::string Network::scalar(const at::Scalar& value, at::ScalarType type) {
  const at::ScalarType wide = value.isFloatingPoint() ? at::kDouble : at::kLong;
  return tensor(at::scalar_tensor(value, wide).to(type), "scalar");
}

std::string Network::tensor(const at::Tensor& constant, const std::string& requested) {
  const std::string name = unused(requested);
  const at::Tensor value = constant.detach().contiguous().cpu();
  graph.initializers[name] = libtorch::to_constant(libtorch::typed(value));
  return name;
}

std::string Network::batch() {
  if (batch_value_.empty()) {
    batch_value_ = add("Shape", {batch_input_}, {{"start", batch_axis_}, {"end", batch_axis_ + 1}});
  }
  return batch_value_;
}

std::string Network::sizes(const std::vector<Number>& numbers) {
  Names parts;
  Ints constants;
  const auto flush = [&] {
    if (!constants.empty()) parts.push_back(ints(constants));
    constants.clear();
  };
  for (const Number& number : numbers) {
    if (number.fixed()) {
      constants.push_back(number.first);
      continue;
    }
    flush();
    const std::int64_t step = batch_.second - batch_.first, rise = number.second - number.first;
    if (batch_input_.empty() || rise % step != 0) {
      throw Error("a size that is " + std::to_string(number.first) + " for a batch of " +
                  std::to_string(batch_.first) + " and " + std::to_string(number.second) + " for " +
                  std::to_string(batch_.second) + " does not follow the batch");
    }
    const std::int64_t factor = rise / step, offset = number.first - factor * batch_.first;
    const auto [known, fresh] = sizes_.try_emplace({factor, offset});
    if (fresh) {
      std::string size = batch();
      if (factor != 1) size = add("Mul", {size, ints({factor})});
      if (offset != 0) size = add("Add", {size, ints({offset})});
      known->second = size;
    }
    parts.push_back(known->second);
  }
  flush();
  if (parts.empty()) return ints({});
  return parts.size() == 1 ? parts[0] : add("Concat", parts, {{"axis", std::int64_t{0}}});
}

graph::Dim Network::dim(const Number& number, const std::string& batch_name) const {
  if (number.fixed()) return number.first;
  return number == batch_ ? graph::Dim(batch_name) : graph::Dim();
}

std::string Network::cast(const std::string& value, at::ScalarType to) {
  return add("Cast", {value}, {{"to", static_cast<std::int64_t>(libtorch::type_of(to))}});
}

std::string Network::reshape(const std::string& value, const std::vector<Number>& from,
                             const std::vector<Number>& to) {
  if (from == to) return value;
  Ints target;
  std::size_t moving = 0;
  bool empty = false;
  for (std::size_t i = 0; i < to.size(); ++i) {
    empty |= to[i].is(0);
    if (to[i].fixed()) {
      target.push_back(to[i].first);
    } else if (i < from.size() && from[i] == to[i]) {
      target.push_back(0);  // "as it is"
    } else {
      target.push_back(-1);
      ++moving;
    }
  }
  if (empty) return add("Reshape", {value, sizes(to)}, {{"allowzero", std::int64_t{1}}});
  return add("Reshape", {value, moving > 1 ? sizes(to) : ints(target)});
}

std::string Network::transpose(const std::string& value, const Ints& order) {
  return order == axes_up_to(static_cast<std::int64_t>(order.size()))
             ? value
             : add("Transpose", {value}, {{"perm", order}});
}

std::string Network::unsqueeze(const std::string& value, const Ints& axes) {
  return axes.empty() ? value : add("Unsqueeze", {value, ints(axes)});
}

std::string Network::squeeze(const std::string& value, const Ints& axes) {
  return axes.empty() ? value : add("Squeeze", {value, ints(axes)});
}

std::string Network::slice(const std::string& value, std::int64_t axis, std::int64_t begin,
                           std::int64_t end) {
  return add("Slice", {value, ints({begin}), ints({end}), ints({axis})});
}

}  // namespace crumb::libtorch
