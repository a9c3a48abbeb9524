#include "models/fresh_network.h"

#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/json/json_file.h"
#include "base/within.h"
#include "formats/checkpoint/checkpoint.h"
#include "formats/checkpoint/decoder_config.h"
#include "formats/checkpoint/model_files.h"
#include "models/checkpoint_graph.h"
#include "models/model_weights.h"

namespace crumb::models {
namespace {

constexpr double kUsualRange = 0.02;  ///< Hugging Face's

using Files = std::map<std::string, std::string>;

/// Files without tensors.
class FilesAlone final : public WeightSource {
 public:
  explicit FilesAlone(const Files& files) : files_(files) {}
  std::vector<std::string> names() const override { return {}; }
  bool has(std::string_view) const override { return false; }
  std::vector<size_t> shape(std::string_view name) const override { throw none(name); }
  std::vector<float> floats(std::string_view name) const override { throw none(name); }
  std::optional<QuantizedTensor> codes(std::string_view) const override { return std::nullopt; }
  std::optional<std::string> file(std::string_view path) const override {
    const auto found = files_.find(std::string(path));
    return found == files_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string describe() const override { return "a configuration"; }

 private:
  static Error none(std::string_view name) { return Error("there is no tensor " + quote_text(name)); }
  const Files& files_;
};

/// The same numbers from the same seed with every library: std::normal_distribution is not.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : bits_(seed) {}
  float draw(double deviation) {
    const double a = uniform(), b = uniform();
    return static_cast<float>(deviation * std::sqrt(-2 * std::log(1 - a)) *
                              std::cos(2 * std::numbers::pi * b));
  }

 private:
  double uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  std::mt19937_64 bits_;
};

class DrawnWeights final : public ModelWeights {
 public:
  DrawnWeights(const WeightSource& files, double deviation, float gain, std::uint64_t seed)
      : ModelWeights(files), deviation_(deviation), gain_(gain), normal_(seed) {}

  void add(graph::Graph& graph, const std::string& name, const std::vector<size_t>& shape,
           const std::vector<std::int64_t>& axes) override {
    if (graph.initializers.contains(name)) return;
    const size_t count = std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>());
    std::vector<float> values(count, name.ends_with("bias") ? 0.0F : gain_);
    if (shape.size() > 1)
      for (float& value : values) value = normal_.draw(deviation_);
    add_floats(graph, name, values, shape, axes);
  }

 private:
  double deviation_;
  float gain_;  ///< of a norm that changes nothing
  Normal normal_;
};

Files files_of(const std::filesystem::path& folder) {
  Files files;
  for (const std::string& name : model_file_names(folder).take()) {
    std::error_code none;
    if (std::filesystem::is_regular_file(folder / name, none))
      files[name] = read_text_file(folder / name, Checkpoint::kMaxModelFile).take();
  }
  return files;
}

}  // namespace

FreshNetwork fresh_network(const std::filesystem::path& config, std::uint64_t seed) {
  std::error_code none;
  const bool is_folder = std::filesystem::is_directory(config, none);
  const std::filesystem::path folder = is_folder                  ? config
                                       : config.has_parent_path() ? config.parent_path()
                                                                  : ".";
  if (is_folder) note_input_folder(folder);
  try {
    if (!is_folder && config.filename() != "config.json")
      throw Error("expected a folder with a config.json, or that file");
    FreshNetwork made{.graph = {}, .files = files_of(folder)};
    const auto text = made.files.find("config.json");
    if (text == made.files.end()) throw Error("there is no config.json");
    const JsonFile json("config.json", text->second);
    const bool adds_one = DecoderConfig::knows(json.string("model_type").value_or("")) &&
                          DecoderConfig::parse(json).norm_plus_one;
    const FilesAlone files(made.files);
    DrawnWeights weights(files, json.number("initializer_range").value_or(kUsualRange),
                         adds_one ? 0.0F : 1.0F, seed);
    made.graph = graph_of_config(weights);
    return made;
  } catch (const Error& error) {
    throw within_file(quote_text(config.string()), error);
  }
}

}  // namespace crumb::models
