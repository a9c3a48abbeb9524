// Quantizes a checkpoint or a network into a file: what crumb quantize does.
//
//   jobs::Observer silent;
//   const Recipe recipe = parse_recipe("weights: int4:group=32", "my recipe");
//   const jobs::QuantizeReport report = jobs::quantize(
//       {.input = "SmolLM2-135M", .output = "smol.crumb", .recipe = recipe}, silent);
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "export/write.h"
#include "graph/quantize/compare.h"
#include "graph/quantize/plan.h"
#include "jobs/observer.h"
#include "jobs/report_file.h"
#include "ptq/stages.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "quant/recipe/recipe.h"

namespace crumb::jobs {

struct QuantizeRequest {
  /// A Hugging Face folder, .safetensors, .gguf, .pt or .bin file, an ONNX network or a TorchScript archive.
  std::string input;
  /// A packed file (.crumb), or for a network .onnx. May be empty in a dry run only.
  std::string output;
  /// Without stages, a network with samples rounds by usual_rounding(): gptq where a layer loses less by it.
  Recipe recipe;

  /// kTensors rounds tensors one by one, in bounded memory; kNetwork has activations, samples and stages.
  enum class As : std::uint8_t { kWhatIsAsked, kTensors, kNetwork };
  As as = As::kWhatIsAsked;  ///< a network where the input is one, or where a checkpoint's recipe or data
                             ///< need one

  std::string key;  ///< for a PyTorch file: the entry that holds the model's tensors

  // For networks.
  std::vector<std::string> data;  ///< samples: X.npy, NAME=X.npy, a folder of .npy, a text or .jsonl
  std::vector<std::string> batch_axes = {};  ///< NAME=AXIS: inputs whose samples are not on axis 0
  std::size_t tokens = 0;                    ///< the first tokens of a text; 0: all
  bool pairs = false;                        ///< lines of text hold two texts each, with a tab between
  std::string device;  ///< where samples run: "cuda"; "": the CPU, on the runtime where it can
  exporting::Form form = exporting::Form::kQonnx;           ///< for .onnx: kQonnx or kQcdq
  exporting::Profile profile = exporting::Profile::kQonnx;  ///< the tool that the file is for
  std::int64_t opset = 0;                                   ///< 0: 13, or the lowest that has the operators
  /// Of inputs, in the file; of a TorchScript archive without `data` those that it is called with.
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::vector<std::string> arguments = {};  ///< of a TorchScript archive: NAME=VALUE, what is no tensor
  bool keeps_io_types =
      false;                ///< float16 networks keep the types of inputs and outputs; else it is an error
  bool float32_io = false;  ///< inputs and outputs become float32
  /// Samples leave quantizers where the recipe puts them, as for a recipe that a search chose.
  bool is_whole = false;
  bool pads_groups = false;     ///< groups may be smaller at the end of a row (ptq/precision/fitting_specs.h)
  bool checks_profile = false;  ///< throws Error where the profile's tool does not take the result

  // How it runs.
  int threads = 0;           ///< 0: as many as the machine has; the number never changes the result
  std::uint64_t memory = 0;  ///< bytes; 0: the default
  bool dry_run = false;      ///< writes nothing
  bool resume =
      false;  ///< continues an interrupted run, and keeps the state of this run if it does not finish
  /// Other files that were read for the request: the output may not replace them.
  std::vector<std::filesystem::path> read_files;
  ReportFile report = {};
};

/// What was done, or in a dry run what would be done.
struct QuantizeReport {
  std::string input, output;
  bool is_network = false;
  bool foreseen = false;              ///< true in a dry run
  bool upper_bound = false;           ///< output_bytes is an upper bound, because zstd will make them fewer
  std::vector<TensorReport> tensors;  ///< for a network: its constants, in the plan's order
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;  ///< bytes of the written files
  double bits_per_weight = 0;      ///< of the quantized tensors, before zstd
  double seconds = 0;
  std::uint64_t peak_bytes = 0;            ///< resident memory; in a dry run of tensors: an upper bound
  std::vector<SkippedEntry> skipped;       ///< what the source's files hold in addition to tensors
  std::optional<std::string> dequantized;  ///< Checkpoint::dequantized()
  std::vector<std::string> notes;          ///< what the observer was told
  Recipe recipe;                           ///< as it was carried out

  // For networks.
  graph::QuantPlan plan;
  std::vector<ptq::StageReport> stages;
  std::vector<graph::BiasUse> biases;                ///< those of the plan; empty in a dry run
  std::optional<graph::GraphComparison> comparison;  ///< with samples
};

/// Whether the request is carried out as one for a network.
bool is_of_network(const QuantizeRequest& request);

/// Throws Error, of kind kUsage where the request contradicts itself or the input; throws Interrupted. Then
/// there is no output, and an older one stays.
QuantizeReport quantize(const QuantizeRequest& request, Observer& observer);

/// Returns the bits of a tensor's codes and scales divided by the number of its elements; 0 where it has
/// none.
double bits_a_number(const TensorReport& tensor);

/// Returns the same ratio over all quantized tensors.
double bits_a_weight(const std::vector<TensorReport>& tensors);

}  // namespace crumb::jobs
