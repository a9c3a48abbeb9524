// Loop and Scan: a plan of the body, run once a trip. Gradients flow through the trips.
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "graph/loop_parts.h"
#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/plan.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

at::Device device_of(const Call& call) {
  for (std::size_t i = 0; i < call.inputs(); ++i)
    if (call.has(i) && call.tensor(i).is_floating_point()) return call.tensor(i).device();
  return at::kCPU;
}

Plan::Constants constants_of(const graph::Graph& body, at::Device device) {
  Plan::Constants constants;
  for (const auto& [name, tensor] : body.initializers) {
    TypedTensor constant = borrowed(tensor);
    constant.tensor = constant.tensor.to(device);
    constants.emplace(name, std::move(constant));
  }
  for (const graph::Node& node : body.nodes) {
    const std::optional<graph::Tensor> made = graph::constant_of(node);
    if (made && made->type() != ElementType::kString)
      constants.emplace(node.outputs[0], to_typed(*made, device));
  }
  return constants;
}

class Trips {
 public:
  explicit Trips(const Call& call)
      : call_(call),
        parts_(graph::loop_parts(call.node())),
        plan_(*parts_.body, constants_of(*parts_.body, device_of(call))),
        rows_(parts_.rows) {
    for (std::size_t i = 0; i < parts_.states; ++i) states_.push_back(call.in(parts_.first_state() + i));
  }

  void run() {
    const std::int64_t most = parts_.is_scan ? length() : most_trips();
    bool goes_on = parts_.is_scan || !call_.has(1) || truth_of(call_.in(1));
    for (std::int64_t trip = 0; goes_on && trip < most; ++trip) {
      std::vector<TypedTensor> made = plan_.run(*parts_.body, inputs_of(trip, most), {});
      auto next = made.begin();
      if (!parts_.is_scan) goes_on = truth_of(*next++);
      for (TypedTensor& state : states_) state = std::move(*next++);
      for (std::vector<TypedTensor>& row : rows_) add(row, std::move(*next++));
    }
  }

  Outputs outputs() {
    Outputs made;
    for (std::size_t i = 0; i < call_.outputs(); ++i)
      made.push_back(i < parts_.states ? std::move(states_[i]) : stacked(i - parts_.states));
    return made;
  }

 private:
  bool truth_of(const TypedTensor& value) const {
    if (value.tensor.numel() != 1) call_.fail("expected one condition, found " + text_of(value));
    return value.tensor.item().toBool();
  }

  std::int64_t most_trips() const {
    if (!call_.has(0)) return std::numeric_limits<std::int64_t>::max();
    const std::vector<std::int64_t> most = call_.ints(0);
    if (most.size() != 1) call_.fail("expected one number of trips, found " + text_of(call_.in(0)));
    return most[0];
  }

  std::int64_t axis_of(std::size_t sequence) const {
    return usual_axis(call_, parts_.sequence_axes[sequence], call_.tensor(parts_.states + sequence).dim());
  }

  std::int64_t length() const {
    std::optional<std::int64_t> length;
    for (std::size_t i = 0; i < parts_.sequences; ++i) {
      const std::int64_t found = call_.tensor(parts_.states + i).size(axis_of(i));
      if (length && *length != found)
        call_.fail("expected sequences of one length, found " + std::to_string(*length) + " and " +
                   std::to_string(found));
      length = found;
    }
    return *length;
  }

  /// Copies of the states stay here: a trip that fails is named, and no operator writes over what rows share.
  std::vector<TypedTensor> inputs_of(std::int64_t trip, std::int64_t trips) const {
    std::vector<TypedTensor> inputs;
    if (!parts_.is_scan) {
      inputs.push_back({at::scalar_tensor(trip, at::kLong), ElementType::kInt64});
      inputs.push_back({at::scalar_tensor(true, at::kBool), ElementType::kBool});
    }
    inputs.insert(inputs.end(), states_.begin(), states_.end());
    for (std::size_t i = 0; i < parts_.sequences; ++i) {
      const std::int64_t at = parts_.sequences_backward[i] != 0 ? trips - 1 - trip : trip;
      const TypedTensor& all = call_.in(parts_.states + i);
      inputs.push_back({all.tensor.select(axis_of(i), at), all.type});
    }
    for (std::size_t i = parts_.own; i < call_.inputs(); ++i) inputs.push_back(call_.in(i));
    return inputs;
  }

  void add(std::vector<TypedTensor>& rows, TypedTensor row) const {
    if (!rows.empty() && (row.tensor.sizes() != rows[0].tensor.sizes() || row.type != rows[0].type))
      call_.fail("a trip makes " + text_of(row) + ", and the first made " + text_of(rows[0]));
    rows.push_back(std::move(row));
  }

  /// Of a loop without trips the body's output says type and shape: sizes that it leaves open are 0 then.
  TypedTensor stacked(std::size_t row) const {
    const std::vector<TypedTensor>& rows = rows_[row];
    const std::int64_t axis = parts_.row_axes[row];
    if (rows.empty()) return none(row);
    std::vector<at::Tensor> tensors;
    for (const TypedTensor& one : rows) tensors.push_back(one.tensor);
    if (parts_.rows_backward[row] != 0) std::ranges::reverse(tensors);
    return {at::stack(tensors, usual_axis(call_, axis, tensors[0].dim() + 1)), rows[0].type};
  }

  TypedTensor none(std::size_t row) const {
    const graph::Value* stated =
        parts_.body->find(parts_.body->outputs[parts_.first_output() + parts_.states + row]);
    if (!stated || stated->type == ElementType::kUnknown)
      call_.fail("it makes no trip, and nothing says what type no rows have");
    std::vector<std::int64_t> shape;
    if (stated->shape)
      for (const graph::Dim& dim : *stated->shape) shape.push_back(dim.known() ? dim.size : 0);
    const std::int64_t axis =
        usual_axis(call_, parts_.row_axes[row], static_cast<std::int64_t>(shape.size()) + 1);
    shape.insert(shape.begin() + axis, 0);
    return {at::zeros(shape, carrier_of(stated->type)), stated->type};
  }

  const Call& call_;
  const graph::LoopParts parts_;
  const Plan plan_;
  std::vector<TypedTensor> states_;
  std::vector<std::vector<TypedTensor>> rows_;
};

Outputs loop(const Call& call) {
  Trips trips(call);
  trips.run();
  return trips.outputs();
}

constexpr OperatorRow kLoopRows[] = {{"Loop", loop}, {"Scan", loop}};

}  // namespace

std::span<const OperatorRow> loop_operators() { return kLoopRows; }

}  // namespace crumb::libtorch
