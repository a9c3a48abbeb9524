// Scores language models on a text that has already been read.
#pragma once

#include <string>

#include "jobs/score.h"

namespace crumb::jobs {

/// jobs::score of `text`; ignores the request's path, and makes no notes on values that are not finite.
/// `baseline`: what messages call the baseline.
ScoreReport score_text(const std::string& text, const ScoreRequest& request, const std::string& baseline,
                       Observer& observer);

}  // namespace crumb::jobs
