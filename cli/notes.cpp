#include "cli/notes.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace crumb::cli {
namespace {

/// Fields of requests and of recipes, and what is said with one, whose flags are not called like them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kFlags = {{
    {"adapters", "--adapter"},
    {"arguments", "--set-argument"},
    {"as: tensors", "--tensors-only"},
    {"batch_axes", "--batch-axis"},
    {"form", "--to"},
    {"keeps_io_types", "--float16-io"},
    {"labelled_output", "--output"},
    {"output", "-o"},
    {"rule", "--set"},
    {"shapes", "--shape"},
    {"skip", "--exclude"},
    {"stages: gptq", "--method gptq"},
}};

}  // namespace

void Terminal::note(const std::string& text) {
  if (progress_) progress_->clear();
  std::fprintf(stderr, "note: %s\n", text.c_str());
}

void Terminal::warning(const std::string& text) {
  if (progress_) progress_->clear();
  std::fprintf(stderr, "warning: %s\n", text.c_str());
}

std::string Terminal::spelled(std::string_view field) const {
  const auto* other = std::ranges::find(kFlags, field, &std::pair<std::string_view, std::string_view>::first);
  if (other != kFlags.end()) return std::string(other->second);
  std::string flag = "--" + std::string(field);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

void Terminal::progress(const jobs::Progress& now) {
  const bool is_same =
      progress_ && now.what == begun_.what && now.all == begun_.all && now.done >= begun_.done;
  if (!is_same) progress_ = std::make_unique<Progress>(now.what, now.items, now.all, now.all_bytes);
  begun_ = now;
  if (now.details.empty() && now.rate.empty() && !now.is_milestone)
    return progress_->update(now.done, now.bytes);
  progress_->show(
      {.what = now.what,
       .done = now.done,
       .total = now.all,
       .items = now.items,
       .share = static_cast<double>(now.done) / static_cast<double>(std::max<std::size_t>(now.all, 1)),
       .details = now.details,
       .rate = now.rate,
       .seconds_left = now.seconds_left,
       .seconds = now.seconds},
      now.is_milestone);
}

Terminal& terminal() {
  static Terminal one;
  return one;
}

}  // namespace crumb::cli
