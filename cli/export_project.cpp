#include "cli/export_project.h"

#include <algorithm>
#include <filesystem>

#include "cli/array_files.h"
#include "cli/open_engine.h"
#include "cli/output.h"
#include "cli/run_graph.h"
#include "cli/shape_flags.h"
#include "cli/verify_accumulator.h"
#include "export/hls4ml/build_script.h"
#include "export/hls4ml/config.h"
#include "export/hls4ml/samples.h"
#include "export/hls4ml/scores.h"
#include "export/write.h"
#include "formats/io/text.h"
#include "formats/io/write_text_file.h"
#include "models/graph/cost/bind_shapes.h"
#include "models/graph/onnx/read.h"
#include "models/graph/qonnx/infer_datatypes.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;
namespace hls4ml = exporting::hls4ml;
using graph::Graph;
using graph::Tensor;

/// A folder that gets its name when it is whole.
class NewFolder {
 public:
  explicit NewFolder(fs::path target) : target_(std::move(target)) {
    std::error_code error;
    if (fs::exists(target_, error) && !(fs::is_directory(target_, error) && fs::is_empty(target_, error))) {
      throw usage_error("the output " + quote_text(target_.string()) +
                        " exists and is no empty folder; choose another, or remove it");
    }
    building_ = target_;
    building_ += ".partial";
    fs::remove_all(building_, error);
    fs::create_directories(building_ / "test_vectors", error);
    if (error)
      throw Error("cannot make the folder " + quote_text(building_.string()) + ": " + error.message());
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!building_.empty()) fs::remove_all(building_, ignored);
  }

  const fs::path& path() const { return building_; }

  void commit() {
    std::error_code error;
    fs::remove(target_, error);  // an empty folder
    fs::rename(building_, target_, error);
    if (error) throw Error("cannot make the folder " + quote_text(target_.string()) + ": " + error.message());
    building_.clear();
  }

 private:
  fs::path target_, building_;
};

std::string project_json(const ProjectFlags& flags, const hls4ml::NetworkTypes& types) {
  Json json{{"Backend", flags.backend}, {"ClockPeriod", flags.clock}, {"IOType", flags.io_type}};
  if (!flags.part.empty()) json["Part"] = flags.part;
  json["OnnxModel"] = "model.onnx";
  json["HLSConfig"] =
      hls4ml::config_of(types, {.strategy = flags.strategy, .reuse_factor = flags.reuse_factor});
  return json.dump(2) + "\n";
}

/// The user's samples, or drawn ones; then those that take sums far.
std::vector<Tensor> inputs_of(const ProjectRequest& request, const Graph& written,
                              const hls4ml::NetworkTypes& types, const graph::GivenRanges& ranges) {
  std::vector<Tensor> inputs = hls4ml::sample_inputs(written, types, ranges);
  if (request.flags.data.empty()) return inputs;
  if (inputs.size() != 1)
    throw usage_error("--data is for networks with one input, this one has " + std::to_string(inputs.size()));
  inputs[0] = hls4ml::followed_by(read_array(request.flags.data), inputs[0]);
  return inputs;
}

}  // namespace

graph::GivenRanges ranges_in_file(const std::vector<std::string>& wishes, const Graph& graph,
                                  const Graph& written) {
  graph::GivenRanges ranges;
  for (const auto& [name, range] : read_input_ranges(wishes)) {
    const auto found = std::ranges::find(graph.inputs, name);
    if (found == graph.inputs.end())
      throw usage_error("--input-range: the network has no input " + quote_text(name));
    ranges[written.inputs[static_cast<std::size_t>(found - graph.inputs.begin())]] = range;
  }
  return ranges;
}

void add_project_flags(CLI::App& verb, ProjectFlags& flags) {
  verb.add_option("--backend", flags.backend,
                  "hls4ml-project: Vitis, Vivado, Quartus, oneAPI or Catapult (Vitis)");
  verb.add_option("--part", flags.part, "hls4ml-project: the device (hls4ml's own for the backend)");
  verb.add_option("--clock", flags.clock, "hls4ml-project: its period in nanoseconds (5)")
      ->check(CLI::PositiveNumber);
  verb.add_option("--io-type", flags.io_type, "hls4ml-project: io_parallel or io_stream (io_parallel)")
      ->check(CLI::IsMember({"io_parallel", "io_stream"}));
  verb.add_option("--reuse-factor", flags.reuse_factor,
                  "hls4ml-project: products that one multiplier does, one after the other (1)")
      ->check(CLI::PositiveNumber);
  verb.add_option("--strategy", flags.strategy, "hls4ml-project: Latency or Resource (Latency)")
      ->check(CLI::IsMember({"Latency", "Resource"}));
  verb.add_option("--data", flags.data, "hls4ml-project: samples to compare by, besides those drawn")
      ->type_name("X.npy");
}

ProjectReport write_hls4ml_project(const ProjectRequest& request) {
  NewFolder folder(request.folder);
  ProjectReport report;
  std::vector<std::string> scores;
  const Graph source = hls4ml::without_last_softmax(request.graph, &scores);
  for (const std::string& score : scores)
    report.notes.push_back("the Softmax behind " + quote_text(score) +
                           " is left out: the project gives the scores before it");
  const exporting::WriteOptions options{
      .profile = exporting::Profile::kHls4ml, .opset = request.opset, .shapes = read_shapes(request.shapes)};
  const fs::path model = folder.path() / "model.onnx";
  exporting::write(source, exporting::Form::kQonnx, model, options);
  const Graph written = graph::resolve_shapes(graph::without_claims(graph::read_onnx(model)));
  const graph::GivenRanges ranges = ranges_in_file(request.ranges, source, written);
  const hls4ml::NetworkTypes types = hls4ml::types_of(written, ranges);
  hls4ml::refuse_inexact(types);
  write_text_file(folder.path() / "hls4ml_config.json", project_json(request.flags, types));
  write_text_file(folder.path() / "build.py", hls4ml::build_script());
  const std::vector<Tensor> inputs = inputs_of(request, written, types, ranges);
  const BatchPlan plan = plan_batch(written, inputs);
  const auto executable = open_engine().prepare(written);
  const auto outputs = run_batch(written, *executable, inputs, plan);
  const auto path_of = [&](const char* kind, std::size_t number) {
    return folder.path() / "test_vectors" / (std::string(kind) + "_" + std::to_string(number) + ".npy");
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) write_array(path_of("input", i), inputs[i]);
  for (std::size_t i = 0; i < written.outputs.size(); ++i)
    write_array(path_of("expected", i), outputs.at(written.outputs[i]));
  for (const hls4ml::LayerTypes& layer : types.layers) report.layers += layer.accum ? 1 : 0;
  report.samples = static_cast<std::size_t>(plan.total);
  for (std::size_t i = 0; i < source.inputs.size(); ++i) {
    if (source.inputs[i] == written.inputs[i]) continue;
    report.notes.push_back("the input " + quote_text(source.inputs[i]) + " is called " +
                           quote_text(written.inputs[i]) + " there");
  }
  folder.commit();
  return report;
}

}  // namespace crumb::cli
