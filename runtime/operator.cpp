#include "runtime/operator.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/checked_size.h"
#include "runtime/meter.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/families.h"

namespace crumb::runtime {
namespace {

using Key = std::pair<std::string_view, std::string_view>;

std::map<Key, OperatorRow> make_table() {
  std::map<Key, OperatorRow> table;
  for (const OperatorRow& row : all_operators()) {
    if (!table.emplace(Key{row.domain, row.op}, row).second)
      throw Error("operator " + std::string(row.op) + " stands in two tables");
  }
  return table;
}

/// A kernel that takes narrow integers as int64.
Kernel widened(Kernel kernel) {
  return [kernel = std::move(kernel)](Call& call) {
    std::vector<Array> inputs(call.inputs()), made(call.outputs());
    bool any = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!call.has(i)) continue;
      const bool narrow = is_narrow(call.in(i).carrier());
      inputs[i] = narrow ? cast(call.in(i), ElementType::kInt64) : call.in(i);
      any = any || narrow;
    }
    if (!any) return inputs.clear(), kernel(call);
    const std::vector<char> last(inputs.size(), 0);
    const std::vector<Array*> pointers = pointers_to(inputs);
    Call wide(call.node(), pointers, last, made, call.threads());
    kernel(wide);
    const ElementType type = call.in(0).type();
    if (is_narrow(carrier_of(type)) && made[0].type() == ElementType::kInt64) made[0] = cast(made[0], type);
    for (std::size_t i = 0; i < made.size(); ++i) call.give(i, std::move(made[i]));
  };
}

}  // namespace

std::vector<Array*> pointers_to(std::span<Array> arrays) {
  std::vector<Array*> pointers(arrays.size());
  std::ranges::transform(arrays, pointers.begin(), [](Array& array) { return &array; });
  return pointers;
}

const Array& Call::in(std::size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return *inputs_[i];
}

void Call::expect(std::size_t i, Carrier carrier) const {
  if (in(i).carrier() != carrier) fail("cannot take " + text_of(in(i)) + " as input " + std::to_string(i));
}

Ints Call::ints(std::size_t i) const {
  const Array& array = in(i);
  if (array.carrier() == Carrier::kFloat || array.carrier() == Carrier::kDouble)
    fail("input " + std::to_string(i) + ": expected integers, found " + text_of(array));
  return ints_of(array);
}

Array& Call::make(std::size_t i, ElementType type, Ints shape) {
  return output(i) = Array(type, std::move(shape));
}

bool Call::may_reuse(std::size_t from, ElementType type, const Ints& shape) const {
  const Array& input = *inputs_[from];
  return carrier_of(type) == input.carrier() && shape == input.shape() && last_uses_[from] != 0 &&
         input.alone();
}

Array& Call::make_over(std::size_t i, std::size_t from, ElementType type, Ints shape) {
  if (!may_reuse(from, type, shape)) return make(i, type, std::move(shape));
  return output(i) = inputs_[from]->typed(type);
}

Array Call::take(std::size_t i) {
  if (last_uses_[i] != 0) return std::move(*inputs_[i]);
  return *inputs_[i];
}

void Call::give(std::size_t i, Array array) { output(i) = std::move(array); }

std::int64_t Call::usual_axis(std::int64_t axis, std::int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    fail("axis " + std::to_string(axis) + " is outside the " + std::to_string(rank) + " axes of its input");
  }
  return axis < 0 ? axis + rank : axis;
}

void Call::spend(const std::vector<std::size_t>& factors) const {
  const auto& meter = MeterScope::current();
  const checked::Size work = checked::product(std::span<const std::size_t>(factors));
  if (meter) meter->spend(work.value_or(~std::uint64_t{0}));
}

void Call::fail(const std::string& text) const { throw Error(graph::text_of(node_) + ": " + text); }

std::optional<Ints> NodeFacts::ints(const char* name) const {
  if (!node.has(name)) return std::nullopt;
  return node.ints_or(name, {});
}

void NodeFacts::fail(const std::string& text) const { throw Error(graph::text_of(node) + ": " + text); }

const OperatorRow* find_operator(std::string_view op, std::string_view domain) {
  static const std::map<Key, OperatorRow> table = make_table();
  const auto found = table.find(Key{domain, op});
  return found == table.end() ? nullptr : &found->second;
}

Kernel kernel_of(const OperatorRow& row, const NodeFacts& facts) {
  Kernel kernel = row.maker(facts);
  return row.takes == Takes::kWide ? widened(std::move(kernel)) : kernel;
}

std::vector<OperatorRow> all_operators() {
  std::vector<OperatorRow> rows;
  for (const auto family : kOperatorFamilies) {
    const auto more = family();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace crumb::runtime
