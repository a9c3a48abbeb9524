#include "cli/train_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/seconds.h"
#include "base/text/fixed.h"

namespace crumb::cli {

TrainLine::TrainLine() : terminal_(isatty(STDERR_FILENO) != 0), start_(now_seconds()), last_(start_) {}

TrainLine::~TrainLine() {
  if (terminal_ && shown_) std::fprintf(stderr, "\r\x1b[K");
}

void TrainLine::update(const tasks::TrainProgress& progress) {
  const double now = now_seconds();
  if (first_ < 0) first_ = progress.done;
  if (now - last_ < (terminal_ ? 0.2 : 5.0)) return;
  last_ = now;
  const double share = (progress.done - first_) / std::max(1 - first_, 1e-9);
  std::string text = std::string(progress.phase) + " epoch " + std::to_string(progress.epoch) + " of " +
                     std::to_string(progress.epochs);
  if (std::isfinite(progress.loss)) text += ", loss " + fixed(progress.loss, 4);
  if (std::isfinite(progress.metric)) text += ", test " + fixed(progress.metric, 4);
  if (share > 0) text += ", " + fixed((now - start_) * (1 - share) / share, 0) + " s left";
  std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", text.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void SweepLines::update(const training::GridProgress& progress) {
  if (!progress.point) {
    start_ = now_seconds();
    if (progress.there > 0)
      std::fprintf(stderr, "note: %zu of %zu points are there already\n", progress.there, progress.all);
    return;
  }
  const double each = (now_seconds() - start_) / static_cast<double>(progress.done - progress.there);
  std::fprintf(stderr, "point %zu of %zu: %s: %s %s, %.0f s left\n", progress.done, progress.all,
               progress.point->name.c_str(), progress.report->at("metric").get<std::string>().c_str(),
               progress.report->at("quantized").dump().c_str(),
               each * static_cast<double>(progress.all - progress.done));
}

}  // namespace crumb::cli
