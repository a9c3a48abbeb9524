#include "jobs/network_quantization.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "formats/crumb_file/crumb_file.h"
#include "graph/control/decide.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "graph/passes/passes.h"
#include "graph/passes/to_float32.h"
#include "graph/quantize/apply.h"
#include "graph/quantize/choose_by_samples.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/engines/open_engine.h"
#include "jobs/packed_files.h"
#include "jobs/shape_notes.h"
#include "jobs/squared_gradients.h"
#include "models/checkpoint_graph.h"
#include "models/gemma_gains.h"
#include "models/resized_config.h"
#include "models/weight_source.h"
#include "ptq/precision/fitting_specs.h"
#include "ptq/rounding/affordable_samples.h"
#include "runtime/session.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;
using graph::Graph;

constexpr std::size_t kComparedBatches = 8;  // where only weights are quantized
constexpr double kUsualWork = 3e12;          // the most multiplications of rounding that the user did not ask
                                             // for

graph::Batches first_batches(graph::Batches all, std::size_t count) {
  return [all = std::move(all), count](const auto& batch) {
    std::size_t seen = 0;
    all([&](const std::vector<graph::Tensor>& inputs) {
      if (seen++ < count) batch(inputs);
    });
  };
}

/// Leaves out the keys and values that a decoder keeps: they are no results.
void leave_out_caches(const Graph& graph, graph::GraphComparison& comparison) {
  const std::vector<runtime::Tie> ties = runtime::find_ties(graph);
  std::erase_if(comparison.outputs, [&](const graph::OutputAgreement& output) {
    return std::ranges::find(ties, output.output, &runtime::Tie::present) != ties.end();
  });
}

void refuse_without_data(const graph::QuantPlan& plan, const Observer& observer) {
  if (!plan.needs_calibration()) return;
  throw usage_error(
      "scales of activations need calibration data: give " + observer.spelled("data") +
      " X.npy (axis 0 is the samples) or a folder of .npy files, or of a language model a text; " +
      std::to_string(plan.edges.size()) + " edges are to be quantized, the first is " +
      quote_text(plan.edges[0].value));
}

/// Returns "float16, double" for a network with matrices, inputs or outputs of such types; "" for others.
/// Doubles that only compute sizes do not count.
std::string text_of_other_floats(const Graph& graph) {
  const auto is_other = [&](const std::string& name) {
    const graph::Value* value = graph.find(name);
    return value && graph::is_other_float(value->type);
  };
  const bool is_of_them =
      std::ranges::any_of(graph.initializers,
                          [](const auto& entry) {
                            return entry.second.rank() >= 2 && graph::is_other_float(entry.second.type());
                          }) ||
      std::ranges::any_of(graph.inputs, is_other) || std::ranges::any_of(graph.outputs, is_other);
  std::string text;
  if (!is_of_them) return text;
  for (const graph::ElementType type : graph::other_floats(graph))
    text += (text.empty() ? "" : ", ") + std::string(graph::name_of(type));
  return text;
}

}  // namespace

std::uint64_t NetworkSource::bytes() const {
  if (checkpoint()) return checkpoint()->input_bytes();
  std::uint64_t sum = 0;
  std::error_code unknown;
  for (const fs::path& path : paths)
    if (const auto size = fs::file_size(path, unknown); !unknown) sum += size;
  return sum;
}

NetworkSource open_network(const std::string& input, const std::string& why, Notes& notes,
                           const TorchScriptExample& example) {
  if (!models::is_checkpoint(input)) {
    const bool is_archive = is_torchscript(input);
    if (!is_archive && !example.arguments.empty())
      throw usage_error(notes.observer().spelled("arguments") + " is for TorchScript archives, and " +
                        quote_text(input) + " is none");
    Graph read = is_archive ? read_torchscript(input, example, notes.observer()).graph
                            : graph::decide_control_flow(graph::read_onnx(input));
    NetworkSource source{.tensors = {}, .graph = graph::plain_constants(std::move(read)), .paths = {input}};
    if (auto parts = Checkpoint::open(input); parts.ok()) source.paths = parts.value().input_paths();
    note_shapes(source.graph, notes);
    note_foreign_operators(source.graph, notes);
    if (const std::size_t packed = source.graph.quantized.size(); packed > 0)
      notes.say(count_text(packed, "weight") +
                (packed == 1 ? " is packed codes already and stays as it is"
                             : " are packed codes already and stay as they are") +
                " (MatMulNBits or GatherBlockQuantized of onnxruntime)");
    if (const std::string types = text_of_other_floats(source.graph); !types.empty()) {
      notes.say("the network is in " + types + "; it is computed and quantized in float32");
      source.graph = graph::to_float32(std::move(source.graph), graph::Ends::kKept);
    }
    return source;
  }
  NetworkSource source{
      .tensors = std::make_shared<const TensorSource>(TensorSource::open(input)), .graph = {}, .paths = {}};
  source.paths = source.checkpoint()->input_paths();
  note_folder(*source.checkpoint(), notes);
  try {
    models::CheckpointGraph read = models::graph_on_checkpoint(source.tensors, quote_text(input));
    note_unused(read.unused, notes);
    source.graph = std::move(read.graph);
    source.left_out = {read.unused.begin(), read.unused.end()};
  } catch (const Error& error) {
    throw usage_error(std::string(error.what()) + "; " + why + ", which is said of a network");
  }
  return source;
}

void refuse_packed(const std::string& input) {
  const Result<MappedFile> file = MappedFile::open(input);
  if (!file.ok() || !looks_like_crumb(file.value().bytes())) return;
  throw Error(quote_text(input) +
              " is already quantized: it is a packed file; expected a checkpoint in floating " +
              "point (crumb dequantize makes one)");
}

const graph::Engine& engine_for(const Graph& graph, const runtime::Engine& runtime,
                                const std::string& device) {
  const bool is_known =
      std::ranges::all_of(graph.nodes, [&](const graph::Node& node) { return runtime.knows(node); });
  if (is_known && device.empty()) return runtime;
  graph::Engine& engine = open_engine();
  open_engine_device().use(device.empty() ? "cpu" : device, 1);
  return engine;
}

graph::PlanOptions plan_options_of(exporting::Profile profile, const Recipe& recipe) {
  const bool is_for_fpga = profile == exporting::Profile::kFinn || profile == exporting::Profile::kHls4ml ||
                           recipe.average_pools == Recipe::AveragePools::kTruncate;
  return {.unsigned_after_relu_only = profile == exporting::Profile::kFinn,
          .placement = is_for_fpga ? graph::Placement::kEverywhere : graph::Placement::kWhereIntegersGoOn};
}

bool quantizes_activations(const Recipe& recipe) {
  return recipe.activations || (recipe.inputs && *recipe.inputs) ||
         std::ranges::any_of(recipe.rules,
                             [](const Rule& rule) { return rule.activations && *rule.activations; });
}

std::vector<Stage> usual_rounding() { return {parse_stage("gptq:few=0.5")}; }

NetworkQuantization::NetworkQuantization(const NetworkSource& source, const Recipe& recipe,
                                         NetworkOptions requested, Observer& observer)
    : source_(source),
      recipe_(recipe),
      requested_(std::move(requested)),
      observer_(observer),
      runtime_(requested_.threads) {
  if (!requested_.data.empty()) engine_ = &engine_for(source.graph, runtime_, requested_.device);
  requested_.plan.left_out = source.left_out;
  setting_.graph = graph::prepare(source.graph, recipe, engine_ ? engine_ : &runtime_);
  setting_.threads = requested_.threads;
  shrink();
  if (requested_.pads_groups)
    padding_notes_ = ptq::pad_groups(setting_.graph, recipe_, requested_.plan.left_out);
  take_plan(graph::plan_quantizers(setting_.graph, recipe_, requested_.plan));
  has_open_ = ptq::has_open_layers(setting_);
  if (requested_.usual_rounding && !has_open_) recipe_.stages.resize(shrinking_);
}

void NetworkQuantization::shrink() {
  shrinking_ = count_shrinking(recipe_.stages);
  if (shrinking_ == 0) return;
  if (engine_) take_samples();
  const auto end = recipe_.stages.begin() + static_cast<std::ptrdiff_t>(shrinking_);
  stages_ = ptq::shrink({recipe_.stages.begin(), end}, setting_);
  if (source_.checkpoint())
    changed_files_ = models::resized_files(*models::weights_of(*source_.tensors), setting_.graph);
}

/// Returns the stages that follow those that shrink.
std::vector<Stage> NetworkQuantization::planned_stages() const {
  return {recipe_.stages.begin() + static_cast<std::ptrdiff_t>(shrinking_), recipe_.stages.end()};
}

/// Opens the samples for the network as it is now.
void NetworkQuantization::take_samples() {
  samples_.emplace(requested_.data, requested_.tokens, source_.tensors.get(), source_.graph, setting_.graph,
                   observer_, requested_.batch_axes, requested_.pairs);
  setting_.engine = engine_;
  setting_.samples = samples_->batches();
  setting_.batch_axes = samples_->batch_axes();
  setting_.squared_gradients = squared_gradients_by(
      samples_->is_text() ? graph::SampleLoss::kNextTokens : graph::SampleLoss::kSigns, requested_.device);
}

/// Takes the plan together with what specs of schemes need to fit it.
void NetworkQuantization::take_plan(graph::QuantPlan plan) {
  setting_.plan = std::move(plan);
  std::ranges::copy(padding_notes_, std::back_inserter(setting_.plan.notes));
  if (!requested_.shares_scales) return;
  std::vector<std::string> notes = ptq::share_costly_scales(setting_.graph, setting_.plan);
  std::ranges::move(notes, std::back_inserter(setting_.plan.notes));
}

void NetworkQuantization::round_usually() {
  if (setting_.plan.needs_calibration())  // on all samples, before some of them are left out
    graph::calibrate(setting_.graph, *engine_, setting_.samples, setting_.plan);
  const ptq::AffordableSamples samples = ptq::affordable_samples(setting_, kUsualWork);
  const graph::Batches all = std::exchange(setting_.samples, samples.batches);
  setting_.is_lenient = true;
  std::vector<ptq::StageReport> reports = ptq::run_stages(planned_stages(), setting_);
  std::ranges::move(reports, std::back_inserter(stages_));
  setting_.is_lenient = false;
  setting_.samples = all;
  if (samples.taken < samples.all)
    stages_.back().notes.push_back(
        "took the first " + std::to_string(samples.taken) + " of " + std::to_string(samples.all) +
        " batches of samples, for all would take long; " + observer_.spelled("stages: gptq") + " takes all");
}

void NetworkQuantization::calibrate() {
  if (requested_.data.empty()) refuse_without_data(setting_.plan, observer_);
  if (!engine_ || is_calibrated_) return;
  is_calibrated_ = true;
  take_samples();
  if (setting_.plan.needs_calibration())
    take_plan(graph::choose_by_samples(setting_.graph, recipe_, requested_.plan, *engine_,
                                       samples_->batches(), setting_.batch_axes));
}

std::vector<graph::EdgeUse> NetworkQuantization::uses_of_edges() const {
  if (!engine_) return {};
  const Graph& floats = setting_.graph;
  return graph::compare(floats, floats, setting_.plan, *engine_, samples_->batches(), {.takes_codes = true})
      .edges;
}

Graph NetworkQuantization::run(ptq::LayerStore* store) {
  calibrate();  // before stages, which ask where integers flow
  setting_.store = store;
  if (requested_.memory > 0) setting_.memory = requested_.memory;
  setting_.rolls_back = requested_.rolls_back;
  std::size_t first = 0, last = 0;
  bool has_begun = false;
  setting_.progress = [&](std::size_t done, std::size_t all) {
    if (!has_begun || done < last) first = done;  // in this stage, without an earlier run's items
    has_begun = true;
    last = done;
    observer_.progress({.what = "rounding", .items = "layers", .done = done - first, .all = all - first});
  };
  {
    const ProgressScope scope(observer_);
    if (requested_.usual_rounding && recipe_.stages.size() > shrinking_) {
      round_usually();
    } else {
      std::vector<ptq::StageReport> reports = ptq::run_stages(planned_stages(), setting_);
      std::ranges::move(reports, std::back_inserter(stages_));
    }
  }
  std::erase_if(stages_, [](const ptq::StageReport& stage) { return stage.stage == "rounding"; });
  setting_.progress = {};
  if (engine_ && setting_.plan.needs_calibration()) {  // a stage changed the activations
    for (graph::PlannedEdge& edge : setting_.plan.edges) edge.cost.reset();
    graph::calibrate(setting_.graph, *engine_, samples_->batches(), setting_.plan);
  }
  return graph::apply(setting_.graph, setting_.plan, {.threads = requested_.threads, .biases = &biases_});
}

void NetworkQuantization::measure_costs() {
  if (engine_)
    graph::measure_costs(setting_.graph, *engine_, samples_->batches(), setting_.plan, setting_.batch_axes);
}

std::optional<graph::GraphComparison> NetworkQuantization::compare(const Graph& quantized) const {
  const graph::QuantPlan& plan = setting_.plan;
  if (!engine_ || (samples_->is_text() && plan.edges.empty())) return {};
  graph::GraphComparison comparison = graph::compare(
      graph::infer_shapes(source_.graph), quantized, plan, *engine_,
      plan.edges.empty() ? first_batches(samples_->batches(), kComparedBatches) : samples_->batches(),
      {.takes_codes = engine_ == &runtime_});
  leave_out_caches(source_.graph, comparison);
  return comparison;
}

void write_packed_network(const NetworkSource& source, const Graph& quantized, const Recipe& recipe,
                          const fs::path& output, const std::map<std::string, std::string>& changed) {
  const bool is_checkpoint = source.checkpoint() != nullptr;
  std::map<std::string, std::string> files;
  if (is_checkpoint) files = packed_files(*source.checkpoint(), recipe);
  for (const auto& [path, text] : changed) files[path] = text;
  graph::write_crumb_graph(is_checkpoint ? models::with_weights_of_gains(quantized) : quantized, output,
                           {.zstd_level = recipe.zstd,
                            .layout = recipe.layout,
                            .as_checkpoint = is_checkpoint,
                            .files = std::move(files)});
}

}  // namespace crumb::jobs
