#include "jobs/language/scored_model.h"

#include "base/error.h"

namespace crumb::jobs {

using runtime::LanguageModel;
using text::TokenId;

void DecodingLogits::begin(std::span<const std::int32_t> window, std::size_t first) {
  decoding_.truncate(0);
  ahead_ = {};
  rest_ = window.subspan(first);
  // A window longer than this uses other rotary frequencies from its first position on.
  if (model_.switch_at() > 0 && window.size() > model_.switch_at()) {
    ahead_ = decoding_.feed(window, rest_.size());
    rest_ = {};
  } else if (first > 0) {
    decoding_.feed(window.first(first));
  }
}

std::span<const float> DecodingLogits::next(std::size_t count) {
  if (!ahead_.empty()) {
    const std::span<const float> rows = ahead_.first(count * model_.vocabulary());
    ahead_ = ahead_.subspan(rows.size());
    return rows;
  }
  const auto ids = rest_.first(count);
  rest_ = rest_.subspan(count);
  const graph::NotFiniteScope scope(watch_);
  return decoding_.feed(ids, count);
}

std::vector<TokenId> scored_ids(const LanguageModel& model, const std::string& text, std::size_t most) {
  std::vector<TokenId> ids = model.tokenizer().encode(text, false);
  if (model.first_token()) ids.insert(ids.begin(), *model.first_token());
  if (most > 0 && ids.size() > most) ids.resize(most);
  return ids;
}

void check_alike(const LanguageModel& model, const LanguageModel& other, const std::string& name,
                 const std::string& text, const std::vector<TokenId>& ids, std::size_t most) {
  if (model.vocabulary() != other.vocabulary())
    throw Error("the model has " + std::to_string(model.vocabulary()) + " logits, and " + name + " " +
                std::to_string(other.vocabulary()));
  if (scored_ids(other, text, most) != ids)
    throw Error("the tokenizer of " + name + " cuts the text into other tokens than the model's");
}

}  // namespace crumb::jobs
