#include "jobs/merge.h"

#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "base/files/inputs.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "export/folder/merged_source.h"
#include "graph/packed/crumb_graph.h"
#include "graph/qonnx/quantized_constants.h"
#include "jobs/folder_files.h"
#include "jobs/folder_output.h"
#include "jobs/language/adapter_files.h"
#include "jobs/language/training_request.h"
#include "jobs/language/training_texts.h"
#include "jobs/merged_recipe.h"
#include "jobs/packed_files.h"
#include "models/configured_network.h"
#include "models/encoder_inputs.h"
#include "models/read_graph.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "training/run_folder.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;
using graph::Graph;

bool writes_codes(const MergeRequest& request) { return fs::path(request.output).extension() == ".crumb"; }

/// Refuses the options for folders in floats where the output is another.
void refuse_of_floats(const MergeRequest& request, const Observer& observer) {
  const std::string is_for = " is for a folder in floats";
  const std::string train = observer.spelled("train"),
                    output = observer.spelled("output") + " " + quote_text(request.output);
  if (!request.dtype.empty() && (request.training || writes_codes(request)))
    throw usage_error(observer.spelled("dtype") + is_for + ", found " + (request.training ? train : output));
  if (!request.shard) return;
  if (request.training)
    throw usage_error(observer.spelled("shard") + is_for + ", and " + train +
                      " writes a packed file into its own");
  if (writes_codes(request)) throw usage_error(observer.spelled("shard") + is_for + ", found " + output);
}

/// Checks the output before anything is read.
void claim_merged(const MergeRequest& request, const Observer& observer) {
  std::vector<fs::path> inputs{request.input};
  if (request.training) {  // the run continues in its folder
    const MergeTraining& training = *request.training;
    inputs.insert(inputs.end(), {training.train, training.valid, training.how.teacher_logits});
  }
  inputs.insert(inputs.end(), request.adapters.begin(), request.adapters.end());
  if (request.training) return claim_folder_files(inputs, request.output, training::kLanguageFiles);
  refuse_overwriting_inputs(inputs, request.output);
  writes_codes(request) ? claim_output(request.output)
                        : claim_folder(request.input, request.output, observer);
}

/// Merges a network's adapters into its matrices.
class Merging {
 public:
  Merging(const MergeRequest& request, Observer& observer)
      : request_(request), observer_(observer), source_(TensorSource::open(request.input)) {}

  MergeReport into_floats() const {
    const std::vector<Adapter> adapters = all_adapters();
    if (!request_.weights.empty())
      throw usage_error(observer_.spelled("weights") + " is for " + observer_.spelled("output") +
                        " FILE.crumb; a folder has the matrices in floats");
    const exporting::FloatSource source(request_.input, exporting::FloatTypes::kAsStored);
    const exporting::MergedSource merged(source, adapters);
    for (const std::string& note : models::notes_of_quantizers(source.source())) observer_.note(note);
    if (source.unused_head()) observer_.note(models::note_of_unused_head(*source.unused_head()));
    const std::string shard = request_.shard.value_or(kUsualShard);
    exporting::FolderReport report;
    const std::string cost =
        write_with_dtype(merged, request_.dtype, observer_, [&](const exporting::FolderContent& content) {
          report = write_folder_with_notes(content, request_.output,
                                           {.shard_bytes = shard_bytes_of(shard, observer_),
                                            .input = request_.input,
                                            .metadata = {{"format", "pt"}, {"writer", "crumb merge"}}},
                                           "merging", shard, observer_);
        });
    if (!cost.empty()) observer_.note(cost);
    return {.matrices = merged.merged(),
            .tensors = report.tensors,
            .files = report.files,
            .layers = {},
            .training = {}};
  }

  MergeReport into_codes() const {
    graph::MergedGraph merged = graph::merge_adapters(adapted(), request_.weights);
    graph::write_crumb_graph(merged.graph, request_.output,
                             {.reads_back = true, .as_checkpoint = true, .files = files_of(merged.graph)});
    return {.wrote_codes = true,
            .layers = std::move(merged.layers),
            .bytes = fs::file_size(request_.output),
            .training = {}};
  }

  MergeReport trained() const {
    const MergeTraining& training = *request_.training;
    Graph adapted = this->adapted();
    Graph merged = graph::merge_adapters(adapted, request_.weights).graph;
    if (merged.quantized.empty())
      throw usage_error(quote_text(request_.input) +
                        " has its matrices in floats, into which adapters go exactly: there is nothing "
                        "to train; " +
                        observer_.spelled("weights") + " SPEC quantizes them");
    std::map<std::string, std::string> files = files_of(merged);
    if (training.how.steps > 0)
      add_stage(files, end_to_end_stage(training.how, {.rate = training.rate,
                                                       .scale_rate = training.scale_rate,
                                                       .scales_alone = training.scales_alone}));
    training::LanguageRun run{.request = request_of(std::move(adapted), std::move(merged)),
                              .files = std::move(files),
                              .folder = request_.output};
    take_training(training.how, run.request, observer_);
    const auto read = [&](std::string_view path) {
      const auto found = run.files.find(std::string(path));
      return found == run.files.end() ? std::nullopt : std::optional(found->second);
    };
    read_training_texts(training.how,
                        {.data = training.train, .valid = training.valid, .folder = request_.output}, read,
                        run.request, observer_);
    return {.layers = {}, .training = train_with(training.how, std::move(run), observer_)};
  }

 private:
  /// Returns the adapters in the file, then those that the request gives.
  std::vector<Adapter> all_adapters() const {
    std::vector<Adapter> adapters;
    if (source_.crumb()) {
      const Graph graph = models::open_graph(request_.input);
      for (const std::string& name : graph::adapter_names(graph))
        adapters.push_back(graph::adapter_of(graph, name));
    }
    for (Adapter& adapter : read_adapters(request_.adapters, source_, observer_))
      adapters.push_back(std::move(adapter));
    if (adapters.empty())
      throw usage_error(quote_text(request_.input) + " has no adapter; give " +
                        observer_.spelled("adapters") + " PATH");
    return adapters;
  }

  Graph adapted() const {
    return with_adapters(models::open_graph(request_.input), request_.adapters, source_, observer_);
  }

  /// Returns the files that are stored next to the codes.
  std::map<std::string, std::string> files_of(const Graph& merged) const {
    std::map<std::string, std::string> files = packed_files(source_);
    if (!request_.weights.empty()) name_codes(files, merged);
    return files;
  }

  tasks::LanguageRequest request_of(Graph adapted, Graph merged) const {
    const MergeTraining& training = *request_.training;
    const bool is_encoder = models::is_encoder(merged);
    Recipe recipe = recipe_of_codes(merged);
    return {
        .network = graph::fold_quantized(std::move(adapted)),
        .recipe = std::move(recipe),
        .start = {.network = std::move(merged)},
        .supervision = {.loss = is_encoder ? tasks::LanguageLoss::kMix : tasks::LanguageLoss::kDivergence},
        .steps = {.batch = training.batch > 0 ? training.batch : batch_of(is_encoder),
                  .scales_alone = training.scales_alone,
                  .seed = training.seed},
        .optimizer = {.rate = training.rate, .scale_rate = training.scale_rate}};
  }

  const MergeRequest& request_;
  Observer& observer_;
  const TensorSource source_;
};

}  // namespace

MergeReport merge(const MergeRequest& request, Observer& observer) {
  const InputWatch watch;
  refuse_of_floats(request, observer);
  claim_merged(request, observer);
  const Merging merging(request, observer);
  if (request.training) return merging.trained();
  return writes_codes(request) ? merging.into_codes() : merging.into_floats();
}

}  // namespace crumb::jobs
