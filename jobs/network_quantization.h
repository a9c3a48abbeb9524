// A network quantized by a recipe, in memory: what crumb quantize writes, and crumb sweep measures.
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
#include "jobs/observer.h"
#include "jobs/samples/calibration_samples.h"
#include "ptq/stages.h"
#include "quant/recipe/recipe.h"
#include "quant/tensor_source.h"
#include "runtime/engine.h"

namespace crumb::jobs {

/// What is quantized: a graph's file, or a checkpoint whose network is known.
struct NetworkSource {
  std::shared_ptr<const TensorSource> tensors;  ///< of a checkpoint, else null
  graph::Graph graph;
  std::vector<std::filesystem::path> paths;  ///< that are read
  std::set<std::string> left_out = {};       ///< tensors of a checkpoint that its network does not take

  const Checkpoint* checkpoint() const { return tensors ? tensors->checkpoint() : nullptr; }
  /// Of a checkpoint's tensors' files, or of the graph's.
  std::uint64_t bytes() const;
};

/// `why`: what asks for a network, where that is a checkpoint's. Throws Error where there is none.
NetworkSource open_network(const std::string& input, const std::string& why, Notes& notes);

/// Throws Error where the input is quantized already.
void refuse_packed(const std::string& input);

/// What samples run on: the runtime, whose numbers are the same on every machine, where it has the operators;
/// LibTorch for the others, and where a device is named. LibTorch on one thread: convolutions on several add
/// up in another order, and scales must not depend on that.
const graph::Engine& engine_for(const graph::Graph& graph, const runtime::Engine& runtime,
                                const std::string& device);

/// Whether the recipe says how something that flows is quantized.
bool quantizes_activations(const Recipe& recipe);

/// How weights are rounded where there are samples and nobody says how: gptq, layer by layer where it loses
/// less than rounding.
std::vector<Stage> usual_rounding();

struct NetworkOptions {
  std::vector<std::string> data;  ///< samples; none: weights are rounded, and stages go without
  std::size_t tokens = 0;         ///< of text; 0: all
  std::string device;             ///< where samples run; "": the cpu
  int threads = 0;
  std::uint64_t memory = 0;  ///< ptq::Setting; 0: the usual
  bool rolls_back = false;   ///< ptq::Setting
  bool pads_groups =
      false;  ///< a scheme's groups may be smaller at the end of a row (ptq/precision/fitting_specs.h)
  bool shares_scales = false;   ///< of weights whose scales would take as much as they do (the same)
  bool usual_rounding = false;  ///< the recipe's stages are usual_rounding(), for nobody named any
  graph::PlanOptions plan = {};
};

/// Where quantizers stand for what takes the network: FPGAs keep every edge as integers.
graph::PlanOptions plan_options_of(exporting::Profile profile, const Recipe& recipe);

/// A source on its way to codes. The source and the observer must outlive it.
class NetworkQuantization {
 public:
  /// Prepares, runs the stages that shrink, and plans what they leave; throws what graph::prepare,
  /// ptq::shrink and plan_quantizers throw, and Error where a checkpoint's config.json cannot say the sizes
  /// that are left.
  NetworkQuantization(const NetworkSource& source, const Recipe& recipe, NetworkOptions requested,
                      Observer& observer);
  NetworkQuantization(const NetworkQuantization&) = delete;
  NetworkQuantization& operator=(const NetworkQuantization&) = delete;

  /// Reads the samples, and lets them say where quantizers of activations stand and what their scales are:
  /// before run(), which does it otherwise. Throws what run() throws of samples.
  void calibrate();

  /// Of each edge of the calibrated plan, how many values of the float network lie beyond its codes. None
  /// without samples.
  std::vector<graph::EdgeUse> uses_of_edges() const;

  /// Stages, scales of activations, codes: once. Throws usage Error where samples are needed and there are
  /// none, and Error as stages do. `store`: of codes that stages find on samples, or null.
  graph::Graph run(ptq::LayerStore* store = nullptr);

  const ptq::Setting& setting() const { return setting_; }
  /// Whether a stage that rounds on samples finds weights.
  bool rounds_weights() const { return has_open_; }
  /// As it is carried out: without the usual rounding where nothing is to be rounded.
  const Recipe& recipe() const { return recipe_; }

  /// Runs after run(): what each quantizer of activations costs alone goes into plan(). Nothing without
  /// samples.
  void measure_costs();

  const graph::Graph& prepared() const {
    return setting_.graph;
  }  ///< after run(): as stages left it, in floats
  /// Files of the checkpoint, by path, that say something else of what stages made smaller.
  const std::map<std::string, std::string>& changed_files() const { return changed_files_; }
  const graph::QuantPlan& plan() const { return setting_.plan; }
  const std::vector<ptq::StageReport>& stages() const { return stages_; }
  const std::vector<graph::BiasUse>& biases() const { return biases_; }  ///< after run(): of the plan's

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
  const graph::Engine* engine_ = nullptr;  ///< that samples run on; null without
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
