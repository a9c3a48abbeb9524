#include "text/configured_frame.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace crumb::text {
namespace {

/// Tokenizers of `transformers` 4 whose tokens around a text follow add_bos_token and add_eos_token, whatever
/// their tokenizer.json says; each with its defaults for the first token.
constexpr std::array<std::pair<std::string_view, bool>, 5> kOwnFrames = {{{"LlamaTokenizer", true},
                                                                          {"CodeLlamaTokenizer", true},
                                                                          {"GemmaTokenizer", true},
                                                                          {"CohereTokenizer", true},
                                                                          {"GPTNeoXTokenizer", false}}};

}  // namespace

bool configure_frame(const JsonPlace& config, bool has_json, const std::optional<TokenId>& bos,
                     const std::optional<TokenId>& eos, Frame& frame) {
  if (config.at("add_bos_token").is_null() && config.at("add_eos_token").is_null()) return false;
  std::string name = config.optional_string("tokenizer_class").value_or("");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  const auto* const own = std::ranges::find(kOwnFrames, name, &std::pair<std::string_view, bool>::first);
  if (has_json && own == kOwnFrames.end()) {
    // A tokenizer.json says it itself. Without a class, what is asked for and missing is added.
    const auto missing = [](const std::vector<TokenId>& ids, const std::optional<TokenId>& id) {
      return id && std::ranges::find(ids, *id) == ids.end();
    };
    if (!name.empty()) return false;
    if (config.boolean("add_bos_token", false) && missing(frame.before, bos))
      frame.before.insert(frame.before.begin(), *bos);
    if (config.boolean("add_eos_token", false) && missing(frame.after, eos)) frame.after.push_back(*eos);
    return true;
  }
  frame = {};
  const bool usual = has_json && own->second;
  if (bos && config.boolean("add_bos_token", usual)) frame.before = {*bos};
  if (eos && config.boolean("add_eos_token", false)) frame.after = {*eos};
  return true;
}

}  // namespace crumb::text
