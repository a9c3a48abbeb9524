// Networks from anywhere, opened and run under limits: they end, and give the same bits with one thread and with three, and
// whether codes are computed as integers or not where no float lies between them; so do two runs of a session that keeps what
// their past and present are.
#include <cmath>
#include <cstring>

#include "graph/onnx/wire/read_model.h"
#include "runtime/meter.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_onnx.h"

namespace crumb::testing {
namespace {

using runtime::Array;

constexpr runtime::Limits kLimits{.memory = std::uint64_t{16} << 20, .work = std::uint64_t{1} << 22};
constexpr std::int64_t kOpen = 2;  // for sizes that the graph leaves open

/// Something for an input to hold: whole numbers and halves, and some that are neither.
Array input_of(const graph::Graph& graph, const std::string& name) {
  const graph::Value* value = graph.find(name);
  runtime::Ints shape;
  for (const graph::Dim& dim : value && value->shape ? *value->shape : graph::Shape())
    shape.push_back(dim.known() ? dim.size : kOpen);
  const auto type =
      value && value->type != graph::ElementType::kUnknown ? value->type : graph::ElementType::kFloat;
  Array made(type, shape);
  runtime::with_carrier(made.carrier(), [&]<class T>() {
    const auto to = made.writable<T>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const int n = static_cast<int>(i * 7 % 23) - 8;
      to[i] = static_cast<T>(std::is_unsigned_v<T> ? std::abs(n) : n);
      if constexpr (std::is_floating_point_v<T>) to[i] = i % 5 == 0 ? to[i] / 3 : to[i] / 2;
    }
  });
  made.round();
  return made;
}

struct Outcome {
  std::vector<Array> outputs;
  bool ended = false;  ///< by an Error
  std::uint64_t work = 0;
};

Outcome outcome_of(const runtime::Model& model, int threads, runtime::Arena* arena = nullptr) {
  try {
    const auto meter = std::make_shared<runtime::Meter>(kLimits);
    const runtime::MeterScope scope(meter);
    std::vector<Array> inputs;
    for (const std::string& name : model.graph().inputs) inputs.push_back(input_of(model.graph(), name));
    auto outputs = model.run(std::move(inputs), {.threads = threads, .arena = arena});
    return {.outputs = std::move(outputs), .ended = false, .work = meter->work()};
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says why");
    return {.outputs = {}, .ended = true};
  }
}

/// Two runs, the second with what the first left.
Outcome session_outcome(const runtime::Model& model, const std::vector<runtime::Tie>& ties, int threads) {
  Outcome all;
  try {
    runtime::Session session(model, ties);
    for (int run = 0; run < 2; ++run) {
      const runtime::MeterScope scope(std::make_shared<runtime::Meter>(kLimits));
      std::vector<Array> inputs;
      for (std::size_t i = 0; i < model.graph().inputs.size(); ++i) {
        if (!session.holds_input(i)) inputs.push_back(input_of(model.graph(), model.graph().inputs[i]));
      }
      for (Array& made : session.run(std::move(inputs), {.threads = threads})) {
        if (made.defined()) all.outputs.push_back(std::move(made));
      }
    }
    return all;
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says why");
    return {.outputs = {}, .ended = true};
  }
}

bool same(const Outcome& a, const Outcome& b) {
  if (a.ended != b.ended || a.outputs.size() != b.outputs.size()) return false;
  for (std::size_t i = 0; i < a.outputs.size(); ++i) {
    const Array &x = a.outputs[i], &y = b.outputs[i];
    if (x.type() != y.type() || x.shape() != y.shape()) return false;
    if (std::memcmp(x.data(), y.data(), x.bytes()) != 0) return false;
  }
  return true;
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  try {
    graph::Graph graph = graph::read_model(input, {});
    const runtime::MeterScope scope(std::make_shared<runtime::Meter>(kLimits));
    const runtime::Model model(std::move(graph));
    const Outcome one = outcome_of(model, 1);
    require(same(one, outcome_of(model, 3)), "threads change nothing");
    runtime::Arena arena;
    for (int run = 0; run < 3 && one.work < kLimits.work / 8; ++run)  // much work takes long with sanitizers
      require(same(one, outcome_of(model, 1, &arena)), "runs in an arena have the bits of others");
    const auto ties = runtime::find_ties(model.graph());
    if (ties.empty()) return;
    require(same(session_outcome(model, ties, 1), session_outcome(model, ties, 3)),
            "threads change no session");
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says why");
  }
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_onnx, data, size, most, seed);
}
