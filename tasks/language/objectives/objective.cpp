#include "tasks/language/objectives/objective.h"

#include "tasks/language/objectives/lines_objective.h"
#include "tasks/language/objectives/text_objective.h"

namespace crumb::tasks {

std::unique_ptr<Objective> objective_of(const LanguageRequest& request, const LanguageHooks& hooks) {
  if (!request.samples.lines.empty()) return std::make_unique<LinesObjective>(request);
  return std::make_unique<TextObjective>(request, hooks);
}

}  // namespace crumb::tasks
