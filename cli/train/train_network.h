// What crumb train task and crumb train graph have in common: a float network, the same network with
// quantizers in the loop, and the files that they write; or a grid of such runs.
#pragma once

#include <string>

#include "cli/flags/recipe_flags.h"
#include "cli/flags/verb.h"
#include "jobs/report_file.h"
#include "tasks/train/trainer.h"

namespace crumb::cli {

struct NetworkTrainingFlags {
  std::string output, sweep, profile, float_longer = "on";
  RecipeFlags recipe;
  std::int64_t batch = 0;
  double rate = 0;
  int epochs = -1, float_epochs = -1, seeds = 3, threads = 0, keep_every = 0;
  std::uint64_t seed = 0;
  bool all_layers = false, float_only = false, restart = false, json = false;
  jobs::ReportFile report;
};

void add_network_training_flags(CLI::App& verb, NetworkTrainingFlags& flags);

/// Returns the end of both verbs' help, before examples.
std::string network_training_footer();

/// Throws usage Error where flags do not go together. Called before anything is read.
void check_network_training_flags(const CLI::App& verb, const NetworkTrainingFlags& flags);

/// Trains what the request names, which has its task, network and data; everything else comes from the flags.
void train_network(const NetworkTrainingFlags& flags, tasks::TrainRequest request);

}  // namespace crumb::cli
