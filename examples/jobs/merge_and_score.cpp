// Puts adapters into a model's matrices, and says how far the result is from the model: merge_and_score MODEL
// OUTPUT TEXT [ADAPTER ...]. OUTPUT is a folder for floats or FILE.crumb for codes; adapters of a packed file
// need not be named.
#include <cstdio>

#include "base/error.h"
#include "jobs/merge.h"
#include "jobs/score.h"

int main(int count, char** arguments) try {
  if (count < 4) return 2;
  crumb::jobs::Observer silent;
  crumb::jobs::merge(
      {.input = arguments[1], .adapters = {arguments + 4, arguments + count}, .output = arguments[2]},
      silent);
  const auto report = crumb::jobs::score(
      {.models = {arguments[2]}, .text = arguments[3], .baseline = arguments[1], .context = 24}, silent);
  const auto& made = report.models.front().made;
  std::printf("perplexity %.4f, KL divergence %.6f nats\n", made.perplexity, made.against->kl.value);
  return 0;
} catch (const crumb::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
