#include "jobs/score.h"

#include "base/files/inputs.h"
#include "base/files/text.h"
#include "jobs/language/score_text.h"
#include "jobs/samples/tokenized_text.h"

namespace crumb::jobs {

ScoreReport score(const ScoreRequest& request, Observer& observer) {
  const InputWatch watch;
  ScoreReport report =
      score_text(read_tokenized_text(request.text, observer), request, "the baseline", observer);
  for (const ModelScore& scored : report.models)
    if (scored.not_finite)
      observer.note(quote_text(scored.model) + ": " + graph::text_of(*scored.not_finite));
  return report;
}

}  // namespace crumb::jobs
