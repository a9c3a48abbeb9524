// Loop and Scan whose trips are counted when the network runs: a plan of the body, run once a trip.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "graph/loop_parts.h"
#include "runtime/ops/families.h"
#include "runtime/ops/one_integer.h"
#include "runtime/plan.h"

namespace crumb::runtime {
namespace {

/// The bytes in front of an axis, of one step along it and behind it.
struct Strides {
  std::size_t outer = 1, step = 0;

  Strides(const Ints& row, std::size_t axis, std::size_t element) : step(element) {
    for (std::size_t i = 0; i < row.size(); ++i)
      (i < axis ? outer : step) *= static_cast<std::size_t>(row[i]);
  }
};

/// Element `index` of an axis.
Array row_of(const Array& all, std::size_t axis, std::size_t index) {
  Ints shape = all.shape();
  const auto length = static_cast<std::size_t>(shape[axis]);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  Array row(all.type(), shape);
  const Strides strides(shape, axis, bytes_of(all.carrier()));
  for (std::size_t i = 0; i < strides.outer && row.size() > 0; ++i)
    std::memcpy(row.writable_data() + i * strides.step, all.data() + (i * length + index) * strides.step,
                strides.step);
  return row;
}

/// What trips made, along a new axis.
class Rows {
 public:
  void add(const Call& call, Array row) {
    if (!rows_.empty() && (row.shape() != rows_[0].shape() || row.type() != rows_[0].type()))
      call.fail("a trip makes " + text_of(row) + ", and the first made " + text_of(rows_[0]));
    rows_.push_back(std::move(row));
  }

  /// `stated`: of the body's output, for a loop without trips: sizes that it leaves open are 0 then.
  Array stacked(const Call& call, std::int64_t axis, bool is_backward, const graph::Value* stated) {
    Ints shape;
    ElementType type = stated ? stated->type : ElementType::kUnknown;
    if (!rows_.empty()) {
      shape = rows_[0].shape();
      type = rows_[0].type();
    } else if (stated && stated->shape) {
      for (const graph::Dim& dim : *stated->shape) shape.push_back(dim.known() ? dim.size : 0);
    }
    if (type == ElementType::kUnknown) call.fail("it makes no trip, and nothing says what type no rows have");
    const auto at =
        static_cast<std::size_t>(call.usual_axis(axis, static_cast<std::int64_t>(shape.size()) + 1));
    const Strides strides(shape, at, bytes_of(carrier_of(type)));
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::int64_t>(rows_.size()));
    Array all(type, shape);
    for (std::size_t r = 0; r < rows_.size() && all.size() > 0; ++r) {
      const Array& row = rows_[is_backward ? rows_.size() - 1 - r : r];
      for (std::size_t i = 0; i < strides.outer; ++i)
        std::memcpy(all.writable_data() + (i * rows_.size() + r) * strides.step,
                    row.data() + i * strides.step, strides.step);
    }
    return all;
  }

 private:
  std::vector<Array> rows_;
};

class LoopKernel {
 public:
  /// Constants from outside become the body's: its kernels may hold them.
  explicit LoopKernel(const NodeFacts& facts) {
    if (!graph::is_loop(facts.node)) facts.fail("its body cannot be run");
    parts_ = graph::loop_parts(facts.node);
    graph::Graph body = *parts_.body;
    std::vector<std::string> inputs;
    for (std::size_t i = 0; i < body.inputs.size(); ++i) {
      const Array* const known = i < parts_.own ? nullptr : facts.constant(i);
      if (known && known->is_stored_as_it_lies()) {
        body.initializers.emplace(body.inputs[i], known->tensor());
      } else {
        inputs.push_back(body.inputs[i]);
        if (i >= parts_.own) from_outside_.push_back(i);
      }
    }
    body.inputs = std::move(inputs);
    body_ = std::make_shared<const Body>(std::move(body));
  }

  void operator()(Call& call) const {
    std::vector<Array> states;
    for (std::size_t i = 0; i < parts_.states; ++i) states.push_back(call.take(parts_.first_state() + i));
    std::vector<Rows> rows(parts_.rows);
    const std::int64_t most = parts_.is_scan ? length_of(call) : most_trips(call);
    bool goes_on = parts_.is_scan || !call.has(1) || truth_of(call, call.in(1));
    for (std::int64_t trip = 0; goes_on && trip < most; ++trip) {
      call.spend({1});
      std::vector<Array> made = run_trip(call, trip, most, states);
      auto next = made.begin();
      if (!parts_.is_scan) goes_on = truth_of(call, *next++);
      for (Array& state : states) state = std::move(*next++);
      for (Rows& row : rows) row.add(call, std::move(*next++));
    }
    for (std::size_t i = 0; i < call.outputs(); ++i) {
      if (i < parts_.states) {
        call.give(i, std::move(states[i]));
        continue;
      }
      const std::size_t row = i - parts_.states;
      const std::string& name = parts_.body->outputs[parts_.first_output() + i];
      call.give(i, rows[row].stacked(call, parts_.row_axes[row], parts_.rows_backward[row] != 0,
                                     parts_.body->find(name)));
    }
  }

 private:
  struct Body {
    explicit Body(graph::Graph of) : graph(std::move(of)), plan(graph) { graph.initializers.clear(); }
    graph::Graph graph;
    Plan plan;
  };

  static bool truth_of(const Call& call, const Array& value) {
    if (value.size() != 1) call.fail("expected one condition, found " + text_of(value));
    return ints_of(value)[0] != 0;
  }

  static std::int64_t most_trips(const Call& call) {
    if (!call.has(0)) return std::numeric_limits<std::int64_t>::max();
    return one_integer(call, 0, "number of trips");
  }

  std::size_t axis_of(const Call& call, std::size_t sequence) const {
    const Array& all = call.in(parts_.states + sequence);
    return static_cast<std::size_t>(call.usual_axis(parts_.sequence_axes[sequence], all.rank()));
  }

  std::int64_t length_of(const Call& call) const {
    std::optional<std::int64_t> length;
    for (std::size_t i = 0; i < parts_.sequences; ++i) {
      const Array& all = call.in(parts_.states + i);
      const std::int64_t found = all.shape()[axis_of(call, i)];
      if (length && *length != found)
        call.fail("expected sequences of one length, found " + std::to_string(*length) + " and " +
                  std::to_string(found));
      length = found;
    }
    return *length;
  }

  std::vector<Array> run_trip(const Call& call, std::int64_t trip, std::int64_t trips,
                              std::vector<Array>& states) const {
    std::vector<Array> inputs;
    if (!parts_.is_scan) {
      Array number(ElementType::kInt64, {}), goes_on(ElementType::kBool, {});
      number.writable<std::int64_t>()[0] = trip;
      goes_on.writable<bool>()[0] = true;
      inputs.push_back(std::move(number));
      inputs.push_back(std::move(goes_on));
    }
    for (Array& state : states) inputs.push_back(std::move(state));
    for (std::size_t i = 0; i < parts_.sequences; ++i) {
      const std::int64_t at = parts_.sequences_backward[i] != 0 ? trips - 1 - trip : trip;
      inputs.push_back(row_of(call.in(parts_.states + i), axis_of(call, i), static_cast<std::size_t>(at)));
    }
    for (const std::size_t i : from_outside_) inputs.push_back(call.in(i));
    return body_->plan.run(body_->graph, std::move(inputs),
                           {.threads = call.threads(), .promise = call.promise()});
  }

  graph::LoopParts parts_;
  std::vector<std::size_t> from_outside_;  ///< inputs of the node that each trip takes as they are
  std::shared_ptr<const Body> body_;
};

Kernel loop(const NodeFacts& facts) { return LoopKernel(facts); }

}  // namespace

std::span<const OperatorRow> loop_operators() {
  static constexpr OperatorRow kRows[] = {{"Loop", loop}, {"Scan", loop}};
  return kRows;
}

}  // namespace crumb::runtime
