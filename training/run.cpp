#include "training/run.h"

#include <algorithm>
#include <cstdio>

#include "analysis/accumulator/check.h"
#include "base/files/checked_file.h"
#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/files/write_text_file.h"
#include "base/seconds.h"
#include "export/check_for_profile.h"
#include "export/write.h"
#include "formats/safetensors/safetensors.h"
#include "graph/onnx/array_files.h"
#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "graph/qonnx/quantized_constants.h"
#include "tasks/train/request_json.h"
#include "training/narrowed.h"
#include "training/pruning.h"
#include "training/run_folder.h"
#include "training/widths.h"

namespace crumb::training {
namespace {

namespace fs = std::filesystem;
using tasks::TrainOutcome;
using tasks::TrainRequest;

constexpr double kStateSeconds = 5;
constexpr std::size_t kMostReportBytes = std::size_t{1} << 24;

void write_weights(const fs::path& path, const TrainOutcome& outcome) {
  std::vector<TensorDescription> tensors;
  std::map<std::string, const graph::Tensor*> values;
  for (const auto& [name, tensor] : outcome.float_weights) {
    tensors.push_back({name, DType::kF32, {tensor.shape().begin(), tensor.shape().end()}});
    values[name] = &tensor;
  }
  sort_for_safetensors(tensors);
  SafetensorsWriter writer(path, tensors);
  for (const TensorDescription& tensor : writer.tensors()) {
    writer.write(tensor.name, values.at(tensor.name)->bytes());
  }
  writer.commit();
}

std::string log_text(const TrainOutcome& outcome) {
  std::string text;
  for (const tasks::EpochLine& line : outcome.log) {
    Json json{{"phase", line.phase},
              {"epoch", line.epoch},
              {"loss", json_number(line.loss)},
              {outcome.metric, json_number(line.metric)}};
    for (std::size_t i = 0; i < line.others.size(); ++i)
      json["others"][outcome.outputs.at(i + 1).name] = json_number(line.others[i]);
    text += json.dump() + "\n";
  }
  return text;
}

/// The layers' accumulators, from a file's codes. Throws Error where a certificate in it is wrong.
analysis::AccumulatorReport checked(const graph::Graph& graph, const fs::path& path) {
  analysis::AccumulatorReport report = analysis::check_accumulators(graph);
  if (report.failures.empty()) return report;
  std::string message = quote_text(path.string()) + " does not keep its accumulators:";
  for (const std::string& failure : report.failures) message += "\n  " + failure;
  throw Error(message);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json accumulator_json(const graph::Graph& graph, const analysis::AccumulatorReport& report) {
  Json layers = Json::array();
  for (const analysis::AccumulatorRow& row : report.layers) {
    Json layer;
    layer["name"] = row.name;
    layer["input"] = row.input ? Json{row.input->low, row.input->high} : Json(nullptr);
    layer["bits_needed"] = or_null(row.bits_needed);
    layer["bits_certified"] = or_null(row.bits_certified);
    layer["bits_by_types"] = or_null(bits_by_types(graph, row));
    layer["worst_max"] = row.worst ? Json(row.worst->max) : Json(nullptr);
    layer["worst_min"] = row.worst ? Json(row.worst->min) : Json(nullptr);
    layer["tile"] = row.tile;
    layer["bias"] = graph::name_of(row.bias);
    layer["constrained"] = row.constrained;
    layers.push_back(std::move(layer));
  }
  return layers;
}

/// The share of codes that are zero, of the weights that have codes.
double sparsity_of(const graph::Graph& graph) {
  std::size_t zeros = 0, all = 0;
  const analysis::ProductLayers layers(graph);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const analysis::ProductLayer layer = layers.layer(i);
    for (const std::int64_t code : layer.codes) zeros += code == 0;
    all += layer.codes.size();
  }
  return all == 0 ? 0 : static_cast<double>(zeros) / static_cast<double>(all);
}

Json outputs_json(const TrainOutcome& outcome) {
  Json outputs = Json::array();
  for (const tasks::OutputScores& one : outcome.outputs) {
    Json output{{"name", one.name},
                {"metric", one.metric},
                {"weight", one.weight},
                {"held", one.is_held},
                {"float", json_number(one.float_metric)}};
    if (!outcome.float_network) {
      output["float_longer"] = one.longer_metric ? json_number(*one.longer_metric) : Json(nullptr);
      output["quantized"] = json_number(one.quantized_metric);
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

Json report_json(const TrainRequest& request, const TrainOutcome& outcome, double seconds) {
  Json report;
  report["task"] = request.task;
  report["network"] = outcome.network;
  report["metric"] = outcome.metric;
  report["float"] = json_number(outcome.float_metric);
  report["float_longer"] = outcome.longer_metric ? json_number(*outcome.longer_metric) : Json(nullptr);
  report["quantized"] = json_number(outcome.quantized_metric);
  if (!outcome.outputs.empty()) report["outputs"] = outputs_json(outcome);
  if (!outcome.references.empty()) {
    report["references"] = Json::object();
    for (const auto& [name, score] : outcome.references) report["references"][name] = json_number(score);
  }
  report["accumulator"] = Json::array();
  report["seconds"] = seconds;
  if (!outcome.stands_for.empty()) report["miniature_of"] = outcome.stands_for;
  report["seed"] = request.seed;
  report["float_epochs"] = outcome.float_epochs;
  report["epochs"] = outcome.epochs;
  report["recipe"] = to_yaml(outcome.recipe);
  report["sparsity"] = sparsity_of(outcome.quantized);
  report["repaired"] = outcome.repaired;
  if (!outcome.wrapped.empty()) {
    report["wrapped"] = Json::array();
    for (const tasks::WrappedMetric& one : outcome.wrapped) {
      report["wrapped"].push_back({{"bits", one.bits}, {outcome.metric, json_number(one.metric)}});
    }
  }
  report["request"] = tasks::request_json(request);
  return report;
}

/// Writes arrays, NAME.npy where there is one, else NAME-VALUE.npy each; returns the files' names.
std::vector<std::string> write_arrays(const fs::path& folder, const std::string& name,
                                      const tasks::NamedArrays& arrays) {
  std::vector<std::string> files;
  for (const auto& [value, array] : arrays) {
    std::string file = arrays.size() == 1 ? name : name + "-" + graph::file_name_of(value);
    while (std::ranges::find(files, file + ".npy") != files.end()) file += '_';
    files.push_back(file + ".npy");
    refuse_input(folder / files.back());
    graph::write_array(folder / files.back(), array);
  }
  return files;
}

/// A float network and its samples, for quantizing without training.
Json write_float(const TrainRun& run, const RunFolder& folder, const TrainOutcome& outcome, double start) {
  folder.drop_report();
  const tasks::NetworkWithSamples& network = *outcome.float_network;
  (void)exporting::write(network.graph, exporting::Form::kFloat, run.folder / "float.onnx", {});
  Json arrays = Json::array();
  for (const auto& [name, values] :
       {std::pair("calibration", &network.calibration), std::pair("valid", &network.inputs),
        std::pair("labels", &network.targets)})
    for (const std::string& file : write_arrays(run.folder, name, *values)) arrays.push_back(file);
  write_text_file(run.folder / "log.jsonl", log_text(outcome));
  Json report{{"task", run.request.task},
              {"network", outcome.network},
              {"metric", outcome.metric},
              {"float", json_number(outcome.float_metric)},
              {"seconds", now_seconds() - start},
              {"seed", run.request.seed},
              {"float_epochs", outcome.float_epochs},
              {"arrays", arrays},
              {"request", tasks::request_json(run.request)}};
  if (!outcome.outputs.empty()) report["outputs"] = outputs_json(outcome);
  write_text_file(folder.report(), report.dump(2) + "\n");
  folder.drop_state();
  return report;
}

/// Why no QONNX file can hold the network; "" where one can, or where a profile needs one, so that writing it
/// says why not.
std::string why_not_qonnx(const graph::Graph& graph, const std::string& profile) {
  std::string unsaid = graph::constants_without_quantizer(graph);
  if (!unsaid.empty() || !profile.empty()) return unsaid;
  try {
    exporting::check_for_profile(graph, "qonnx");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// When states go to the disk.
class Keeper {
 public:
  Keeper(const TrainRun& run, const RunFolder& folder) : path_(folder.state()), every_(run.keep_every) {}

  bool is_due() {
    ++steps_;
    if (every_ > 0) return steps_ % every_ == 0;
    return now_seconds() - last_ >= kStateSeconds;
  }
  void keep(const std::string& state) {
    CheckedFileWriter file(path_);
    file.append(std::as_bytes(std::span(state)));
    file.commit();
    last_ = now_seconds();
  }
  std::string kept() const {
    std::error_code error;
    if (!fs::exists(path_, error)) return {};
    const OwnFiles own;
    return std::string(CheckedFile::open(path_).take("the state of the run").text());
  }

 private:
  fs::path path_;
  int every_;
  std::int64_t steps_ = 0;
  double last_ = now_seconds();
};

}  // namespace

Json train_into(const TrainRun& run, tasks::Trainer& trainer) {
  const double start = now_seconds();
  const RunFolder folder(run.folder, run.restart);
  Keeper keeper(run, folder);
  tasks::TrainHooks hooks;
  hooks.progress = run.progress;
  hooks.state = keeper.kept();
  hooks.shares_float = run.shares_float;
  if (!run.profile.empty())
    hooks.check = [&](const graph::Graph& graph) { exporting::check_for_profile(graph, run.profile); };
  hooks.wants_state = [&] { return keeper.is_due(); };
  hooks.keep = [&](const std::string& state) { keeper.keep(state); };
  TrainOutcome outcome = trainer.train(run.request, hooks);
  if (outcome.float_network) return write_float(run, folder, outcome, start);

  folder.drop_report();
  write_weights(run.folder / "float.safetensors", outcome);
  write_text_file(run.folder / "log.jsonl", log_text(outcome));
  const fs::path packed = run.folder / "model.crumb", onnx = run.folder / "model.onnx";
  graph::write_crumb_graph(outcome.quantized, packed,
                           {.zstd_level = outcome.recipe.zstd, .layout = outcome.recipe.layout});
  std::error_code error;
  refuse_input(onnx);
  fs::remove(onnx, error);
  const std::string unsaid = why_not_qonnx(outcome.quantized, run.profile);
  if (unsaid.empty())
    (void)exporting::write(
        outcome.quantized, exporting::Form::kQonnx, onnx,
        {.profile = exporting::qonnx_profile_named(run.profile.empty() ? "qonnx" : run.profile)});
  Json report = report_json(run.request, outcome, 0);
  const graph::Graph written = graph::read_crumb_graph(packed);
  report["accumulator"] = accumulator_json(written, checked(written, packed));
  Json notes = Json::array();
  if (unsaid.empty()) {
    (void)checked(graph::read_onnx(onnx), onnx);
  } else {
    notes.push_back("no model.onnx: " + unsaid);
  }
  if (run.request.own)
    for (const std::string& note : run.request.own->notes) notes.push_back(note);
  if (!notes.empty()) report["notes"] = std::move(notes);
  if (outcome.widths) report["learned_bits"] = widths_json(*outcome.widths);
  if (outcome.pruned) report["pruning"] = pruning_json(written, *outcome.pruned);
  report["seconds"] = now_seconds() - start;
  write_text_file(folder.report(), report.dump(2) + "\n");
  folder.drop_state();
  return report;
}

Json finished_report(const TrainRequest& request, const fs::path& folder) {
  std::error_code error;
  const fs::path path = report_in(folder);
  if (!fs::exists(path, error)) return nullptr;
  const OwnFiles own;
  const auto text = read_text_file(path, kMostReportBytes);
  if (!text.ok()) return nullptr;
  Json report = Json::parse(text.value(), nullptr, false);
  if (!report.is_object() || report.value("request", Json()) != tasks::request_json(request)) return nullptr;
  return report;
}

}  // namespace crumb::training
