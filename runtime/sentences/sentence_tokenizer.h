// The lines of a text as token ids for a sentence encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/checkpoint/sentence_modules.h"
#include "runtime/sentences/prompt.h"
#include "text/text_tokenizer.h"
#include "text/tokenizer.h"

namespace crumb::runtime {

/// Two texts that the model sees as one row: a question and a passage.
struct TextPair {
  std::string first, second;
};

class SentenceTokenizer {
 public:
  /// `text`: the files of a checkpoint except for its tensors; `name` names it in messages. WordPiece is read
  /// as BERT's tokenizer, every other one as text::TextTokenizer. Throws Error where a file is missing or
  /// damaged, where BERT's tokenizer has more ids than there are embeddings, and as read_prompt() does.
  static SentenceTokenizer load(const ModelText& text, const std::string& name,
                                const PromptChoice& prompt = {});

  /// The ids, with the prompt before the line and the tokens that stand around a text, cut at the tokenizer's
  /// limit and at the transformer's. Throws Error where the text has a token of which the model has no row.
  std::vector<text::TokenId> encode(const std::string& line) const;

  /// Two texts as one row, with the type of each token: the prompt is before the first text, and the longer
  /// text is cut first (text/pair_frame.h). All types are 0 where tokenizer_config.json says that the model
  /// takes none (model_input_names). Throws Error as the other does, and where the tokenizer has no template
  /// of pairs, or where it leaves no room for their tokens.
  text::PairTokens encode(const TextPair& pair) const;

  /// The most tokens of a line.
  std::size_t max_length() const { return max_length_; }
  /// Lowers the limit (never raises it). Throws Error where no token of a line would be left.
  void limit_length(std::size_t tokens);

  /// How many of the first tokens are the prompt's and are left out of the pooling: 0 unless the model says
  /// include_prompt false.
  std::size_t unpooled() const { return unpooled_; }

 private:
  using Any = std::variant<text::Tokenizer, text::TextTokenizer>;
  explicit SentenceTokenizer(Any tokenizer) : tokenizer_(std::move(tokenizer)) {}

  std::vector<text::TokenId> encode_text(const std::string& text) const;
  bool is_special(text::TokenId id) const;

  Any tokenizer_;
  std::string prompt_;
  std::size_t max_length_ = SIZE_MAX;
  std::size_t unpooled_ = 0;
  bool takes_types_ = true;
};

}  // namespace crumb::runtime
