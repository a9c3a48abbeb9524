#include "jobs/recover.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/files/inputs.h"
#include "base/files/text.h"
#include "graph/adapters.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/folder_files.h"
#include "jobs/language/training_request.h"
#include "jobs/language/training_texts.h"
#include "jobs/packed_files.h"
#include "jobs/same_network.h"
#include "jobs/training_report.h"
#include "models/encoder_inputs.h"
#include "models/read_graph.h"
#include "models/weight_source.h"
#include "quant/tensor_source.h"
#include "training/run_folder.h"

namespace crumb::jobs {
namespace {

using graph::Graph;
using tasks::AdapterStart;
using tasks::LanguageLoss;

/// The options that are chosen by name.
struct RecoveryChoices {
  LanguageLoss loss;
  AdapterStart start;
  tasks::AdapterRanks ranks;
  graph::AdapterType type;
};

RecoveryChoices choices_of(const RecoverRequest& request, bool is_encoder, const Observer& observer) {
  const auto field = [&](const char* name) { return observer.spelled(name); };
  const LanguageLoss loss =
      request.loss.empty()
          ? (is_encoder ? LanguageLoss::kMix : LanguageLoss::kDivergence)
          : tasks::chosen<LanguageLoss>(tasks::kLanguageLossNames, request.loss, field("loss").c_str());
  const auto start =
      tasks::chosen<AdapterStart>(tasks::kAdapterStartNames, request.init, field("init").c_str());
  const auto ranks =
      tasks::chosen<tasks::AdapterRanks>(tasks::kAdapterRanksNames, request.ranks, field("ranks").c_str());
  if (ranks != tasks::AdapterRanks::kEven && !tasks::begins_elsewhere(start))
    throw usage_error(field("ranks") + " " + request.ranks + " follow from each matrix' error: give " +
                      field("init") + " svd or whitened");
  return {loss, start, ranks, graph::adapter_type_named(request.type)};
}

/// Returns the field that shapes a fresh adapter; "" where the request gives none.
const char* shaping_field(const RecoverRequest& request) {
  if (!request.targets.empty()) return "targets";
  if (request.rslora) return "rslora";
  if (request.alpha) return "alpha";
  return request.rank ? "rank" : "";
}

qat::AdapterOptions fresh_adapter(const RecoverRequest& request) {
  qat::AdapterOptions options{.rslora = request.rslora, .seed = request.seed};
  if (request.name) options.name = *request.name;
  if (request.rank) options.rank = *request.rank;
  if (request.alpha) options.alpha = *request.alpha;
  if (!request.targets.empty()) options.targets = request.targets;
  return options;
}

/// Returns the options of the adapter that is trained further: the file's adapter of the name, or its only
/// one.
qat::AdapterOptions kept_adapter(const RecoverRequest& request, const Graph& base, const Observer& observer) {
  if (const std::string field = shaping_field(request); !field.empty())
    throw usage_error(observer.spelled(field) + " is for a fresh adapter; with " + observer.spelled("init") +
                      " kept the file's own goes on");
  const std::vector<std::string> names = graph::adapter_names(base);
  qat::AdapterOptions options = fresh_adapter(request);
  if (names.size() == 1 && !request.name) options.name = names[0];
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  if (std::ranges::find(names, options.name) == names.end())
    throw usage_error(quote_text(request.input) +
                      (names.empty()
                           ? " has no adapter that could go on"
                           : " has the adapters " + all + ": say which with " + observer.spelled("name")));
  options.rank = graph::adapter_of(base, options.name).updates.at(0).rank;
  return options;
}

/// Checks an adapter that begins with the difference between codes and the float network's matrices: where
/// the codes are those of other matrices, or another adapter already holds a part of the difference, it is
/// not the codes' error.
void expect_codes_of_the_baseline(const RecoverRequest& request, const Graph& base,
                                  const std::map<std::string, std::string>& files, const Observer& observer) {
  const std::string init = observer.spelled("init");
  const std::string which = init + " " + request.init + " begins with each matrix' error, and ";
  const std::string way = "; begin with " + init + " zero" +
                          (graph::adapter_names(base).empty() ? "" : ", or go on with " + init + " kept");
  if (!graph::adapter_names(base).empty())
    throw usage_error(which + quote_text(request.input) + " has an adapter, " +
                      quote_text(graph::adapter_names(base)[0]) + ", which holds a part of it" + way);
  for (const Stage& stage : stages_that_made(files, quote_text(request.input)))
    if (stage.info().in_floats != InFloats::kStays || stage.info().trains)
      throw usage_error(which + "the stage " + stage.name + " that made " + quote_text(request.input) +
                        " changed its matrices before they were rounded: they are none of the baseline's" +
                        way);
}

/// Objectives that compare with floats need the float network; for the loss kl, stored predictions will do.
void expect_baseline(const RecoverRequest& request, const RecoveryChoices& choices,
                     const Observer& observer) {
  if (!request.baseline.empty()) return;
  const bool begins_elsewhere = tasks::begins_elsewhere(choices.start);
  const bool is_kept = !request.how.teacher_logits.empty() && choices.loss == LanguageLoss::kDivergence &&
                       std::filesystem::exists(request.how.teacher_logits);
  const std::string give = "give " + observer.spelled("baseline") + " FLOAT";
  if ((choices.loss != LanguageLoss::kNextToken && !is_kept) || begins_elsewhere)
    throw usage_error(give + ", the network in floats; only " + observer.spelled("loss") +
                      " ce and predictions that were kept (" + observer.spelled("teacher_logits") +
                      "), with " + observer.spelled("init") + " zero or kept, go without");
  if (is_drawn(request.data))
    throw usage_error(observer.spelled("data") + " " + request.data +
                      " is what the float network draws: " + give);
}

/// Opens the float network whose answers the base learns.
Graph open_baseline(const RecoverRequest& request, const std::map<std::string, std::string>& files,
                    const Graph& base, const Observer& observer) {
  Graph network = models::open_graph(request.baseline);
  expect_same_network({.graph = network,
                       .name = observer.spelled("baseline") + " " + quote_text(request.baseline),
                       .files = packed_files(TensorSource::open(request.baseline))},
                      {.graph = base, .name = quote_text(request.input), .files = files});
  return network;
}

tasks::LanguageRequest request_of(const RecoverRequest& request, const RecoveryChoices& choices,
                                  const qat::AdapterOptions& adapter, Graph network, Graph base) {
  const std::int64_t usual_batch = batch_of(models::is_encoder(base));
  return {.network = std::move(network),
          .recovery = tasks::Recovery{.base = std::move(base),
                                      .options = adapter,
                                      .start = choices.start,
                                      .ranks = choices.ranks,
                                      .type = choices.type},
          .supervision = {.loss = choices.loss, .has_floats = !request.baseline.empty()},
          .steps = {.batch = request.batch > 0 ? request.batch : usual_batch, .seed = request.seed},
          .optimizer = {.rate = request.rate}};
}

}  // namespace

RecoverReport recover(const RecoverRequest& request, Observer& observer) {
  const InputWatch watch;
  claim_folder_files(
      {request.input, request.baseline, request.data, request.valid, request.how.teacher_logits},
      request.output, training::kLanguageFiles);
  claim_training_report(request.report, request.output, observer);
  const TensorSource source = TensorSource::open(request.input);
  Graph base = models::open_graph(request.input);
  const RecoveryChoices choices = choices_of(request, models::is_encoder(base), observer);
  const qat::AdapterOptions adapter =
      choices.start == AdapterStart::kKept ? kept_adapter(request, base, observer) : fresh_adapter(request);
  expect_baseline(request, choices, observer);
  Notes notes(observer);
  if (source.checkpoint()) note_folder(*source.checkpoint(), notes);
  const auto weights = models::weights_of(source);
  const std::map<std::string, std::string> files = packed_files(source);
  if (tasks::begins_elsewhere(choices.start)) expect_codes_of_the_baseline(request, base, files, observer);
  Graph network = request.baseline.empty() ? base : open_baseline(request, files, base, observer);
  training::LanguageRun run{
      .request = request_of(request, choices, adapter, std::move(network), std::move(base)),
      .files = files,
      .folder = request.output};
  take_training(request.how, run.request, observer);
  if (run.request.supervision.has_floats)
    refuse_rotated_states(stages_that_made(files, quote_text(request.input)), run.request, observer);
  read_training_texts(
      request.how, {.data = request.data, .valid = request.valid, .folder = request.output},
      [&](std::string_view path) { return weights->file(path); }, run.request, observer);
  RecoverReport report{train_with(request.how, std::move(run), observer)};
  write_training_report(request.report, "recover", report.training, request.output);
  return report;
}

}  // namespace crumb::jobs
