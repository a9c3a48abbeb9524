// Quantizing a checkpoint or a network into a file: what crumb quantize does.
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
#include "ptq/stages.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "quant/recipe/recipe.h"

namespace crumb::jobs {

struct QuantizeRequest {
  /// A Hugging Face folder, .safetensors, .gguf, .pt or .bin file, or an ONNX network.
  std::string input;
  /// A packed file (.crumb), or of a network .onnx. Empty: of a dry run alone.
  std::string output;
  /// Without stages, weights of networks with samples take gptq where a layer loses less (usual_rounding()).
  Recipe recipe;

  /// Tensors are rounded one by one, in bounded memory; a network has activations, samples and stages.
  enum class As : std::uint8_t { kWhatIsAsked, kTensors, kNetwork };
  As as = As::kWhatIsAsked;  ///< a network where the input is one, or a checkpoint's recipe or data need it

  std::string key;  ///< of a PyTorch file's tensors: the entry that is the model

  // Of networks.
  std::vector<std::string> data;  ///< samples: X.npy, NAME=X.npy, a folder of .npy, a text or .jsonl
  std::size_t tokens = 0;         ///< of text; 0: all
  std::string device;             ///< where samples run: "cuda"; "": the CPU, on the runtime where it can
  exporting::Form form = exporting::Form::kQonnx;           ///< of .onnx: kQonnx or kQcdq
  exporting::Profile profile = exporting::Profile::kQonnx;  ///< what shall take the file
  std::int64_t opset = 0;                                   ///< 0: 13, or the least that will do
  std::map<std::string, std::vector<std::int64_t>> shapes;  ///< of inputs, in the file
  bool keeps_io_types =
      false;                ///< inputs and outputs of float16 networks keep their types, or it is an error
  bool float32_io = false;  ///< they become float32
  /// The recipe says all: samples move no quantizers, as where a search chose it.
  bool is_whole = false;
  bool pads_groups = false;     ///< groups may be smaller at the end of a row (ptq/precision/fitting_specs.h)
  bool checks_profile = false;  ///< Error where the result is not what the profile's tool takes

  // Running.
  int threads = 0;           ///< 0: those the machine has; the number never changes the result
  std::uint64_t memory = 0;  ///< bytes; 0: the usual
  bool dry_run = false;      ///< nothing is written
  bool resume =
      false;  ///< goes on where a run that was ended stopped, and leaves what this one does not finish
  /// What was read for the request besides: the output may not replace it.
  std::vector<std::filesystem::path> read_files;
};

/// What was done, or of a dry run would be.
struct QuantizeReport {
  std::string input, output;
  bool is_network = false;
  bool foreseen = false;              ///< a dry run
  bool upper_bound = false;           ///< bytes are at most these, because zstd will make them fewer
  std::vector<TensorReport> tensors;  ///< of a network: its constants, in the order of the plan's
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;  ///< of what was written
  double bits_per_weight = 0;      ///< of what was quantized, before zstd
  double seconds = 0;
  std::uint64_t peak_bytes = 0;            ///< of resident memory; of tensors' dry run: at most
  std::vector<SkippedEntry> skipped;       ///< what the source's files hold beside tensors
  std::optional<std::string> dequantized;  ///< Checkpoint::dequantized()
  std::vector<std::string> notes;          ///< what the observer was told
  Recipe recipe;                           ///< as it was carried out

  // Of networks.
  graph::QuantPlan plan;
  std::vector<ptq::StageReport> stages;
  std::vector<graph::BiasUse> biases;                ///< of the plan's; empty of a dry run
  std::optional<graph::GraphComparison> comparison;  ///< with samples
};

/// Whether the request is taken for a network.
bool is_of_network(const QuantizeRequest& request);

/// Throws Error, of kind kUsage where the request contradicts itself or the input; Interrupted. Then there is
/// no output, and an older one stays.
QuantizeReport quantize(const QuantizeRequest& request, Observer& observer);

/// Bits of a tensor's codes and scales by the number of its elements; 0 of none.
double bits_a_number(const TensorReport& tensor);

/// The same of all that was quantized.
double bits_a_weight(const std::vector<TensorReport>& tensors);

}  // namespace crumb::jobs
