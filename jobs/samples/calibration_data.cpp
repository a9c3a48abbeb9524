#include "jobs/samples/calibration_data.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/files/counted.h"
#include "base/files/inputs.h"
#include "base/files/interrupt.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/text/ascii_case.h"
#include "base/text/nearest_name.h"
#include "base/within.h"
#include "formats/checkpoint/detect.h"
#include "graph/batches.h"
#include "graph/onnx/array_files.h"
#include "ptq/samples/sample_bytes.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::Tensor;

constexpr std::int64_t kMostSamples = 32;
/// The most bytes of values that are alive at once while samples run together. A constant: a moving average
/// over batches (search=ema) depends on the size of a batch, and no result may depend on a machine's memory.
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

}  // namespace

std::vector<fs::path> sample_files(const std::string& path, const std::string& field) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  note_input_folder(path);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".npy") files.push_back(entry.path());
  }
  if (error) throw Error(field + " " + quote_text(path) + " cannot be listed: " + error.message());
  if (files.empty()) throw Error(field + " " + quote_text(path) + " holds no .npy file");
  std::ranges::sort(files);
  return files;
}

namespace {

/// "NAME=PATH" where NAME is an input; else a path.
std::pair<std::string, std::string> split_wish(const Graph& graph, const std::string& requested,
                                               const std::string& field) {
  for (const std::string& input : graph.inputs) {  // a name may hold a '='
    if (requested.starts_with(input + "=")) return {input, requested.substr(input.size() + 1)};
  }
  const std::size_t equals = requested.find('=');
  if (equals == std::string::npos || fs::exists(requested)) return {"", requested};
  throw usage_error(field + " " + quote_text(requested) + ": " +
                    unknown_name("input", requested.substr(0, equals), graph.inputs));
}

/// Converts float64 samples, which NumPy makes by default, to float32 where the network takes that.
Tensor narrowed(const Tensor& array, const graph::Value* value) {
  const bool narrows =
      value && value->type == graph::ElementType::kFloat && array.type() == graph::ElementType::kDouble;
  return narrows ? Tensor::floats(array.shape(), array.to_floats()) : array;
}

}  // namespace

void refuse_foreign_samples(const std::string& path, const std::string& field) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return;
  const std::string extension = lower_case(fs::path(path).extension().string());
  const auto refuse = [&](const std::string& what) {
    return usage_error(field + " " + quote_text(path) + " is " + what);
  };
  if (extension == ".npz")
    throw refuse("an archive of arrays; give each array as a file of its own (numpy.save), as " + field +
                 " NAME=FILE.npy for each input");
  if (extension == ".json")
    throw refuse(
        "a JSON file; texts and conversations are lines of a .jsonl file, samples of a graph .npy files");
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok() || extension == ".npy" || extension == ".pb" || extension == ".jsonl") return;
  const std::span<const std::byte> bytes = file.value().bytes();
  const DetectedFile found = detect_model_file(bytes.first(std::min(bytes.size(), kDetectedBytes)), "");
  const bool is_model = found.kind == ModelFileKind::kSafetensors || found.kind == ModelFileKind::kZip ||
                        found.kind == ModelFileKind::kGguf || found.kind == ModelFileKind::kTorch ||
                        found.kind == ModelFileKind::kOther;
  if (is_model) throw refuse(found.what + "; expected a text, or an array as .npy");
}

void add_sample_paths(const std::vector<std::string>& samples, std::vector<fs::path>& paths) {
  for (const std::string& sample : samples) {
    paths.emplace_back(sample);
    paths.emplace_back(sample.substr(sample.find('=') + 1));
  }
}

CalibrationData::CalibrationData(const Graph& graph, const std::vector<std::string>& requests,
                                 const std::string& field, const std::string& what, graph::BatchAxes axes)
    : graph_(&graph), field_(field), axes_(std::move(axes)) {
  std::map<std::string, std::vector<fs::path>> named;
  for (const std::string& requested : requests) {
    const auto [given, path] = split_wish(graph, requested, field);
    if (given.empty() && graph.inputs.size() != 1) {
      throw usage_error(field_ + " " + quote_text(requested) + ": the graph has " +
                        count_text(graph.inputs.size(), "input") +
                        ", expected NAME=FILE.npy for each, as in " + field + " " +
                        (graph.inputs.empty() ? "x" : graph.inputs[0]) + "=x.npy");
    }
    const std::string& name = given.empty() ? graph.inputs[0] : given;
    refuse_foreign_samples(path, field_);
    if (!named.emplace(name, sample_files(path, field)).second) {
      throw usage_error(field_ + " gives input " + quote_text(name) + " twice");
    }
  }
  for (const std::string& input : graph.inputs) {
    const auto found = named.find(input);
    if (found == named.end()) {
      throw usage_error("input " + quote_text(input) + " has no " + what + ": give " + field + " " + input +
                        "=FILE.npy");
    }
    if (!files_.empty() && files_.front().size() != found->second.size()) {
      throw usage_error(field_ + " gives input " + quote_text(graph.inputs[0]) + " " +
                        count_text(files_.front().size(), "file") + " and " + quote_text(input) + " " +
                        std::to_string(found->second.size()) + "; expected as many of each");
    }
    files_.push_back(std::move(found->second));
  }
}

std::size_t CalibrationData::axis_of(std::size_t input) const {
  return static_cast<std::size_t>(graph::batch_axis_of(axes_, graph_->inputs[input]));
}

Tensor CalibrationData::read(std::size_t input, const fs::path& path) const {
  const graph::Value* value = graph_->find(graph_->inputs[input]);
  Tensor array = narrowed(graph::read_array(path), value);
  const bool one_sample = value && value->shape && value->shape->size() == array.shape().size() + 1;
  if (!one_sample) return array;
  std::vector<std::int64_t> shape = array.shape();
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis_of(input)), 1);
  return array.reshaped(shape);
}

std::vector<Tensor> CalibrationData::inputs(std::size_t file) const {
  std::vector<Tensor> inputs;
  inputs.reserve(files_.size());
  for (std::size_t i = 0; i < files_.size(); ++i) inputs.push_back(read(i, files_[i][file]));
  return inputs;
}

void CalibrationData::visit(const std::function<void(const std::vector<Tensor>&)>& batch) const {
  std::map<std::vector<std::vector<std::int64_t>>, std::int64_t> pieces;  // by the shapes of the inputs
  for (std::size_t file = 0; file < files(); ++file) {
    const std::vector<Tensor> inputs = this->inputs(file);
    graph::BatchPlan plan = [&] {
      try {
        return graph::plan_batch(*graph_, inputs, kMostSamples, axes_);
      } catch (const Error& error) {
        throw within_file(field_ + " " + quote_text(files_.front()[file].string()), error);
      }
    }();
    if (plan.total == 0)
      throw Error(field_ + " " + quote_text(files_.front()[file].string()) +
                  " holds no samples: its shape is " + graph::text_of(std::span(inputs.front().shape())));
    const graph::Value* value = graph_->find(graph_->inputs[0]);
    const std::size_t axis = axis_of(0);
    const bool is_fixed =
        value && value->shape && value->shape->size() > axis && (*value->shape)[axis].known();
    if (!is_fixed && plan.total > 1) {
      std::vector<std::vector<std::int64_t>> shapes;
      for (const Tensor& input : inputs) shapes.push_back(input.shape());
      const auto found = pieces.find(shapes);
      plan.piece = found != pieces.end() ? found->second : (pieces[shapes] = piece_of(inputs, plan.piece));
    }
    for (std::int64_t begin = 0; begin < plan.total; begin += plan.piece) {
      check_interrupt();
      const std::int64_t left = plan.total - begin,
                         count = is_fixed ? plan.piece : std::min(plan.piece, left);
      if (is_fixed && begin > 0 && left < count) break;  // filled up, its last sample would count many times
      batch(graph::piece_of(*graph_, inputs, plan, begin, count));
    }
  }
}

std::int64_t CalibrationData::piece_of(const std::vector<Tensor>& inputs, std::int64_t usual) const {
  const auto count_of = [&](std::size_t input) {
    const std::vector<std::int64_t>& shape = inputs[input].shape();
    return axis_of(input) < shape.size() ? shape[axis_of(input)] : 0;
  };
  bool are_alike = true;
  for (std::size_t i = 0; i < inputs.size(); ++i) are_alike = are_alike && count_of(i) == count_of(0);
  const auto bytes = are_alike ? ptq::bytes_of_sample(*graph_, inputs, axes_) : std::nullopt;
  if (!bytes) return usual;
  const auto fitting = static_cast<std::int64_t>(kMostBytes / std::max<std::uint64_t>(*bytes, 1));
  return std::clamp<std::int64_t>(fitting, 1, std::min(kMostSamples, count_of(0)));
}

graph::Batches CalibrationData::batches() const {
  return [this](const auto& batch) { visit(batch); };
}

}  // namespace crumb::jobs
