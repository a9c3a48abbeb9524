#include "runtime/language/decoding.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "runtime/meter.h"

namespace crumb::runtime {
namespace {

using text::TokenId;

/// Tokens of a run: enough that each weight is decoded rarely, few enough that their values stay in caches.
constexpr std::size_t kPiece = 256;

std::size_t context_of(const LanguageModel& model, const DecodingOptions& options) {
  if (options.context == 0) return model.positions();
  if (options.context > model.positions())
    throw Error("a context of " + std::to_string(options.context) + " tokens: the model has " +
                    std::to_string(model.positions()) + " positions",
                ErrorKind::kUsage);
  return options.context;
}

Array rows_of_ints(const Ints& shape, std::int64_t first, std::int64_t step) {
  Array made(ElementType::kInt64, shape);
  for (std::int64_t& value : made.writable<std::int64_t>()) {
    value = first;
    first += step;
  }
  return made;
}

}  // namespace

Decoding::Decoding(const LanguageModel& model, const DecodingOptions& options)
    : model_(&model),
      options_(options),
      context_(context_of(model, options)),
      session_(model.model(), model.ties(), static_cast<std::int64_t>(context_)) {}

std::size_t Decoding::positions_kept(std::size_t length, std::size_t after) const {
  const bool turned = turns_otherwise(positions());
  if (turned != turns_otherwise(length) || turned != turns_otherwise(after)) return 0;
  return std::min(length, positions());
}

std::span<const float> Decoding::replace(std::size_t length, std::span<const TokenId> ids, std::size_t kept) {
  const std::size_t after = length + ids.size(), stays = positions_kept(length, after);
  if (ids.size() > context_ || after > context_)
    throw Error("the context is full: " + std::to_string(length) + " tokens and " +
                std::to_string(ids.size()) + " more are over its " + std::to_string(context_));
  std::vector<TokenId> before = ids_;
  std::optional<Session::Tail> tail;
  try {
    tail = session_.tail(static_cast<std::int64_t>(stays));
  } catch (const Stopped&) {  // memory is lacking: they are run again when they are needed
  } catch (const std::bad_alloc&) {
  }
  const bool turns = turns_otherwise(after) && !turns_otherwise(stays);
  try {
    session_.truncate(static_cast<std::int64_t>(stays));
    ids_.resize(length);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    return run_behind(turns ? after : kPiece, kept);
  } catch (...) {
    ids_.swap(before);
    go_back(stays, std::move(tail));
    throw;
  }
}

void Decoding::go_back(std::size_t stays, std::optional<Session::Tail> tail) {
  const MeterScope uncounted(nullptr);  // what the run had must come back, whatever its limits
  try {
    if (tail) return session_.put_back(std::move(*tail));
    session_.truncate(static_cast<std::int64_t>(std::min(stays, positions())));
  } catch (const std::exception&) {  // memory is lacking: they are run again
    session_.truncate(0);
  }
}

std::span<const float> Decoding::run_behind(std::size_t piece, std::size_t kept) {
  const std::size_t silent = ids_.size() - kept;
  logits_.clear();
  for (std::size_t at = positions(); at < ids_.size(); at = positions()) {
    check_interrupt();
    const std::size_t end = std::min(at + piece, ids_.size());
    const std::size_t now = end > silent ? end - std::max(at, silent) : 0;
    const std::span<const float> made = run(std::span(ids_).subspan(at, end - at), now);
    if (now == kept) return made;
    logits_.insert(logits_.end(), made.begin(), made.end());
  }
  return logits_;
}

std::span<const float> Decoding::run(std::span<const TokenId> ids, std::size_t kept) {
  made_ = {};  // its memory is what the run takes
  const auto count = static_cast<std::int64_t>(ids.size()), past = session_.length();
  std::vector<Array> inputs;
  for (const LanguageModel::Input input : model_->inputs()) {
    switch (input) {
      case LanguageModel::Input::kIds: {
        Array& made = inputs.emplace_back(ElementType::kInt64, Ints{1, count});
        std::ranges::copy(ids, made.writable<std::int64_t>().begin());
        break;
      }
      case LanguageModel::Input::kMask: inputs.push_back(rows_of_ints({1, past + count}, 1, 0)); break;
      case LanguageModel::Input::kPositions: inputs.push_back(rows_of_ints({1, count}, past, 1)); break;
      case LanguageModel::Input::kLogitPositions: {
        const auto rows = static_cast<std::int64_t>(std::max<std::size_t>(kept, 1));
        inputs.push_back(rows_of_ints({rows}, count - rows, 1));
        break;
      }
    }
  }
  const RunOptions how{.threads = options_.threads, .promise = options_.promise, .arena = &arena_};
  made_ = std::move(session_.run(std::move(inputs), how)[model_->logits()]);
  return made_.values<float>().last(kept * model_->vocabulary());
}

void Decoding::truncate(std::size_t length) {
  const bool turns = turns_otherwise(positions()) && !turns_otherwise(length);
  session_.truncate(turns ? 0 : static_cast<std::int64_t>(std::min(length, positions())));
  ids_.resize(length);
}

std::vector<std::byte> Decoding::save() const {
  const std::vector<std::byte> positions = session_.save();
  const std::uint64_t count = ids_.size();
  std::vector<std::byte> bytes(sizeof count + count * sizeof(TokenId) + positions.size());
  std::byte* at = bytes.data();
  const auto put = [&](const void* from, std::size_t size) {
    if (size > 0) std::memcpy(at, from, size);
    at += size;
  };
  put(&count, sizeof count);
  put(ids_.data(), count * sizeof(TokenId));
  put(positions.data(), positions.size());
  return bytes;
}

void Decoding::restore(std::span<const std::byte> bytes) {
  std::uint64_t count = 0;
  const bool has_count = bytes.size() >= sizeof count;
  if (has_count) std::memcpy(&count, bytes.data(), sizeof count);
  const std::size_t rest = has_count ? bytes.size() - sizeof count : 0;
  if (!has_count || count > rest / sizeof(TokenId)) throw Error("a saved cache: its ids are cut short");
  std::vector<TokenId> ids(count);
  if (count > 0) std::memcpy(ids.data(), bytes.data() + sizeof count, count * sizeof(TokenId));
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= model_->vocabulary())
      throw Error("a saved cache: the model has no token " + std::to_string(id));
  }
  Session session(model_->model(), model_->ties(), static_cast<std::int64_t>(context_));
  session.restore(bytes.subspan(sizeof count + count * sizeof(TokenId)));
  const auto length = static_cast<std::uint64_t>(session.length());
  if (length > count)
    throw Error("a saved cache: it has " + std::to_string(count) + " ids and " + std::to_string(length) +
                " positions");
  session_ = std::move(session);
  ids_ = std::move(ids);
}

}  // namespace crumb::runtime
