// What of jobs::LanguageTraining becomes a request of the trainer's, and what goes along with it.
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

/// Sequences, or lines, of a step, where nobody says it.
inline std::int64_t batch_of(bool is_encoder) { return is_encoder ? 32 : 4; }

/// Whether this process writes what all that train together have computed (libtorch/peers.h): the first, or
/// the only one.
bool is_writer();

/// Sets all of the request that `training` says, but for its texts. Throws usage Error of a name that is
/// none, which names the field; opens the engine's library where the request leaves products open.
void take_training(const LanguageTraining& training, tasks::LanguageRequest& request,
                   const Observer& observer);

/// What end_to_end says beside jobs::LanguageTraining; a rate of 0 is not given.
struct EndToEnd {
  double rate = 0, scale_rate = 0;
  bool scales_alone = false, learn_adapters = false;
};

/// The request as the stage says it, but for what it is without.
Stage end_to_end_stage(const LanguageTraining& training, const EndToEnd& more);

/// Those that made a packed file, by the recipe that lies in it; none where it has none. `name`: for
/// messages.
std::vector<Stage> stages_that_made(const std::map<std::string, std::string>& files, const std::string& name);

/// Throws usage Error where states between layers are to be compared with the float network's, and one of the
/// stages that made the other network has rotated them (rotate, with its streams).
void refuse_rotated_states(std::span<const Stage> stages, const tasks::LanguageRequest& request,
                           const Observer& observer);

/// Trains into the run's folder, with how often a state is kept and the like from `training`, and tells the
/// observer how far it is. Gives the report, null in a process that another one writes for. Throws what
/// train_language_into() does.
training::Json train_with(const LanguageTraining& training, training::LanguageRun run, Observer& observer);

}  // namespace crumb::jobs
