// Quantizes a network by a recipe, in memory: what crumb quantize writes, and crumb sweep measures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "export/lint/lint.h"
#include "graph/graph.h"
#include "graph/quantize/compare.h"
#include "graph/quantize/plan.h"
#include "jobs/engines/torchscript_file.h"
#include "jobs/observer.h"
#include "jobs/samples/calibration_samples.h"
#include "ptq/stages.h"
#include "quant/recipe/recipe.h"
#include "quant/tensor_source.h"
#include "runtime/engine.h"

namespace crumb::jobs {

/// The network to quantize: a graph's file, or a checkpoint whose network is known.
struct NetworkSource {
  std::shared_ptr<const TensorSource> tensors;  ///< of a checkpoint, else null
  graph::Graph graph;
  std::vector<std::filesystem::path> paths;  ///< all files that are read
  std::set<std::string> left_out = {};       ///< tensors of a checkpoint that its network does not take

  const Checkpoint* checkpoint() const { return tensors ? tensors->checkpoint() : nullptr; }
  /// Returns the size of the files of the checkpoint's tensors, or of the graph.
  std::uint64_t bytes() const;
};

/// Opens a network. `why`: what needs one, for messages about a checkpoint. `example`: of a TorchScript
/// archive. Throws Error where there is no network.
NetworkSource open_network(const std::string& input, const std::string& why, Notes& notes,
                           const TorchScriptExample& example = {});

/// Throws Error where the input is quantized already.
void refuse_packed(const std::string& input);

/// Returns the engine that runs the samples: the runtime, whose numbers are the same on every machine, where
/// it has the operators; else, or where a device is named, LibTorch. LibTorch runs on one thread: on several
/// its convolutions add in another order, and scales must not depend on that.
const graph::Engine& engine_for(const graph::Graph& graph, const runtime::Engine& runtime,
                                const std::string& device);

/// Whether the recipe quantizes an activation or an input.
bool quantizes_activations(const Recipe& recipe);

/// Returns how weights are rounded where there are samples and the user names no method: gptq, in each layer
/// where it loses less than rounding.
std::vector<Stage> usual_rounding();

struct NetworkOptions {
  std::vector<std::string> data;             ///< samples; none: weights are rounded, and stages go without
  std::vector<std::string> batch_axes = {};  ///< NAME=AXIS: inputs whose samples are not on axis 0
  std::size_t tokens = 0;                    ///< of text; 0: all
  bool pairs = false;                        ///< lines of text hold two texts each
  std::string device;                        ///< where samples run; "": the cpu
  int threads = 0;
  std::uint64_t memory = 0;  ///< ptq::Setting; 0: the usual
  bool rolls_back = false;   ///< ptq::Setting
  bool pads_groups =
      false;  ///< a scheme's groups may be smaller at the end of a row (ptq/precision/fitting_specs.h)
  bool shares_scales = false;   ///< where channels' scales would take as much as the weights (see there)
  bool usual_rounding = false;  ///< the recipe's stages are usual_rounding(), as the user named none
  graph::PlanOptions plan = {};
};

/// Returns where quantizers are put for the tool that takes the network: FPGAs keep every edge as integers.
graph::PlanOptions plan_options_of(exporting::Profile profile, const Recipe& recipe);

/// Quantizes one source, step by step. The source and the observer must outlive it.
class NetworkQuantization {
 public:
  /// Prepares, runs the stages that shrink, and plans what they leave; throws what graph::prepare,
  /// ptq::shrink and plan_quantizers throw, and Error where a checkpoint's config.json cannot say the sizes
  /// that are left.
  NetworkQuantization(const NetworkSource& source, const Recipe& recipe, NetworkOptions requested,
                      Observer& observer);
  NetworkQuantization(const NetworkQuantization&) = delete;
  NetworkQuantization& operator=(const NetworkQuantization&) = delete;

  /// Reads the samples and finds from them where quantizers of activations go and what their scales are. Runs
  /// before run(), which does it otherwise. Throws what run() throws for samples.
  void calibrate();

  /// Returns for each edge of the calibrated plan how many values of the float network its codes cut off.
  /// Empty without samples.
  std::vector<graph::EdgeUse> uses_of_edges() const;

  /// Runs stages, finds scales of activations, makes codes; call once. Throws usage Error where samples are
  /// needed and there are none, and Error as stages do. `store`: keeps codes that stages find on samples; may
  /// be null.
  graph::Graph run(ptq::LayerStore* store = nullptr);

  const ptq::Setting& setting() const { return setting_; }
  /// Whether a stage that rounds on samples has weights to round.
  bool rounds_weights() const { return has_open_; }
  /// Returns the recipe as it is carried out: without the usual rounding where it has nothing to round.
  const Recipe& recipe() const { return recipe_; }

  /// Runs after run(): puts into plan() what each quantizer of an activation costs by itself. Does nothing
  /// without samples.
  void measure_costs();

  const graph::Graph& prepared() const {
    return setting_.graph;
  }  ///< after run(): as stages left it, in floats
  /// Files of the checkpoint, by path, that say something else of what stages made smaller.
  const std::map<std::string, std::string>& changed_files() const { return changed_files_; }
  const graph::QuantPlan& plan() const { return setting_.plan; }
  const std::vector<ptq::StageReport>& stages() const { return stages_; }
  const std::vector<graph::BiasUse>& biases() const { return biases_; }  ///< after run(): those of the plan

  /// What run() gave beside the float network, as it was before stages made it smaller, on the samples: on
  /// few of them where nothing but weights is quantized. Nothing where there are none, and of a language
  /// model's weights, of which crumb perplexity --baseline says more.
  std::optional<graph::GraphComparison> compare(const graph::Graph& quantized) const;

 private:
  void shrink();
  void take_samples();
  void take_plan(graph::QuantPlan plan);
  std::vector<Stage> planned_stages() const;
  void round_usually();

  const NetworkSource& source_;
  Recipe recipe_;
  NetworkOptions requested_;
  Observer& observer_;
  runtime::Engine runtime_;
  const graph::Engine* engine_ = nullptr;  ///< which runs the samples; null without samples
  ptq::Setting setting_;
  bool has_open_ = false;
  std::size_t shrinking_ = 0;  ///< of the recipe's stages: the first ones
  std::map<std::string, std::string> changed_files_;
  std::vector<std::string> padding_notes_;
  std::optional<CalibrationSamples> samples_;
  bool is_calibrated_ = false;
  std::vector<ptq::StageReport> stages_;
  std::vector<graph::BiasUse> biases_;
};

/// Writes a packed file, which takes along what a checkpoint has beside tensors, but for the `changed` files.
void write_packed_network(const NetworkSource& source, const graph::Graph& quantized, const Recipe& recipe,
                          const std::filesystem::path& output,
                          const std::map<std::string, std::string>& changed = {});

}  // namespace crumb::jobs
