#include "libtorch/execute/operator.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <map>

#include "libtorch/execute/ops/families.h"

namespace crumb::libtorch {
namespace {

using Key = std::pair<std::string_view, std::string_view>;

std::map<Key, Kernel> make_table() {
  std::map<Key, Kernel> table;
  for (const OperatorRow& row : all_operators()) {
    if (!table.emplace(Key{row.domain, row.op}, row.kernel).second) {
      throw Error("operator " + std::string(row.op) + " stands in two tables");
    }
  }
  return table;
}

}  // namespace

const TypedTensor& Call::in(std::size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return inputs_[i];
}

bool Call::may_overwrite(std::size_t i) const {
  const at::Tensor& t = tensor(i);
  // Memory that is not LibTorch's own cannot be resized: others lent it.
  return !at::GradMode::is_enabled() && t.use_count() == 1 && t.layout() == at::kStrided &&
         t.storage().use_count() == 1 && t.storage().unsafeGetStorageImpl()->resizable() &&
         t.is_non_overlapping_and_dense();
}

std::vector<std::int64_t> Call::ints(std::size_t i) const {
  const at::Tensor values = tensor(i).to(at::kCPU, at::kLong).contiguous();
  const auto* data = values.const_data_ptr<std::int64_t>();
  return {data, data + values.numel()};
}

std::optional<std::vector<std::int64_t>> Call::ints_attribute(const char* name) const {
  if (!node_.has(name)) return std::nullopt;
  return node_.ints_or(name, {});
}

std::optional<std::vector<std::int64_t>> Call::ints(std::size_t i, const char* name) const {
  if (has(i)) return ints(i);
  return ints_attribute(name);
}

void Call::fail(const std::string& text) const { throw Error(graph::text_of(node_) + ": " + text); }

Kernel find_operator(std::string_view op, std::string_view domain) {
  static const std::map<Key, Kernel> table = make_table();
  const auto found = table.find(Key{domain, op});
  return found == table.end() ? nullptr : found->second;
}

std::vector<OperatorRow> all_operators() {
  std::vector<OperatorRow> rows;
  for (const auto family : kOperatorFamilies) {
    const auto more = family();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

std::int64_t usual_axis(const Call& call, std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) {
    call.fail("axis " + std::to_string(axis) + " is outside the " + std::to_string(rank) +
              " axes of its input");
  }
  return axis < 0 ? axis + rank : axis;
}

Outputs like_input(const Call& call, at::Tensor result) { return {wrapped(std::move(result), call.type(0))}; }

}  // namespace crumb::libtorch
