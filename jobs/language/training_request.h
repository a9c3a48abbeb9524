// Turns jobs::LanguageTraining into a request for the trainer, and what goes with it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "jobs/language_training.h"
#include "jobs/observer.h"
#include "quant/recipe/stages.h"
#include "tasks/language/language_trainer.h"
#include "training/language_run.h"

namespace crumb::jobs {

/// Returns how many sequences, or lines, a step has by default.
inline std::int64_t batch_of(bool is_encoder) { return is_encoder ? 32 : 4; }

/// Whether this process writes results for all processes that train together (libtorch/peers.h): it is the
/// first of them, or the only one.
bool is_writer();

/// Sets all fields of the request that `training` gives, except its texts. Throws usage Error, which names
/// the field, for an unknown name; opens the engine's library where the request leaves the type of products
/// open.
void take_training(const LanguageTraining& training, tasks::LanguageRequest& request,
                   const Observer& observer);

/// Options of end_to_end that jobs::LanguageTraining does not have; a rate of 0 counts as not given.
struct EndToEnd {
  double rate = 0, scale_rate = 0;
  bool scales_alone = false, learn_adapters = false;
};

/// Returns the request as a stage, without the options that are not given.
Stage end_to_end_stage(const LanguageTraining& training, const EndToEnd& more);

/// Returns the stages that made a packed file, from the recipe stored in it; none where it stores none.
/// `name`: for messages.
std::vector<Stage> stages_that_made(const std::map<std::string, std::string>& files, const std::string& name);

/// Throws usage Error where states between layers are to be compared with the float network's, and one of the
/// stages that made the other network has rotated them (rotate, with its streams).
void refuse_rotated_states(std::span<const Stage> stages, const tasks::LanguageRequest& request,
                           const Observer& observer);

/// Trains into the run's folder, keeping states and the like as `training` says, and tells the observer the
/// progress. Returns the report; null where another process writes it. Throws what train_language_into()
/// throws.
training::Json train_with(const LanguageTraining& training, training::LanguageRun run, Observer& observer);

}  // namespace crumb::jobs
