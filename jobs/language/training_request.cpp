#include "jobs/language/training_request.h"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/seconds.h"
#include "base/text/fixed.h"
#include "jobs/engines/open_engine.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "quant/recipe/recipe.h"

namespace crumb::jobs {
namespace {

/// tasks::chosen for a field.
template <class Choice, std::size_t kCount>
Choice chosen(const std::array<std::string_view, kCount>& names, const std::string& name,
              std::string_view field, const Observer& observer) {
  return tasks::chosen<Choice>(names, name, observer.spelled(field).c_str());
}

/// Returns "1.5e-05", as printf's %g writes it.
std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

Progress progress_of(const tasks::LanguageProgress& now) {
  const double left = static_cast<double>(now.steps - now.line.step) * now.seconds_per_step;
  return {.what = "training",
          .items = "steps",
          .done = static_cast<std::size_t>(now.line.step),
          .all = static_cast<std::size_t>(now.steps),
          .details = "loss " + fixed(now.line.loss, 4),
          .rate = fixed(now.tokens_per_second(), 0) + " tokens/s",
          .seconds_left = left};
}

/// Keeps the memory that a step frees in the process: the next step needs as much again, and new pages from
/// the system took a fifth of the time.
void keep_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

tasks::LanguageNews news_for(Observer& observer, double rate) {
  const double start = now_seconds();
  return {
      .progress = [&observer](const tasks::LanguageProgress& now) { observer.progress(progress_of(now)); },
      .layer_done =
          [&observer, start](const tasks::LayerLine& line, std::int64_t layers) {
            observer.progress(
                {.what = "training layer by layer",
                 .items = "layers",
                 .done = static_cast<std::size_t>(line.layer + 1),
                 .all = static_cast<std::size_t>(layers),
                 .details = "error " + fixed(line.error_before, 4) + " to " + fixed(line.error, 4),
                 .seconds = now_seconds() - start,
                 .is_milestone = true});
          },
      .predicted =
          [&observer, start](std::int64_t done, std::int64_t sequences) {
            observer.progress({.what = "predicting with the float model",
                               .items = "sequences",
                               .done = static_cast<std::size_t>(done),
                               .all = static_cast<std::size_t>(sequences),
                               .seconds = now_seconds() - start,
                               .is_milestone = done == sequences});
          },
      .loss_rose =
          [&observer, rate](const tasks::LossRise& rise) {
            observer.note("the loss rose to " + fixed(rise.mean, 4) + ", the mean of " +
                          std::to_string(tasks::LossWatch::kSteps) + " steps, from " + fixed(rise.least, 4) +
                          ": a " + observer.spelled("rate") + " below " + short_number(rate) +
                          " may be wanted");
          }};
}

}  // namespace

bool is_writer() {
  const char* const rank = std::getenv("RANK");
  return !rank || std::string_view(rank) == "0";
}

void take_training(const LanguageTraining& training, tasks::LanguageRequest& request,
                   const Observer& observer) {
  request.supervision.temperature = training.temperature;
  request.samples.length = training.length;
  request.steps.count = training.steps;
  request.optimizer.warm_up = training.warm_up;
  request.optimizer.schedule =
      chosen<tasks::RateSchedule>(tasks::kRateScheduleNames, training.schedule, "schedule", observer);
  request.steps.at_once = training.at_once;
  request.steps.recomputes = training.recompute;
  request.optimizer.average = training.average;
  request.compute.products =
      training.products.empty()
          ? open_language_trainer().fast_products(training.device)
          : chosen<tasks::Products>(tasks::kProductsNames, training.products, "products", observer);
  request.optimizer.states = chosen<tasks::OptimizerStates>(
      tasks::kOptimizerStatesNames, training.optimizer_states, "optimizer_states", observer);
  request.compute.device = training.device;
  request.compute.threads = training.threads;
  request.supervision.teacher = {.file = training.teacher_logits, .top = training.top_k};
}

Stage end_to_end_stage(const LanguageTraining& training, const EndToEnd& more) {
  Stage stage = parse_stage("end_to_end");
  const auto say = [&](const char* option, double value) {
    if (value != stage.value(option)) stage.options[option] = value;
  };
  say("steps", static_cast<double>(training.steps));
  say("warm_up", static_cast<double>(training.warm_up));
  say("scales_alone", more.scales_alone ? 1 : 0);
  say("learn_adapters", more.learn_adapters ? 1 : 0);
  // Without these options their defaults follow from the network.
  if (more.rate > 0) stage.options["rate"] = more.rate;
  if (more.scale_rate > 0) stage.options["scale_rate"] = more.scale_rate;
  return stage;
}

std::vector<Stage> stages_that_made(const std::map<std::string, std::string>& files,
                                    const std::string& name) {
  const auto recipe = files.find(std::string(kRecipePath));
  return recipe == files.end() ? std::vector<Stage>() : parse_recipe(recipe->second, name).stages;
}

void refuse_rotated_states(std::span<const Stage> stages, const tasks::LanguageRequest& request,
                           const Observer& observer) {
  const bool compares = request.supervision.loss == tasks::LanguageLoss::kHidden ||
                        request.supervision.loss == tasks::LanguageLoss::kMix;
  if (!compares && request.block_wise.passes == 0) return;
  const bool rotates = std::ranges::any_of(
      stages, [](const Stage& stage) { return stage.name == "rotate" && stage.value("streams") != 0; });
  if (!rotates) return;
  const std::string loss = observer.spelled("loss");
  throw usage_error(
      std::string("the stage rotate changes what goes from layer to layer, and ") +
      (compares ? loss + " " + std::string(name_of(request.supervision.loss)) : "training layer by layer") +
      " compares that with the float network's, which is not rotated; expected " +
      (compares ? "another " + loss : "end_to_end alone") + ", or rotate:streams=off");
}

training::Json train_with(const LanguageTraining& training, training::LanguageRun run, Observer& observer) {
  run.keep_every = training.checkpoint_every;
  run.restart = training.restart;
  run.writes = is_writer();
  run.news = news_for(observer, run.request.optimizer.rate);
  if (training.keeps_memory) keep_memory();
  const ProgressScope scope(observer);
  return training::train_language_into(run, open_language_trainer());
}

}  // namespace crumb::jobs
