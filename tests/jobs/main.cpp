// Jobs as a program asks for them: crumb_jobs_cases JOB REQUEST, where REQUEST is JSON with fields of the
// job's request. Prints {"calls": N, ...}: how often the observer was called, and figures of the report.
// "stop_at": N in the request lets the N-th call end the job. Exit code: 1 where it fails, 2 of kind kUsage,
// 3 where it was ended.
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "jobs/calibrate.h"
#include "jobs/evaluate.h"
#include "jobs/evaluate_json.h"
#include "jobs/merge.h"
#include "jobs/quantize.h"
#include "jobs/recover.h"
#include "jobs/score.h"

namespace crumb::jobs {
namespace {

using Json = nlohmann::ordered_json;

class Stopping final : public Observer {
 public:
  explicit Stopping(std::size_t stop_at) : stop_at_(stop_at) {}
  void note(const std::string&) override { count(); }
  void warning(const std::string&) override { count(); }
  void progress(const Progress& now) override {
    if (now.done > now.all) throw std::logic_error("more is done than there is");
    count();
  }
  std::size_t calls() const { return calls_; }

 private:
  void count() {
    if (++calls_ == stop_at_) throw Interrupted();
  }

  std::size_t stop_at_, calls_ = 0;
};

/// A request's fields; what nothing reads is an error of the test.
class Fields {
 public:
  explicit Fields(Json json) : json_(std::move(json)) {}
  template <class T>
  void take(const char* name, T& field) {
    if (const auto found = json_.find(name); found != json_.end()) {
      field = found->get<T>();
      json_.erase(found);
    }
  }
  template <class T>
  void take(const char* name, std::optional<T>& field) {
    if (json_.contains(name)) take(name, field.emplace());
  }
  void check() const {
    if (!json_.empty()) throw std::logic_error("fields that no job has: " + json_.dump());
  }

 private:
  Json json_;
};

void take_training(Fields& fields, LanguageTraining& how) {
  fields.take("length", how.length);
  fields.take("steps", how.steps);
  fields.take("products", how.products);
  fields.take("schedule", how.schedule);
  fields.take("optimizer_states", how.optimizer_states);
  fields.take("tokens", how.tokens);
  fields.take("threads", how.threads);
}

Json merged(Fields fields, Observer& observer) {
  MergeRequest request;
  fields.take("input", request.input);
  fields.take("adapters", request.adapters);
  fields.take("output", request.output);
  fields.take("weights", request.weights);
  fields.take("shard", request.shard);
  fields.take("dtype", request.dtype);
  MergeTraining training;
  fields.take("train", training.train);
  fields.take("valid", training.valid);
  take_training(fields, training.how);
  if (!training.train.empty()) request.training = training;
  fields.check();
  const MergeReport report = merge(request, observer);
  return {{"matrices", report.matrices},
          {"layers", report.layers.size()},
          {"bytes", report.bytes},
          {"training", report.training}};
}

Json evaluated(Fields fields, Observer& observer) {
  EvaluateRequest request;
  fields.take("models", request.models);
  fields.take("baseline", request.baseline);
  fields.take("data", request.data);
  fields.take("labels", request.labels);
  fields.take("task", request.task);
  fields.take("context", request.context);
  fields.take("threads", request.threads);
  fields.check();
  return json_of(evaluate(request, observer));
}

Json scored(Fields fields, Observer& observer) {
  ScoreRequest request;
  fields.take("models", request.models);
  fields.take("text", request.text);
  fields.take("baseline", request.baseline);
  fields.take("kv_cache", request.model_options.kv_cache);
  fields.take("adapters", request.model_options.adapters);
  fields.take("context", request.context);
  fields.take("tokens", request.tokens);
  fields.take("threads", request.threads);
  fields.check();
  Json models = Json::array();
  for (const ModelScore& score : score(request, observer).models) {
    models.push_back({{"model", score.model}, {"perplexity", score.made.perplexity}});
    if (score.made.against) models.back()["kl_mean"] = score.made.against->kl.value;
  }
  return {{"models", std::move(models)}};
}

Json recovered(Fields fields, Observer& observer) {
  RecoverRequest request;
  fields.take("input", request.input);
  fields.take("baseline", request.baseline);
  fields.take("data", request.data);
  fields.take("valid", request.valid);
  fields.take("output", request.output);
  fields.take("init", request.init);
  fields.take("rank", request.rank);
  fields.take("ranks", request.ranks);
  fields.take("loss", request.loss);
  take_training(fields, request.how);
  fields.check();
  return {{"training", recover(request, observer).training}};
}

Json edge_json(const graph::PlannedEdge& edge) {
  return {{"value", edge.value},           {"spec", edge.spec.to_string()}, {"scale", edge.scale},
          {"zero_point", edge.zero_point}, {"least", edge.least},           {"greatest", edge.greatest}};
}

Json calibrated(Fields fields, Observer& observer) {
  CalibrateRequest request;
  std::string recipe;
  fields.take("input", request.input);
  fields.take("recipe", recipe);
  fields.take("data", request.data);
  fields.take("tokens", request.tokens);
  fields.take("threads", request.threads);
  fields.check();
  request.recipe = parse_recipe(recipe, "the recipe");
  Json edges = Json::array();
  for (const CalibratedEdge& edge : calibrate(request, observer).edges) {
    edges.push_back(edge_json(edge.edge));
    edges.back()["values"] = edge.use.values;
    edges.back()["saturated"] = edge.use.saturated;
  }
  return {{"edges", std::move(edges)}};
}

/// For its edges, and for what it says of fields.
Json quantized(Fields fields, Observer& observer) {
  QuantizeRequest request;
  std::string recipe, profile;
  fields.take("input", request.input);
  fields.take("output", request.output);
  fields.take("recipe", recipe);
  fields.take("data", request.data);
  fields.take("tokens", request.tokens);
  fields.take("resume", request.resume);
  fields.take("memory", request.memory);
  fields.take("keeps_io_types", request.keeps_io_types);
  fields.take("profile", profile);
  std::string form;
  fields.take("form", form);
  fields.check();
  if (!form.empty()) request.form = exporting::form_named(form);
  if (!profile.empty()) request.profile = exporting::qonnx_profile_named(profile);
  request.recipe = parse_recipe(recipe, "the recipe");
  const QuantizeReport report = quantize(request, observer);
  Json edges = Json::array();
  for (const graph::PlannedEdge& edge : report.plan.edges) edges.push_back(edge_json(edge));
  return {{"edges", std::move(edges)}, {"notes", report.notes}};
}

int run(const std::string& job, Json request) {
  std::size_t stop_at = 0;
  if (request.contains("stop_at")) {
    stop_at = request["stop_at"].get<std::size_t>();
    request.erase("stop_at");
  }
  Stopping observer(stop_at);
  const std::map<std::string, Json (*)(Fields, Observer&)> jobs = {
      {"merge", merged},      {"evaluate", evaluated},   {"score", scored},
      {"recover", recovered}, {"calibrate", calibrated}, {"quantize", quantized}};
  Json report = jobs.at(job)(Fields(std::move(request)), observer);
  report["calls"] = observer.calls();
  std::cout << report.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace crumb::jobs

int main(int count, char** arguments) {
  try {
    return crumb::jobs::run(arguments[1], nlohmann::ordered_json::parse(arguments[count - 1]));
  } catch (const crumb::Interrupted&) {
    return 3;
  } catch (const crumb::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.kind() == crumb::ErrorKind::kUsage ? 2 : 1;
  }
}
