#include "cli/train/train_progress.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "base/seconds.h"
#include "base/text/fixed.h"

namespace crumb::cli {

void TrainLine::update(const tasks::TrainProgress& progress) {
  if (first_ < 0) first_ = progress.done;
  if (!line_.is_due()) return;
  const double seconds = line_.seconds(), gone = progress.done - first_;
  std::string details;
  if (std::isfinite(progress.loss)) details = "loss " + fixed(progress.loss, 4);
  if (std::isfinite(progress.metric))
    details += (details.empty() ? "test " : ", test ") + fixed(progress.metric, 4);
  line_.show({.what = "training (" + std::string(progress.phase) + ")",
              .done = static_cast<std::size_t>(progress.epoch),
              .total = static_cast<std::size_t>(progress.epochs),
              .items = "epochs",
              .share = progress.done,
              .details = std::move(details),
              .rate = gone > 0 ? fixed(100 * gone / seconds, 1) + " %/s" : "",
              .seconds_left = gone > 0 ? seconds * (1 - progress.done) / gone : -1});
}

void SweepLines::update(const training::GridProgress& progress) {
  if (!progress.point) {
    start_ = now_seconds();
    if (progress.there > 0)
      std::fprintf(stderr, "note: %zu of %zu points are there already\n", progress.there, progress.all);
    return;
  }
  const double seconds = now_seconds() - start_;
  const std::size_t made = progress.done - progress.there;
  const double each = seconds / static_cast<double>(made);
  const std::string text = progress_text(
      {.what = "training",
       .done = progress.done,
       .total = progress.all,
       .items = "points",
       .share = static_cast<double>(progress.done) / static_cast<double>(progress.all),
       .details = progress.point->name + ": " + progress.report->at("metric").get<std::string>() + " " +
                  progress.report->at("quantized").dump(),
       .rate = duration_text(each) + " each",
       .seconds_left = each * static_cast<double>(progress.all - progress.done)});
  std::fprintf(stderr, "%s\n", text.c_str());
}

}  // namespace crumb::cli
