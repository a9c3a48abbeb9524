// Language models scored on a text that is read already.
#pragma once

#include <string>

#include "jobs/score.h"

namespace crumb::jobs {

/// jobs::score of `text`, whatever the request's path says, without notes of what is not finite. `baseline`:
/// what that is called in messages.
ScoreReport score_text(const std::string& text, const ScoreRequest& request, const std::string& baseline,
                       Observer& observer);

}  // namespace crumb::jobs
