// Every field of a request of language training, changed by itself: it decides what a run can go on from, or is said not to.
#include "tasks/language/request/request_fields.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/files/write_text_file.h"
#include "tasks/kept_request.h"
#include "tests/support/testing.h"

namespace crumb::tasks {
namespace {

using Change = std::function<void(LanguageRequest&)>;

graph::Graph graph_of(float value) {
  graph::Graph made;
  made.initializers["w"] = graph::Tensor::scalar(value);
  return made;
}

LanguageRequest request_with(const std::filesystem::path& teacher) {
  LanguageRequest request;
  request.network = graph_of(1);
  request.samples.text.tokens = {1, 2, 3};
  request.recipe = parse_recipe("weights: int4:channel\n", "test");
  request.recovery = Recovery{.base = graph_of(2)};
  request.supervision.teacher.file = teacher;
  return request;
}

/// By the name that a message has. A field without an entry fails the test, as an entry without a field does.
std::map<std::string, Change> changes(const std::filesystem::path& other_teacher) {
  using R = LanguageRequest;
  return {{"network", [](R& r) { r.network = graph_of(3); }},
          {"text", [](R& r) { r.samples.text.tokens.back() = 4; }},
          {"drawn", [](R& r) { r.samples.drawn = "640 tokens"; }},
          {"valid", [](R& r) { r.samples.valid.tokens = {1}; }},
          {"lines",
           [](R& r) {
             r.samples.lines = {{1}, {2}};
           }},
          {"valid_lines", [](R& r) { r.samples.valid_lines = {{1}}; }},
          {"first", [](R& r) { r.samples.first = 0; }},
          {"recipe", [](R& r) { r.recipe = parse_recipe("weights: int3:channel\n", "test"); }},
          {"start", [](R& r) { r.start.network = graph_of(1); }},
          {"stages", [](R& r) { r.start.by = "gptq"; }},
          {"recovery", [](R& r) { r.recovery.reset(); }},
          {"base", [](R& r) { r.recovery->base = graph_of(5); }},
          {"adapter", [](R& r) { r.recovery->options.name = "b"; }},
          {"adapter.rank", [](R& r) { r.recovery->options.rank = 3; }},
          {"adapter.alpha", [](R& r) { r.recovery->options.alpha = 3; }},
          {"adapter.rslora", [](R& r) { r.recovery->options.rslora = true; }},
          {"adapter.targets", [](R& r) { r.recovery->options.targets = {"q"}; }},
          {"adapter.seed", [](R& r) { r.recovery->options.seed = 1; }},
          {"adapter.init", [](R& r) { r.recovery->start = AdapterStart::kSvd; }},
          {"adapter.ranks", [](R& r) { r.recovery->ranks = AdapterRanks::kError; }},
          {"adapter.type", [](R& r) { r.recovery->type = graph::AdapterType::kInt8; }},
          {"loss", [](R& r) { r.supervision.loss = LanguageLoss::kNextToken; }},
          {"teacher", [=](R& r) { r.supervision.teacher.file = other_teacher; }},
          {"teacher.top", [](R& r) { r.supervision.teacher.top = 32; }},
          {"has_floats", [](R& r) { r.supervision.has_floats = false; }},
          {"temperature", [](R& r) { r.supervision.temperature = 2; }},
          {"length", [](R& r) { r.samples.length = 3; }},
          {"batch", [](R& r) { r.steps.batch = 3; }},
          {"at_once", [](R& r) { r.steps.at_once = 3; }},
          {"recomputes", [](R& r) { r.steps.recomputes = true; }},
          {"steps", [](R& r) { r.steps.count = 3; }},
          {"scales_alone", [](R& r) { r.steps.scales_alone = true; }},
          {"learn_adapters", [](R& r) { r.steps.learn_adapters = true; }},
          {"block_wise.passes", [](R& r) { r.block_wise.passes = 3; }},
          {"block_wise.sequences", [](R& r) { r.block_wise.sequences = 3; }},
          {"block_wise.rate", [](R& r) { r.block_wise.rate = 3; }},
          {"block_wise.scale_rate", [](R& r) { r.block_wise.scale_rate = 3; }},
          {"block_wise.scales_alone", [](R& r) { r.block_wise.scales_alone = true; }},
          {"block_wise.signs", [](R& r) { r.block_wise.signs = true; }},
          {"warm_up", [](R& r) { r.optimizer.warm_up = 3; }},
          {"schedule", [](R& r) { r.optimizer.schedule = RateSchedule::kConstant; }},
          {"rate", [](R& r) { r.optimizer.rate = 3; }},
          {"scale_rate", [](R& r) { r.optimizer.scale_rate = 3; }},
          {"average", [](R& r) { r.optimizer.average = 0.5; }},
          {"most_gradient", [](R& r) { r.optimizer.most_gradient = 3; }},
          {"seed", [](R& r) { r.steps.seed = 3; }},
          {"products", [](R& r) { r.compute.products = Products::kBfloat16; }},
          {"optimizer_states", [](R& r) { r.optimizer.states = OptimizerStates::kInt8; }},
          {"device", [](R& r) { r.compute.device = "cuda"; }},
          {"threads", [](R& r) { r.compute.threads = 3; }}};
}

TEST_CASE("request fields: each decides what a run goes on from, or is said not to matter") {
  const crumb::testing::TempDir dir;
  write_text_file(dir.path() / "a", "one");
  write_text_file(dir.path() / "same", "one");
  write_text_file(dir.path() / "b", "two");
  const LanguageRequest before = request_with(dir.path() / "a");
  const RequestFields fields = fields_of(before, 1, 2);
  std::map<std::string, Change> all = changes(dir.path() / "b");
  for (const auto& [name, value] : fields.deciding.items())
    CHECK_MESSAGE((name == "processes" || all.contains(name)), name);
  CHECK(all.size() + 1 == fields.deciding.size() + fields.indifferent.size());
  for (const auto& [name, change] : all) {
    LanguageRequest after = before;
    change(after);
    const nlohmann::ordered_json now = fields_of(after, 1, 2).deciding;
    CAPTURE(name);
    if (fields.indifferent.contains(name)) {
      CHECK(now == fields.deciding);
      continue;
    }
    std::string said;
    try {
      refuse_other_request(now, fields.deciding);
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK(said.find("its " + name + " is") != std::string::npos);
  }
  CHECK(fields_of(before, 2, 2).deciding != fields.deciding);
  LanguageRequest elsewhere = before;
  elsewhere.supervision.teacher.file = dir.path() / "same";
  CHECK(fields_of(elsewhere, 1, 2).deciding == fields.deciding);
}

}  // namespace
}  // namespace crumb::tasks
