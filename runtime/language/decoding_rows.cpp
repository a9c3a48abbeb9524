#include "runtime/language/decoding_rows.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace crumb::runtime {

DecodingRows::DecodingRows(const LanguageModel& model, std::size_t rows, int threads)
    : model_(&model), rows_(rows), threads_(threads), session_(model.model(), model.ties()), begins_(rows) {}

void DecodingRows::begin(std::size_t row) { begins_[row] = positions(); }

std::span<const float> DecodingRows::feed(std::span<const text::TokenId> ids) {
  const std::size_t past = positions(), longest = past - std::ranges::min(begins_);
  if (longest >= model_->positions())
    throw Error("a text of more than the " + std::to_string(model_->positions()) + " positions of the model");
  const auto rows = static_cast<std::int64_t>(rows_), total = static_cast<std::int64_t>(past) + 1;
  std::vector<Array> inputs;
  for (const LanguageModel::Input input : model_->inputs()) {
    const bool is_mask = input == LanguageModel::Input::kMask;
    const bool is_of_all = input == LanguageModel::Input::kLogitPositions;
    Array& made =
        inputs.emplace_back(ElementType::kInt64, is_of_all ? Ints{1} : Ints{rows, is_mask ? total : 1});
    const std::span<std::int64_t> values = made.writable<std::int64_t>();
    for (std::size_t row = 0; row < (is_of_all ? 1 : rows_); ++row) {
      switch (input) {
        case LanguageModel::Input::kIds: values[row] = ids[row]; break;
        case LanguageModel::Input::kMask: {
          const std::span<std::int64_t> of_row = values.subspan(row * (past + 1), past + 1);
          for (std::size_t position = 0; position <= past; ++position)
            of_row[position] = position >= begins_[row] ? 1 : 0;
          break;
        }
        case LanguageModel::Input::kPositions:
          values[row] = static_cast<std::int64_t>(past - begins_[row]);
          break;
        case LanguageModel::Input::kLogitPositions: values[0] = 0; break;
      }
    }
  }
  made_ = session_.run(std::move(inputs), {.threads = threads_, .arena = &arena_});
  return made_[model_->logits()].values<float>();
}

}  // namespace crumb::runtime
