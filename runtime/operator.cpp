#include "runtime/operator.h"

#include <map>

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

}  // namespace

const Array& Call::in(std::size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return inputs_[i];
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
  return outputs_[i] = Array(type, std::move(shape));
}

Array& Call::make_over(std::size_t i, std::size_t from, ElementType type, Ints shape) {
  Array& input = inputs_[from];
  const bool fits = carrier_of(type) == input.carrier() && shape == input.shape();
  if (!fits || last_uses_[from] == 0 || !input.alone()) return make(i, type, std::move(shape));
  return outputs_[i] = input.typed(type);
}

void Call::give(std::size_t i, Array array) { outputs_[i] = std::move(array); }

std::int64_t Call::usual_axis(std::int64_t axis, std::int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    fail("axis " + std::to_string(axis) + " is outside the " + std::to_string(rank) + " axes of its input");
  }
  return axis < 0 ? axis + rank : axis;
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

std::vector<OperatorRow> all_operators() {
  std::vector<OperatorRow> rows;
  for (const auto family : kOperatorFamilies) {
    const auto more = family();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace crumb::runtime
