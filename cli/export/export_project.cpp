#include "cli/export/export_project.h"

#include <algorithm>
#include <filesystem>

#include "base/files/new_folder.h"
#include "base/files/text.h"
#include "base/files/write_text_file.h"
#include "cli/flags/shape_flags.h"
#include "cli/inspect/verify_accumulator.h"
#include "cli/output.h"
#include "export/finn/build_script.h"
#include "export/finn/layers.h"
#include "export/hls4ml/build_script.h"
#include "export/hls4ml/config.h"
#include "export/project/samples.h"
#include "export/project/scores.h"
#include "export/write.h"
#include "graph/batches.h"
#include "graph/facts/bind_shapes.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/onnx/array_files.h"
#include "graph/onnx/read.h"
#include "jobs/engines/open_engine.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;
namespace finn = exporting::finn;
namespace hls4ml = exporting::hls4ml;
using graph::Graph;
using graph::Tensor;

constexpr double kClock = 5;

/// Returns a flag's value, or else the default.
template <typename T>
T chosen(const T& flag, const T& otherwise) {
  return flag == T{} ? otherwise : flag;
}

/// Writes model.onnx in a new folder, and reads what the request says of it.
class Project {
 public:
  Project(const ProjectRequest& request, exporting::Profile profile)
      : request_(request), folder_(request.folder) {
    std::vector<std::string> scores;
    const Graph source = exporting::without_last_softmax(request.graph, &scores);
    for (const std::string& score : scores)
      report_.notes.push_back("the Softmax behind " + quote_text(score) +
                              " is left out: the project gives the scores before it");
    const fs::path model = path() / "model.onnx";
    exporting::write(source, exporting::Form::kQonnx, model,
                     {.profile = profile, .opset = request.opset, .shapes = read_shapes(request.shapes)});
    written_ = graph::resolve_shapes(graph::without_claims(graph::read_onnx(model)));
    ranges_ = ranges_in_file(request.ranges, source, written_);
    for (std::size_t i = 0; i < source.inputs.size(); ++i) {
      if (source.inputs[i] == written_.inputs[i]) continue;
      report_.notes.push_back("the input " + quote_text(source.inputs[i]) + " is called " +
                              quote_text(written_.inputs[i]) + " there");
    }
  }

  const fs::path& path() const { return folder_.path(); }
  const Graph& written() const { return written_; }
  const analysis::GivenRanges& ranges() const { return ranges_; }

  /// Returns inputs and the network's outputs for them. The inputs are the user's samples, if any, then
  /// random ones and ones that make sums extreme, where the input's span is known.
  std::pair<std::vector<Tensor>, std::vector<Tensor>> vectors(
      const std::map<std::string, exporting::InputSpan>& spans) {
    std::vector<Tensor> inputs;
    if (!request_.flags.data.empty()) {
      if (written_.inputs.size() != 1) {
        throw usage_error("--data is for networks with one input, this one has " +
                          std::to_string(written_.inputs.size()));
      }
      inputs.push_back(graph::read_array(request_.flags.data));
    }
    if (inputs.empty() || spans.contains(written_.inputs[0])) {
      std::vector<Tensor> drawn = exporting::sample_inputs(written_, spans, ranges_);
      inputs = inputs.empty() ? std::move(drawn) : std::vector{exporting::followed_by(inputs[0], drawn[0])};
    }
    const graph::BatchPlan plan = graph::plan_batch(written_, inputs);
    const auto executable = jobs::open_engine().prepare(written_);
    const auto made = graph::run_batch(written_, *executable, inputs, plan);
    std::vector<Tensor> outputs;
    for (const std::string& output : written_.outputs) outputs.push_back(made.at(output));
    report_.samples = static_cast<std::size_t>(plan.total);
    return {std::move(inputs), std::move(outputs)};
  }

  ProjectReport finish(std::size_t layers) {
    report_.layers = layers;
    folder_.commit();
    return std::move(report_);
  }

 private:
  const ProjectRequest& request_;
  NewFolder folder_;
  Graph written_;
  analysis::GivenRanges ranges_;
  ProjectReport report_;
};

std::string hls4ml_json(const ProjectFlags& flags, const hls4ml::NetworkTypes& types) {
  Json json{{"Backend", chosen<std::string>(flags.backend, "Vitis")},
            {"ClockPeriod", chosen(flags.clock, kClock)},
            {"IOType", chosen<std::string>(flags.io_type, "io_parallel")}};
  if (!flags.part.empty()) json["Part"] = flags.part;
  json["OnnxModel"] = "model.onnx";
  json["HLSConfig"] = hls4ml::config_of(types, {.strategy = chosen<std::string>(flags.strategy, "Latency"),
                                                .reuse_factor = chosen(flags.reuse_factor, 1)});
  return json.dump(2) + "\n";
}

}  // namespace

analysis::GivenRanges ranges_in_file(const std::vector<std::string>& requests, const Graph& graph,
                                     const Graph& written) {
  analysis::GivenRanges ranges;
  for (const auto& [name, range] : read_input_ranges(requests)) {
    const auto found = std::ranges::find(graph.inputs, name);
    if (found == graph.inputs.end())
      throw usage_error("--input-range: the network has no input " + quote_text(name));
    ranges[written.inputs[static_cast<std::size_t>(found - graph.inputs.begin())]] = range;
  }
  return ranges;
}

ProjectReport write_hls4ml_project(const ProjectRequest& request) {
  Project project(request, exporting::Profile::kHls4ml);
  const hls4ml::NetworkTypes types = hls4ml::types_of(project.written(), project.ranges());
  hls4ml::refuse_inexact(types);
  write_text_file(project.path() / "hls4ml_config.json", hls4ml_json(request.flags, types));
  write_text_file(project.path() / "build.py", hls4ml::build_script());
  const auto [inputs, outputs] = project.vectors(types.input_spans);
  const fs::path vectors = project.path() / "test_vectors";
  fs::create_directory(vectors);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    graph::write_array(vectors / ("input_" + std::to_string(i) + ".npy"), inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    graph::write_array(vectors / ("expected_" + std::to_string(i) + ".npy"), outputs[i]);
  return project.finish(static_cast<std::size_t>(std::ranges::count_if(
      types.layers, [](const hls4ml::LayerTypes& layer) { return layer.accum.has_value(); })));
}

ProjectReport write_finn_project(const ProjectRequest& request) {
  if (request.graph.inputs.size() != 1 || request.graph.outputs.size() != 1) {
    throw Error("FINN's builds take one input and one output, found " +
                std::to_string(request.graph.inputs.size()) + " and " +
                std::to_string(request.graph.outputs.size()));
  }
  Project project(request, exporting::Profile::kFinn);
  const ProjectFlags& flags = request.flags;
  const nlohmann::ordered_json layers = finn::layers_of(project.written(), project.ranges());
  const Json json{{"part", chosen<std::string>(flags.part, "xc7z020clg400-1")},
                  {"board", chosen<std::string>(flags.board, "Pynq-Z1")},
                  {"clock_ns", chosen(flags.clock, kClock)},
                  {"target_fps", chosen(flags.target_fps, std::int64_t{1000})},
                  {"layers", layers}};
  write_text_file(project.path() / "crumb_layers.json", json.dump(2) + "\n");
  write_text_file(project.path() / "build.py", finn::build_script());
  const auto [inputs, outputs] = project.vectors(finn::spans_of(project.written(), project.ranges()));
  graph::write_array(project.path() / "input.npy", inputs[0]);
  graph::write_array(project.path() / "expected_output.npy", outputs[0]);
  return project.finish(layers.size());
}

}  // namespace crumb::cli
